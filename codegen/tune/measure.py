"""Times of candidates, taken interleaved and warm, so that what disturbs one disturbs all.

The clock of one thread measures what this thread computed, so that what others do on the same core does not count.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

Run = Callable[[], None]
Clock = Callable[[], float]
SAMPLE_SECONDS = 0.002  # a sample takes at least as long, by repeating the call
MOST_REPEATS = 200
FIRST_ROUNDS = 3  # before the first candidate is dropped
DROP = 1.15  # times the shortest of all: what the shortest of a candidate may take to stay


@dataclass
class Times:
    """The seconds of a call, one number a sample; ``dropped`` where the candidate was given up."""

    samples: list[float] = field(default_factory=list)
    dropped: bool = False

    @property
    def shortest(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


def measure(
    candidates: Sequence[Sequence[Run]],
    rounds: int,
    clock: Clock = time.thread_time,
    started: Callable[[int], None] = lambda number: None,
    most_repeats: int = MOST_REPEATS,
) -> list[Times]:
    """The times of *candidates* over so many *rounds*, in each of which every candidate has a turn, a later one first.

    A candidate is a sequence of calls, of equal work on different memory, which take turns as well.
    *started* gets the number of a candidate before its turn; a sample repeats the calls *most_repeats* times at most.
    """
    repeats = []
    for number, calls in enumerate(candidates):
        started(number)
        repeats.append(_repeats(calls, clock, most_repeats))
    times = [Times() for _ in candidates]
    for k in range(rounds):
        alive = [i for i, t in enumerate(times) if not t.dropped]
        turn = k % len(alive)
        for i in (*alive[turn:], *alive[:turn]):
            started(i)
            times[i].samples.append(_sample(candidates[i], repeats[i], clock))
        if k + 1 >= FIRST_ROUNDS:
            best = min(t.shortest for t in times)
            for t in times:
                t.dropped = t.dropped or t.shortest > DROP * best
        if len(candidates) > 1 and sum(not t.dropped for t in times) == 1:
            break
    return times


def _repeats(calls: Sequence[Run], clock: Clock, most: int) -> int:
    """How often *calls* are repeated in a sample, after a first pass that warms caches and faults pages in."""
    _pass(calls, 1)
    start = clock()
    _pass(calls, 1)
    seconds = clock() - start
    return min(max(int(SAMPLE_SECONDS / seconds), 1), most) if seconds > 0 else most


def _sample(calls: Sequence[Run], repeats: int, clock: Clock) -> float:
    calls[-1]()  # instructions, and what the calls share, as in the model: in the caches
    start = clock()
    _pass(calls, repeats)
    return (clock() - start) / (repeats * len(calls))


def _pass(calls: Sequence[Run], repeats: int) -> None:
    for _ in range(repeats):
        for call in calls:
            call()


@contextmanager
def on_one_core() -> Iterator[None]:
    """This thread on one of its processors, where the system allows it, and afterwards on all of them again."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
