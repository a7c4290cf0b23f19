"""Makes a solution of chosen candidates: regions are formed, and what no region within the limits takes goes home."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from byoc.partition.problem import HOME, Problem
from byoc.partition.solve.paths import cycles
from byoc.partition.solve.region_bytes import RegionBytes
from byoc.partition.solve.regions import Regions, regions_and_broken
from byoc.partition.solve.units import can_run

Settled = tuple[tuple[int, ...], Regions]


class Settler:
    """Settles choices of one problem."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.sizes = RegionBytes(problem)
        self.home: dict[int, int] = {}
        self._settled: dict[tuple[int, ...], Settled | None] = {}
        for number, candidate in enumerate(problem.candidates):
            if candidate.site == HOME and len(candidate.operators) == 1:
                operator = candidate.operators[0]
                if operator not in self.home or candidate.seconds < problem.candidates[self.home[operator]].seconds:
                    self.home[operator] = number

    def settle(self, chosen: Iterable[int]) -> Settled | None:
        """A solution near *chosen*, which cover each operator once; None where something must go home and cannot."""
        wished = tuple(sorted(chosen))
        if wished not in self._settled:  # different searches often end at the same
            self._settled[wished] = self._found(wished)
        return self._settled[wished]

    def _found(self, chosen: Sequence[int]) -> Settled | None:
        current = self._ordered(chosen)
        while current is not None:
            regions, broken = regions_and_broken(self.problem, current, self.sizes)
            if not broken:
                return tuple(current), regions
            current = self._send_home(current, regions, broken)
        return None

    def _ordered(self, chosen: Sequence[int]) -> list[int] | None:
        """*chosen* with candidates that wait for one another taken apart, at home."""
        current = list(chosen)
        while True:
            candidates = self.problem.candidates
            large = [c for c in current if len(candidates[c].operators) > 1]
            if not large:
                return current
            if can_run(self.problem, current):
                return current
            unit = {o: k for k, c in enumerate(large) for o in candidates[c].operators}
            rings = cycles(self.problem, unit)
            if not rings:
                return current
            apart = {unit[o] for o in rings[0][0] if o in unit} | {unit[o] for o in rings[0][-1] if o in unit}
            kept = self._at_home(current, [large[min(apart)]])
            if kept is None:
                return None
            current = kept

    def _send_home(
        self, chosen: Sequence[int], regions: Regions, broken: Sequence[tuple[tuple[int, ...], str]]
    ) -> list[int] | None:
        """*chosen* without the regions that break limits; of too many regions those go that save least."""
        beyond = [c for region, why in broken if not why.endswith("regions at most") for c in region]
        leaving = beyond
        if not beyond:
            over: dict[tuple[int, ...], int] = {}
            for region, _ in broken:
                sites = self.problem.region_limits[self.problem.candidates[region[0]].site][0]
                over[sites] = over.get(sites, 0) + 1
            for sites, count in over.items():
                there = [r for r in regions if self.problem.candidates[r[0]].site in sites]
                leaving += [c for region in sorted(there, key=self._saves)[:count] for c in region]
        return self._at_home(chosen, leaving)

    def _saves(self, region: Sequence[int]) -> float:
        """The seconds that *region* works less than the home would; infinite where the home cannot."""
        candidates = self.problem.candidates
        operators = [o for c in region for o in candidates[c].operators]
        if any(o not in self.home for o in operators):
            return math.inf
        return sum(candidates[self.home[o]].seconds for o in operators) - sum(candidates[c].seconds for c in region)

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


def went_home(problem: Problem, chosen: Sequence[int]) -> tuple[str, ...]:
    """A sentence for each operator at home among *chosen* that is beyond the limits of a place on its own."""
    sizes = RegionBytes(problem)
    notes = []
    for c in chosen:
        candidate = problem.candidates[c]
        if candidate.site != HOME or len(candidate.operators) > 1:
            continue
        for other in problem.covering[candidate.operators[0]]:
            if problem.candidates[other].site != HOME and problem.candidates[other].operators == candidate.operators:
                why = sizes.beyond((other,))
                if why is not None and not why.endswith(f"at least {_least(problem, other)}"):
                    site = problem.sites[problem.candidates[other].site].name
                    notes.append(
                        f"{problem.name_of(candidate.operators[0])} is beyond the limits of {site} on its own ({why}): "
                        "the host takes it"
                    )
    return tuple(notes)


def _least(problem: Problem, candidate: int) -> int:
    return problem.sites[problem.candidates[candidate].site].bounds.min_operators
