"""What pinned memory brings a call on a device: ``python -m benchmarks.opencl.pinned [MODEL.onnx or name ...]``.

Calls from numpy to numpy of one library take turns: results straight into the caller's arrays, results through pinned
pieces (as they go on a device with memory of its own where they are large enough), the inputs in pinned memory that the
caller keeps, and both. Outputs are compared first. A name is an architecture of ``export_zoo.py``, with
``_b8`` for a batch, or ``product4096``.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

import numpy as np

import byoc
from benchmarks.opencl.device_cases import model_files
from benchmarks.opencl.profile_overhead import DIGITS
from benchmarks.opencl.queue import session_of
from benchmarks.rounds import Schedule, interleave
from byoc.runtime.opencl.devices import import_pyopencl, open_device
from byoc.runtime.opencl.pinned import pieces_of, pinned_array
from byoc.runtime.profile.seeded import seeded_inputs

WAYS = {"plain": (False, False), "results": (True, False), "inputs": (False, True), "both": (True, True)}


def measure(model: Path, rounds: int) -> None:
    """Print the medians of one model."""
    library = byoc.compile(model, targets="opencl")
    plain = seeded_inputs(library.inputs)
    pinned = {name: pinned_array(np.shape(v), np.asarray(v).dtype.name) for name, v in plain.items()}
    for name, array in pinned.items():
        array[...] = plain[name]
    expected = library.run(plain)
    session, pieces = session_of(library), pieces_of(import_pyopencl(), open_device())

    def call(results: bool, inputs: bool) -> object:
        session._pinned = pieces if results else None
        return library.run(pinned if inputs else plain)

    calls = {name: functools.partial(call, *way) for name, way in WAYS.items()}
    for run in calls.values():
        for got, wanted in zip(run(), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    found = interleave(calls, Schedule(rounds=rounds))
    row = "  ".join(f"{name} {1e3 * timing.median:.3f}" for name, timing in found.items())
    sizes = [sum(np.asarray(v).nbytes for v in values) >> 10 for values in (plain.values(), expected)]
    print(f"{model.stem} ({sizes[0]} KB in, {sizes[1]} KB out), pinned, ms: {row}", flush=True)


def main() -> None:
    """Measure each model that is named; the digit classifier by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=[str(DIGITS)])
    parser.add_argument("--rounds", type=int, default=21)
    arguments = parser.parse_args()
    print(open_device().info)
    for model in model_files(arguments.models):
        measure(model, arguments.rounds)


if __name__ == "__main__":
    main()
