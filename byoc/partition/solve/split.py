"""Splits a region that is beyond its limits into parts that keep them, where the cut costs least.

Parts are intervals of a topological order, so that none waits for another in a cycle; which intervals is found by
dynamic programming over their ends, the cost of an interval being the launches of its connected pieces and what it
must bring to the intervals after it. On a chain that is the best cut, and with equal costs the fewest parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from byoc.partition.problem import Problem
from byoc.partition.solve.region_bytes import RegionBytes
from byoc.partition.solve.units import UnitGraph

STEPS = 1_500_000  # interval ends that dynamic programming looks at; beyond, each part takes all that it can
BYTES_STEPS = 40_000  # the same where bytes are counted for each


def split_region(problem: Problem, sizes: RegionBytes, units: UnitGraph, members: Sequence[int]) -> list[list[int]]:
    """The units *members* of one site, in topological order, as connected parts within the limits.

    A part may still be too small (``min_operators``), or a single unit too large: the caller looks.
    """
    splitter = _Splitter(problem, sizes, units, members)
    return [piece for part in splitter.parts() for piece in pieces(units, part)]


def pieces(units: UnitGraph, members: Sequence[int]) -> list[list[int]]:
    """*members* as connected pieces, each in the order of *members*."""
    inside = dict.fromkeys(members)
    found: list[list[int]] = []
    place: dict[int, int] = {}
    for unit in members:
        if unit in place:
            continue
        place[unit] = len(found)
        found.append([])
        pending = [unit]
        while pending:
            near = pending.pop()
            for other in (*units.parents[near], *units.children[near]):
                if other in inside and other not in place:
                    place[other] = place[unit]
                    pending.append(other)
    for unit in members:
        found[place[unit]].append(unit)
    return found


class _Splitter:
    def __init__(self, problem: Problem, sizes: RegionBytes, units: UnitGraph, members: Sequence[int]):
        self.problem, self.sizes, self.units, self.members = problem, sizes, units, list(members)
        self.site = units.site[members[0]]
        place = problem.sites[self.site]
        self.bounds = place.bounds
        self.price = place.launch + place.bounds.min_gain
        self.count = [len(problem.candidates[units.candidates[u]].operators) for u in members]
        self.position = {u: k for k, u in enumerate(members)}
        self._find_bridges()

    def _find_bridges(self) -> None:
        """For each position the tensors made there that later ones read: (last reader, seconds to bring)."""
        self.bridges: list[list[tuple[int, float]]] = [[] for _ in self.members]
        unit_of, position = self.units.unit_of, self.position
        for k, unit in enumerate(self.members):
            for operator in self.problem.candidates[self.units.candidates[unit]].operators:
                for t in self.sizes.touching[operator]:
                    value = self.problem.values[t]
                    if value.producer != operator:
                        continue
                    readers = [unit_of[c] for c in value.consumers]
                    last = max((position[r] for r in readers if r in position), default=-1)
                    paid = any(self.units.site[r] == self.site and r not in position for r in readers)
                    if last > k:
                        seconds = 0.0 if paid else float(self.problem.transfer[t, self.site, self.site])
                        self.bridges[k].append((last, seconds))

    def parts(self) -> list[list[int]]:
        """The intervals."""
        size = len(self.members)
        reach = min(size, self.bounds.max_operators or size)
        if size * reach > (STEPS if self.bounds.max_bytes is None else BYTES_STEPS):
            return self._fill()
        ends = self._best_ends()
        parts, start = [], 0
        while start < size:
            parts.append(self.members[start : ends[start]])
            start = ends[start]
        return parts

    def _best_ends(self) -> list[int]:
        """For each start of an interval where it best ends."""
        size = len(self.members)
        best: list[tuple[float, int]] = [(math.inf, 0)] * size + [(0.0, 0)]
        ends = [k + 1 for k in range(size)]
        for start in range(size - 1, -1, -1):
            for end, cost in self._intervals(start):
                total = (cost + best[end][0], 1 + best[end][1])
                if total < best[start]:
                    best[start] = total
                    ends[start] = end
        return ends

    def _intervals(self, start: int) -> Iterator[tuple[int, float]]:
        """The ends of intervals from *start* within the limits, and what each costs; one unit always counts."""
        members, unit = self.members, self.units
        root: dict[int, int] = {}
        operators, leaving, parts = 0, 0.0, 0
        closing: dict[int, float] = {}

        def find(u: int) -> int:
            while root[u] != u:
                root[u] = root[root[u]]
                u = root[u]
            return u

        for k in range(start, len(members)):
            operators += self.count[k]
            if k > start and self.bounds.max_operators is not None and operators > self.bounds.max_operators:
                return
            me = members[k]
            root[me] = me
            parts += 1
            for p in unit.parents[me]:
                if p in root and find(p) != find(me):
                    root[find(p)] = find(me)
                    parts -= 1
            leaving -= closing.pop(k, 0.0)
            for last, seconds in self.bridges[k]:
                leaving += seconds
                closing[last] = closing.get(last, 0.0) + seconds
            if k == start or self._fits(start, k + 1):
                yield k + 1, parts * self.price + leaving + self._small(operators)

    def _small(self, operators: int) -> float:
        """Parts with fewer operators than a region needs are a last resort."""
        return 1e9 if operators < self.bounds.min_operators else 0.0

    def _fits(self, start: int, end: int) -> bool:
        most = self.bounds.max_bytes
        return most is None or self.sizes.count([self.units.candidates[u] for u in self.members[start:end]]) <= most

    def _fill(self) -> list[list[int]]:
        """Each part takes as many units as it can."""
        parts, start = [], 0
        while start < len(self.members):
            low, step = start + 1, 1
            while low < len(self.members) and self._holds(start, min(low + step, len(self.members))):
                low, step = min(low + step, len(self.members)), step * 2
            while step > 1:
                step //= 2
                if low + step <= len(self.members) and self._holds(start, low + step):
                    low += step
            parts.append(self.members[start:low])
            start = low
        return parts

    def _holds(self, start: int, end: int) -> bool:
        most = self.bounds.max_operators
        return (most is None or sum(self.count[start:end]) <= most) and self._fits(start, end)
