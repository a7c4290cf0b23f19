"""A batch of trials: compiled candidates for one kernel, checked against the first of them, and timed in turns.

A batch is data, so that another process can run it, in which a candidate may crash or never end
(``worker_process.py``). Whoever runs it is notified which candidate is about to do something.
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
Started = Callable[[int], None]  # gets the number of the candidate that is about to run


@dataclass(frozen=True)
class CompiledCandidate:
    """A candidate: the function of *signature* in a shared *library*, and its constants in order."""

    library: bytes
    signature: Signature
    constants: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True)
class TrialBatch:
    """The candidates *compiled* to be timed on *inputs* in so many *rounds*, each by so many *threads*.

    The output has one shape for all. *team* is the library of ``kernel_team_source``, where there are several threads;
    *caches* are the bytes of the data caches by level.
    """

    compiled: tuple[CompiledCandidate, ...]
    inputs: tuple[np.ndarray, ...]
    output: tuple[tuple[int, ...], str]
    rounds: int
    threads: int = 1
    team: bytes | None = None
    caches: Mapping[int, int] = field(default_factory=dict)

    def run(self, started: Started) -> list[Outcome]:
        """What became of each candidate."""
        return run_batch(self, started)

    def only(self, numbers: Sequence[int]) -> TrialBatch:
        """The batch of these of its candidates."""
        return replace(self, compiled=tuple(self.compiled[k] for k in numbers))


@dataclass(frozen=True)
class Timed:
    """The shortest and the median seconds of a call; ``dropped`` where it was given up, being clearly slower."""

    shortest: float
    median: float
    dropped: bool = False


Outcome = Timed | str  # a text says why there are no times


class AnyTrialBatch(Protocol):
    """Candidates that can be tried in another process, whatever runs them; as data."""

    @property
    def compiled(self) -> tuple[object, ...]:
        """The candidates."""

    def run(self, started: Started) -> list[Outcome]:
        """What became of each candidate, in order; *started* gets the number of the one that is about to run."""

    def only(self, numbers: Sequence[int]) -> AnyTrialBatch:
        """The batch of these of its candidates."""


RunBatch = Callable[[TrialBatch], Sequence[Outcome]]


def run_batch(batch: TrialBatch, started: Started = lambda number: None, clock: Clock | None = None) -> list[Outcome]:
    """What became of each candidate, in their order, run in this process.

    One thread is timed by what it computed, on one core; several by the clock on the wall.
    """
    team = KernelTeam(batch.threads, batch.team)
    try:
        calls, failed = _checked(batch, team, started)
        clock = clock or (time.thread_time if batch.threads == 1 else time.perf_counter)
        with on_one_core() if batch.threads == 1 else nullcontext():
            numbers = list(calls)
            times = measure(list(calls.values()), batch.rounds, clock, lambda k: started(numbers[k])) if calls else []
    finally:
        team.end()
    timed = {n: Timed(t.shortest, t.median, t.dropped) for n, t in zip(numbers, times, strict=True)}
    return [failed[k] if k in failed else timed[k] for k in range(len(batch.compiled))]


def _checked(batch: TrialBatch, team: KernelTeam, started: Started) -> tuple[dict[int, list[Run]], dict[int, str]]:
    """The calls of the candidates whose result agrees with that of the first that ran, and why others have none."""
    inputs = [copy_of(a) for a in batch.inputs]
    shape, dtype = batch.output
    output = aligned(shape, numpy_dtype(dtype))
    calls: dict[int, list[Run]] = {}
    failed: dict[int, str] = {}
    expected: np.ndarray | None = None
    handles: dict[bytes, object] = {}
    for number, candidate in enumerate(batch.compiled):
        started(number)
        try:
            if candidate.library not in handles:
                symbols = [r.signature.symbol for r in batch.compiled if r.library == candidate.library]
                handles[candidate.library] = opened(candidate.library, symbols)
            found = [
                team.bound(handles[candidate.library], candidate.signature, [*inputs, *constants, output])
                for constants in copies_of([copy_of(a) for a in candidate.constants], batch.caches)
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
