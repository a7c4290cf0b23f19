"""A heat: compiled candidates for one kernel, checked against the first of them, and timed in turns.

A heat is data, so that another process can run it, in which a candidate may crash or never end
(``worker_process.py``). Whoever runs it is told which candidate is about to do something.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from byoc.codegen.tune.arrays import aligned, copies_of, copy_of
from byoc.codegen.tune.measure import Clock, Run, measure, on_one_core
from byoc.codegen.tune.native_kernel import KernelTeam, opened
from byoc.runtime.core.errors import ByocError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.signature import Signature

LARGEST_ERROR = 1e-2  # of the largest result: what a candidate may differ from the first
Tell = Callable[[int], None]  # gets the number of the candidate that is about to run


@dataclass(frozen=True)
class Runner:
    """A candidate: the function of *signature* in a shared *library*, and its constants in order."""

    library: bytes
    signature: Signature
    constants: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True)
class Heat:
    """*runners* to be timed on *inputs* in so many *rounds*, each by so many *threads*.

    The output has one shape for all. *team* is the library of ``kernel_team_source``, where there are several threads;
    *caches* are the bytes of the data caches by level.
    """

    runners: tuple[Runner, ...]
    inputs: tuple[np.ndarray, ...]
    output: tuple[tuple[int, ...], str]
    rounds: int
    threads: int = 1
    team: bytes | None = None
    caches: Mapping[int, int] = field(default_factory=dict)

    def run(self, tell: Tell) -> list[Outcome]:
        """What became of each runner."""
        return run_heat(self, tell)

    def only(self, numbers: Sequence[int]) -> Heat:
        """The heat of these of its runners."""
        return replace(self, runners=tuple(self.runners[k] for k in numbers))


@dataclass(frozen=True)
class Timed:
    """The shortest and the median seconds of a call; ``dropped`` where it was given up, being clearly slower."""

    shortest: float
    median: float
    dropped: bool = False


Outcome = Timed | str  # a text says why there are no times


class AnyHeat(Protocol):
    """Candidates that can be tried in another process, whatever runs them; as data."""

    @property
    def runners(self) -> tuple[object, ...]:
        """The candidates."""

    def run(self, tell: Tell) -> list[Outcome]:
        """What became of each runner, in their order; *tell* hears the number of the one that is about to run."""

    def only(self, numbers: Sequence[int]) -> AnyHeat:
        """The heat of these of its runners."""


RunHeat = Callable[[Heat], Sequence[Outcome]]


def run_heat(heat: Heat, tell: Tell = lambda number: None, clock: Clock | None = None) -> list[Outcome]:
    """What became of each runner, in their order, run in this process.

    One thread is timed by what it computed, on one core; several by the clock on the wall.
    """
    team = KernelTeam(heat.threads, heat.team)
    try:
        calls, failed = _checked(heat, team, tell)
        clock = clock or (time.thread_time if heat.threads == 1 else time.perf_counter)
        with on_one_core() if heat.threads == 1 else nullcontext():
            numbers = list(calls)
            times = measure(list(calls.values()), heat.rounds, clock, lambda k: tell(numbers[k])) if calls else []
    finally:
        team.end()
    timed = {n: Timed(t.shortest, t.median, t.dropped) for n, t in zip(numbers, times, strict=True)}
    return [failed[k] if k in failed else timed[k] for k in range(len(heat.runners))]


def _checked(heat: Heat, team: KernelTeam, tell: Tell) -> tuple[dict[int, list[Run]], dict[int, str]]:
    """The calls of the runners whose result agrees with that of the first that ran, and why others have none."""
    inputs = [copy_of(a) for a in heat.inputs]
    shape, dtype = heat.output
    output = aligned(shape, numpy_dtype(dtype))
    calls: dict[int, list[Run]] = {}
    failed: dict[int, str] = {}
    expected: np.ndarray | None = None
    handles: dict[bytes, object] = {}
    for number, runner in enumerate(heat.runners):
        tell(number)
        try:
            if runner.library not in handles:
                symbols = [r.signature.symbol for r in heat.runners if r.library == runner.library]
                handles[runner.library] = opened(runner.library, symbols)
            found = [
                team.bound(handles[runner.library], runner.signature, [*inputs, *constants, output])
                for constants in copies_of([copy_of(a) for a in runner.constants], heat.caches)
            ]
        except ByocError as error:
            failed[number] = f"failed: {error}"
            continue
        output[...] = 0
        found[0]()
        expected = output.copy() if expected is None else expected
        if agrees(output, expected):
            calls[number] = found
        else:
            failed[number] = "failed: its result is another one"
    return calls, failed


def agrees(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether two results are the same within what schedules may differ in rounding, relative to the largest."""
    if found.shape != expected.shape:
        return False
    a, b = found.astype("float64"), expected.astype("float64")
    finite = np.isfinite(b)
    if not np.array_equal(np.where(finite, 0.0, a), np.where(finite, 0.0, b), equal_nan=True):
        return False
    largest = np.max(np.abs(b[finite]), initial=0.0)
    return bool(np.all(np.abs(a[finite] - b[finite]) <= LARGEST_ERROR * largest))
