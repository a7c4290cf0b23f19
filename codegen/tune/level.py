"""How much may be tried: the levels ``none``, ``fast``, ``normal``, ``wide`` and ``heavy``."""

from __future__ import annotations

from dataclasses import dataclass

from byoc.codegen.kernel.choice import Choice, SearchSpace, SpaceCollector
from byoc.codegen.tune import NO_TUNING
from byoc.errors import UserError


@dataclass(frozen=True)
class Level:
    """``candidates`` of a kernel at most, and at most ``slower`` times what the best is expected to take.

    Kernels are tuned, the longest first, until those that remain are expected to take the share ``rest`` of the time of
    all, or ``seconds`` have passed. Each candidate is timed in so many ``rounds``.
    """

    name: str
    candidates: int
    slower: float
    rest: float
    seconds: float
    rounds: int

    def of(self, space: SearchSpace) -> list[Choice]:
        """The candidates to measure, the model's own, the best of each other kind, then the next best; none twice."""
        limit = space.cost * self.slower
        near = [choice for cost, choice in space.ranked if cost <= limit] or [space.expected]
        kinds = {choice.kind: choice for choice in reversed(near)}
        first = sorted(kinds.values(), key=near.index)
        return list(dict.fromkeys((*first, *near)))[: self.candidates]

    def worth(self, asked: SpaceCollector) -> list[SearchSpace]:
        """The spaces that matter, the one with the longest time first."""
        rows = asked.in_order()
        remaining = total = sum(seconds for _, seconds in rows)
        kept = []
        for space, seconds in rows:
            if remaining <= self.rest * total:
                break
            kept.append(space)
            remaining -= seconds
        return kept

    def covers(self, other: str) -> bool:
        """Whether what was found at this level will do at the level *other*."""
        return _ORDER.index(self.name) >= _ORDER.index(other)


LEVELS = {
    level.name: level
    for level in (
        Level(NO_TUNING, candidates=1, slower=1.0, rest=1.0, seconds=0.0, rounds=0),
        Level("fast", candidates=3, slower=1.3, rest=0.05, seconds=25.0, rounds=8),
        Level("normal", candidates=10, slower=1.6, rest=0.02, seconds=300.0, rounds=16),
        Level("wide", candidates=40, slower=2.0, rest=0.01, seconds=1800.0, rounds=20),
        Level("heavy", candidates=200, slower=3.0, rest=0.0, seconds=7200.0, rounds=30),
    )
}
_ORDER = list(LEVELS)


def level_named(name: object) -> Level:
    """Raises UserError for a name that is none of :data:`LEVELS`."""
    if not isinstance(name, str) or name not in LEVELS:
        raise UserError(f"the level of tuning is one of {', '.join(LEVELS)}, got {name!r}")
    return LEVELS[name]
