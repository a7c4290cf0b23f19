"""Interleaved timing: in each round every engine has a turn of several calls, in an order that changes by rounds.

So what slows the machine for a while slows all alike. A turn begins with a pause, in which the threads of the one
before stop spinning, and a call that is not counted, which warms the caches. The figure of a turn is the median of
its calls; the figure of an engine is the median of its turns, with their quartiles; how many times as fast one is as
another is the median over the rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Clock = Callable[[], float]
MOST_CALLS = 1000


@dataclass(frozen=True)
class Schedule:
    """How long to measure: rounds, seconds that a turn shall take, seconds of pause before each turn."""

    rounds: int = 11
    turn_seconds: float = 0.25
    pause_seconds: float = 0.03


@dataclass(frozen=True)
class OwnClock:
    """A call that says itself how many seconds it took, as one that asks a device's clock."""

    seconds: Callable[[], float]


@dataclass(frozen=True)
class Timing:
    """Seconds: the median of the turns, their lower and upper quartile, and the figure of each turn."""

    median: float
    lower: float
    upper: float
    turns: tuple[float, ...]

    def times_as_fast(self, other: Timing) -> float:
        """How many times as fast as *other*, whose turns were in the same rounds: the median over these.

        The machine's speed changes from round to round for both alike, and is not in it.
        """
        if len(self.turns) != len(other.turns):
            raise ValueError(f"{len(self.turns)} turns are not those of the rounds of {len(other.turns)}")
        return statistics.median(theirs / ours for ours, theirs in zip(self.turns, other.turns, strict=True))

    def to_json(self) -> dict[str, object]:
        return {"median": self.median, "lower": self.lower, "upper": self.upper, "turns": list(self.turns)}


def timing(turns: Sequence[float]) -> Timing:
    """The statistics of the figures of some turns; one turn is its own quartiles. Raises ValueError for none."""
    if not turns:
        raise ValueError("there is no turn to make statistics of")
    lower, median, upper = statistics.quantiles(turns, n=4, method="inclusive") if len(turns) > 1 else [turns[0]] * 3
    return Timing(median, lower, upper, tuple(turns))


def interleave(
    calls: Mapping[str, Callable[[], object] | OwnClock],
    schedule: Schedule,
    clock: Clock = time.perf_counter,
    pause: Callable[[float], object] = time.sleep,
) -> dict[str, Timing]:
    """Time *calls* by turns under *schedule*. Each has been called before, so that nothing is built here.

    Without calls there is nothing to time, and the answer is empty.
    """
    counts = {name: _calls_per_turn(call, schedule, clock) for name, call in calls.items()}
    turns: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for number in range(schedule.rounds):
        first = number % max(len(names), 1)
        for name in names[first:] + names[:first]:
            pause(schedule.pause_seconds)
            turns[name].append(_turn(calls[name], counts[name], clock))
    return {name: timing(values) for name, values in turns.items()}


def _calls_per_turn(call: Callable[[], object] | OwnClock, schedule: Schedule, clock: Clock) -> int:
    seconds = _turn(call, 1, clock)
    return max(1, min(MOST_CALLS, round(schedule.turn_seconds / max(seconds, 1e-9))))


def _turn(call: Callable[[], object] | OwnClock, count: int, clock: Clock) -> float:
    taken = call.seconds if isinstance(call, OwnClock) else lambda: _seconds(call, clock)
    taken()
    return statistics.median(taken() for _ in range(count))


def _seconds(call: Callable[[], object], clock: Clock) -> float:
    start = clock()
    call()
    return clock() - start


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive numbers. Raises ValueError for none."""
    return statistics.geometric_mean(values)
