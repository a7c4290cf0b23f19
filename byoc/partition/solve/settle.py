"""Makes a solution of chosen candidates: regions are formed, and what no region within the limits takes goes home."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from byoc.partition.problem import HOME, Problem
from byoc.partition.solve.region_bytes import RegionBytes
from byoc.partition.solve.regions import Regions, regions_and_broken
from byoc.partition.solve.ways import circles

Settled = tuple[tuple[int, ...], Regions]


class Settler:
    """Settles choices of one problem; *notes* of the last one say what went home against the choice, and why."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.sizes = RegionBytes(problem)
        self.notes: list[str] = []
        self.home: dict[int, int] = {}
        for number, candidate in enumerate(problem.candidates):
            if candidate.site == HOME and len(candidate.operators) == 1:
                operator = candidate.operators[0]
                if operator not in self.home or candidate.seconds < problem.candidates[self.home[operator]].seconds:
                    self.home[operator] = number

    def settle(self, chosen: Iterable[int]) -> Settled | None:
        """A solution near *chosen*, which cover each operator once; None where something must go home and cannot."""
        self.notes = []
        current = self._ordered(sorted(chosen))
        while current is not None:
            regions, broken = regions_and_broken(self.problem, current, self.sizes)
            if not broken:
                return tuple(current), regions
            current = self._send_home(current, broken)
        return None

    def _ordered(self, chosen: Sequence[int]) -> list[int] | None:
        """*chosen* with candidates that wait for one another taken apart, at home."""
        current = list(chosen)
        while True:
            candidates = self.problem.candidates
            large = [c for c in current if len(candidates[c].operators) > 1]
            if not large:
                return current
            unit = {o: k for k, c in enumerate(large) for o in candidates[c].operators}
            rings = circles(self.problem, unit)
            if not rings:
                return current
            apart = {unit[o] for o in rings[0][0] if o in unit} | {unit[o] for o in rings[0][-1] if o in unit}
            kept = self._at_home(current, [large[min(apart)]])
            if kept is None:
                return None
            current = kept

    def _send_home(self, chosen: Sequence[int], broken: Sequence[tuple[tuple[int, ...], str]]) -> list[int] | None:
        count: dict[int, list[tuple[float, tuple[int, ...]]]] = {}
        leaving: list[int] = []
        for region, why in broken:
            if why.endswith("regions at most"):
                count.setdefault(self.problem.candidates[region[0]].site, []).append((0.0, region))
                continue
            leaving += region
            if len(region) == 1:
                candidate = self.problem.candidates[region[0]]
                self.notes.append(
                    f"{self.problem.name_of(candidate.operators[0])} is beyond the limits of "
                    f"{self.problem.sites[candidate.site].name} on its own ({why}): the host takes it"
                )
        if not leaving:
            leaving = [c for over in count.values() for _, region in over for c in region]
        return self._at_home(chosen, leaving)

    def _at_home(self, chosen: Sequence[int], leaving: Iterable[int]) -> list[int] | None:
        """*chosen* with the operators of *leaving* one by one at home; None where one cannot be there."""
        gone = set(leaving)
        kept = [c for c in chosen if c not in gone]
        for c in sorted(gone):
            for operator in self.problem.candidates[c].operators:
                if operator not in self.home:
                    return None
                kept.append(self.home[operator])
        return sorted(kept)
