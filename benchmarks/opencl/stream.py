"""Calls in a row against a stream of calls on a device: ``python -m benchmarks.opencl.stream [MODEL ...]``.

``run`` waits for each call, ``map`` has the copies of the next and the last call go beside the computing of one. Both
are from numpy to numpy, on inputs of which three different sets take turns; outputs are compared first. A figure is
that of a call, of ``--calls`` in a row, in turns of one process. A model is an ONNX file, an architecture of
``export_zoo.py``, with ``_b32`` for a batch, or ``product4096``.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

import byoc
from benchmarks.opencl.device_cases import model_files
from benchmarks.opencl.profile_overhead import DIGITS
from benchmarks.rounds import OwnClock, Schedule, interleave
from byoc.runtime.opencl.devices import open_device
from byoc.runtime.profile.seeded import seeded_inputs

SETS = 3  # of inputs


def seconds_of(work: Callable[[], object], calls: int) -> OwnClock:
    """A turn of *work*, which makes so many *calls*, as seconds a call."""

    def seconds() -> float:
        start = time.perf_counter()
        work()
        return (time.perf_counter() - start) / calls

    return OwnClock(seconds)


def measure(model: Path, rounds: int, calls: int) -> None:
    """Print the medians of one model."""
    library = byoc.compile(model, targets="opencl")
    first = seeded_inputs(library.inputs)
    sets = [{k: np.roll(np.asarray(v), n, -1) for k, v in first.items()} for n in range(SETS)]

    def stream(count: int) -> Iterator[Mapping[str, np.ndarray]]:
        return itertools.islice(itertools.cycle(sets), count)

    for got, inputs in zip(library.map(stream(2 * SETS)), stream(2 * SETS), strict=True):
        for one, other in zip(got, library.run(inputs), strict=True):
            np.testing.assert_array_equal(one, other)

    def in_a_row() -> None:
        for inputs in stream(calls):
            library.run(inputs)

    def as_a_stream() -> None:
        for _ in library.map(stream(calls)):
            pass

    turns = {"run": seconds_of(in_a_row, calls), "map": seconds_of(as_a_stream, calls)}
    timed = interleave(turns, Schedule(rounds=rounds, turn_seconds=0.0))
    found = {name: timing.median for name, timing in timed.items()}
    sizes = [sum(np.asarray(v).nbytes for v in values) >> 10 for values in (first.values(), library.run(first))]
    print(
        f"{model.stem} ({sizes[0]} KB in, {sizes[1]} KB out), ms a call: run {1e3 * found['run']:.3f}, "
        f"map {1e3 * found['map']:.3f}, {found['run'] / found['map']:.2f} times as fast",
        flush=True,
    )


def main() -> None:
    """Measure each model that is named; the digit classifier by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=[str(DIGITS)])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=60)
    arguments = parser.parse_args()
    print(open_device().info)
    for model in model_files(arguments.models):
        measure(model, arguments.rounds, arguments.calls)


if __name__ == "__main__":
    main()
