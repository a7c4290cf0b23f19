"""Runs on a busy machine: ``python -m benchmarks.cpu.busy MODEL.onnx --beside 3``.

So many other processes compute without an end on the processors that this one may use. Ours and ONNX Runtime, both
with a thread for each processor, have turns of ``--calls`` calls in each of ``--rounds`` rounds, first on the machine
as it is, then beside the others, after their outputs agreed. Printed are milliseconds of a call, the median and the
mean of all calls (calls of a team that waits for a processor are rare and long), and how many times as fast ours is.
The status is 1 where outputs differ by more than TOLERANCE of their range.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime

import byoc
from benchmarks.engines import random_inputs, relative_difference

TOLERANCE = 1e-4
MILLI = 1e3


def compute_forever() -> None:
    """What another program does that has work for a whole processor."""
    while True:
        sum(range(100_000))


def turns(engines: dict[str, Callable[[], object]], rounds: int, calls: int) -> dict[str, list[float]]:
    """Milliseconds of every call, by engine."""
    found: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(rounds):
        for name in list(engines)[:: 1 if number % 2 else -1]:
            for _ in range(calls):
                start = time.perf_counter()
                engines[name]()
                found[name].append(MILLI * (time.perf_counter() - start))
    return found


def shown(what: str, found: dict[str, list[float]]) -> str:
    """A line of the table."""
    figures = [f"{statistics.median(v):.3f} / {statistics.fmean(v):.3f}" for v in found.values()]
    ours, other = (statistics.median(v) for v in found.values())
    return f"| {what} | {' | '.join(figures)} | {other / ours:.2f} |"


def main() -> int:
    """Compare, idle and busy."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cpu.busy", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--beside", type=int, default=3, help="how many processes compute beside (default: 3)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=20)
    options = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    inputs = dict(random_inputs(options.model))
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(options.model), settings, providers=["CPUExecutionProvider"])
    library = byoc.compile(str(options.model))
    engines: dict[str, Callable[[], object]] = {
        "ours": lambda: library.run(inputs),
        "ONNX Runtime": lambda: session.run(None, inputs),
    }
    given = [np.asarray(v) for v in library.run(inputs)]
    if relative_difference(given, session.run(None, inputs)) > TOLERANCE:
        print("the outputs differ")
        return 1
    print(f"{options.model.stem}, {threads} threads; median / mean in ms")
    print("| beside | ours | ONNX Runtime | times as fast |\n|---|--:|--:|--:|")
    print(shown("nothing", turns(engines, options.rounds, options.calls)))
    others = [multiprocessing.Process(target=compute_forever, daemon=True) for _ in range(options.beside)]
    for process in others:
        process.start()
    time.sleep(1)
    print(shown(f"{options.beside} processes", turns(engines, options.rounds, options.calls)))
    for process in others:
        process.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
