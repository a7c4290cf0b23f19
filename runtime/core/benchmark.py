"""Timing: how long a call takes, repeated. Source: ``Module.time_evaluator``, ``BenchmarkResult``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from byoc.runtime.core.device_work import timed_to_the_end


class BenchmarkResult:
    """Seconds of each repetition, with their statistics. Source: ``tvm.runtime.module.BenchmarkResult``."""

    def __init__(self, results: Sequence[float]):
        self.results = tuple(results)
        times = np.asarray(self.results, "float64")
        self.mean, self.std, self.median = float(times.mean()), float(times.std()), float(np.median(times))
        self.min, self.max = float(times.min()), float(times.max())

    def __repr__(self) -> str:
        names = ("min", "mean", "median", "max", "std")
        return f"BenchmarkResult({', '.join(f'{name}={getattr(self, name)}' for name in names)})"

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        head = " ".join(f"{name + ' (ms)':^12}" for name in names)
        values = " ".join(f"{getattr(self, name) * 1e3:^12.4f}" for name in names)
        return f"Execution time summary:\n{head}\n{values}\n"


def benchmark(
    call: Callable[[], object],
    repeat: int = 5,
    number: int = 5,
    min_repeat_ms: int = 0,
    cooldown_interval_ms: int = 0,
    repeats_to_cooldown: int = 1,
) -> BenchmarkResult:
    """Seconds for one *call*: *repeat* times the mean of *number* calls, or of as many as take *min_repeat_ms*.

    One call before is not counted. Raises UserError for a call that comes back while what it started on a device has
    not been waited for. Source: ``Module.time_evaluator``.
    """
    with timed_to_the_end("a call"):
        call()
    results = []
    for turn in range(max(repeat, 1)):
        count = max(number, 1)
        while True:
            start = time.perf_counter()
            for _ in range(count):
                call()
            seconds = time.perf_counter() - start
            if seconds * 1e3 >= min_repeat_ms:
                break
            count = max(int(count * 1.6), count + 1)
        results.append(seconds / count)
        if cooldown_interval_ms > 0 and repeats_to_cooldown > 0 and (turn + 1) % repeats_to_cooldown == 0:
            time.sleep(cooldown_interval_ms / 1e3)
    return BenchmarkResult(results)
