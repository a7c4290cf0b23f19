"""What profiling costs a run on OpenCL: ``python -m benchmarks.opencl.profile_overhead [MODEL.onnx] [--rounds N]``.

The model is compiled twice for the device, and calls of both take turns (``rounds.py``). Four are reported: one that
was never profiled, its twin (what differs between these two is noise), one for which profiling was switched on and off
again, and one while it is on: the medians and the least of their turns. Profiling that is off should cost nothing: its
queue keeps no times.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import byoc
from benchmarks.rounds import Schedule, interleave
from byoc.runtime.library import Library
from byoc.runtime.profile.seeded import seeded_inputs

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
NEVER, TWIN, OFF, ON = "never profiled", "its twin", "profiled before, off now", "profiling on"


def switched(library: Library, on: bool) -> None:
    """Switch the profiling of every module of *library*."""
    for module in library.module.imports:
        module.profile(on)


def main() -> None:
    """Compile, run in turns, and print the medians beside the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", type=Path, default=DIGITS)
    parser.add_argument("--rounds", type=int, default=21)
    arguments = parser.parse_args()
    libraries = {
        name: byoc.compile(arguments.model, targets=["opencl", "c"], fallback=False) for name in (NEVER, TWIN, OFF, ON)
    }
    inputs = seeded_inputs(libraries[NEVER].inputs)
    expected = libraries[NEVER].run(inputs)
    for name in (OFF, ON):
        switched(libraries[name], True)
    for library in libraries.values():
        for got, wanted in zip(library.run(inputs), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
    switched(libraries[OFF], False)
    libraries[OFF].run(inputs)
    calls = {name: lambda library=library: library.run(inputs) for name, library in libraries.items()}
    found = interleave(calls, Schedule(rounds=arguments.rounds))
    median, least = found[NEVER].median, min(found[NEVER].turns)
    print(f"{'':<26} {'median':>9} {'':>13}{'least':>9}")
    for name, timing in found.items():
        best = min(timing.turns)
        shown = [
            f"{1e3 * v:9.4f} ms {100 * (v / base - 1):+7.2f} %" for v, base in ((timing.median, median), (best, least))
        ]
        print(f"{name:<26}", *shown)


if __name__ == "__main__":
    main()
