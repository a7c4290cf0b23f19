"""Joins neighbouring units of one site wherever no other path leads from one to the other.

Units are visited parents first; paths are searched within levels (a unit's level is above those of all its parents).
Near-linear: a search that takes too long counts as a path that was found. Source: Relay's MergeCompilerRegions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.partition.problem import HOME

SEARCH = 3000  # units that one search looks at before it gives up


def merge_units(
    site: Sequence[int],
    parents: Sequence[Sequence[int]],
    order: Sequence[int],
    fits: Callable[[int, int], bool] | None = None,
) -> list[int]:
    """For each unit the number of the unit that stands for its region; a unit at home stands for itself.

    *order* has parents first. *fits* says of two regions whether they may be one; None lets all.
    """
    merger = _Merger(site, parents, fits)
    for unit in order:
        merger.visit(unit)
    return [merger.find(u) for u in range(len(site))]


class _Merger:
    def __init__(self, site: Sequence[int], parents: Sequence[Sequence[int]], fits: Callable[[int, int], bool] | None):
        self._site = site
        self._direct = parents
        self._above = [list(p) for p in parents]
        self._below: list[list[int]] = [[] for _ in site]
        self._level = [0] * len(site)
        self._union = list(range(len(site)))
        self._fits = fits

    def find(self, unit: int) -> int:
        """The unit that *unit* has become."""
        union = self._union
        while union[unit] != unit:
            union[unit] = union[union[unit]]
            unit = union[unit]
        return unit

    def visit(self, unit: int) -> None:
        """Place *unit* below its parents and join it with those of its site."""
        level = self._level
        parents = list(dict.fromkeys(self.find(p) for p in self._direct[unit]))
        level[unit] = 1 + max((level[p] for p in parents), default=-1)
        for parent in parents:
            self._below[parent].append(unit)
        mine = self._site[unit]
        if mine == HOME:
            return
        for parent in [p for p in parents if self._site[p] == mine]:
            parent, me = self.find(parent), self.find(unit)
            if parent == me or (self._fits is not None and not self._fits(parent, me)):
                continue
            if not self._is_bypassed(parent, me):
                self._join(parent, me, parents)

    def _is_bypassed(self, parent: int, me: int) -> bool:
        """True when a path leads from *parent* to *me* through another unit."""
        level = self._level
        floor = level[parent]
        seen = {me, parent}
        pending = [me]
        while pending:
            unit = pending.pop()
            for found in self._parents(unit):
                if found == parent:
                    if unit != me:
                        return True
                elif found not in seen and level[found] > floor:
                    seen.add(found)
                    pending.append(found)
            if len(seen) > SEARCH:
                return True
        return False

    def _parents(self, unit: int) -> list[int]:
        """The units that *unit* reads as they are now."""
        find = self.find
        above = self._above[unit]
        if all(self._union[u] == u and u != unit for u in above):
            return above
        now = dict.fromkeys(find(p) for p in above)
        now.pop(unit, None)
        self._above[unit] = list(now)
        return self._above[unit]

    def _join(self, parent: int, me: int, parents: Sequence[int]) -> None:
        """Make *parent* and *me* one; the one with fewer neighbours is added to the other."""
        size = [len(self._above[u]) + len(self._below[u]) for u in (parent, me)]
        keep, gone = (parent, me) if size[0] >= size[1] else (me, parent)
        top = max(self._level[parent], 1 + max((self._level[p] for p in self._parents(me) if p != parent), default=-1))
        raised = top > self._level[keep]
        self._union[gone] = keep
        fewer = self._below[gone]
        self._above[keep] += self._above[gone]
        self._below[keep] += fewer
        self._above[gone], self._below[gone] = [], []
        self._level[keep] = top
        self._lift(keep, None if raised else fewer)

    def _lift(self, unit: int, fresh: Sequence[int] | None) -> None:
        """Raise what reads *unit* above it; only those of *fresh* can lie too low if it is given."""
        level, find = self._level, self.find
        pending = []
        for lower in fresh if fresh is not None else self._below[unit]:
            lower = find(lower)
            if lower != unit and level[lower] <= level[unit]:
                level[lower] = level[unit] + 1
                pending.append(lower)
        while pending:
            top = pending.pop()
            below = dict.fromkeys(find(u) for u in self._below[top])
            below.pop(top, None)
            self._below[top] = list(below)
            for lower in below:
                if level[lower] <= level[top]:
                    level[lower] = level[top] + 1
                    pending.append(lower)
