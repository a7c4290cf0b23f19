"""Local improvement: a region as a whole moves home, or to another site, where that costs less."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from byoc.partition.problem import HOME, Problem


def move_whole_regions(
    problem: Problem, usable: Sequence[int], chosen: Sequence[int], regions: Sequence[Sequence[int]]
) -> list[int]:
    """*chosen* after each of *regions*, the smallest first, has gone where it costs least, the others staying."""
    mover = _Mover(problem, usable, chosen, regions)
    for number in sorted(range(len(regions)), key=lambda r: (len(regions[r]), r)):
        mover.offer(number)
    return sorted(set(mover.candidate))


class _Mover:
    def __init__(self, problem: Problem, usable: Sequence[int], chosen: Sequence[int], regions):  # noqa: ANN001
        self.problem, self.regions = problem, regions
        self.candidate = [0] * problem.operators
        self.region = [-1] * problem.operators
        for c in chosen:
            for o in problem.candidates[c].operators:
                self.candidate[o] = c
        for number, members in enumerate(regions):
            for c in members:
                for o in problem.candidates[c].operators:
                    self.region[o] = number
        self.alone: dict[tuple[int, int], int] = {}
        for c in usable:
            candidate = problem.candidates[c]
            if len(candidate.operators) == 1:
                key = candidate.operators[0], candidate.site
                if key not in self.alone or candidate.seconds < problem.candidates[self.alone[key]].seconds:
                    self.alone[key] = c
        self.touching: list[list[int]] = [[] for _ in range(problem.operators)]
        for t, value in enumerate(problem.values):
            for o in {*value.consumers, *(() if value.producer is None else (value.producer,))}:
                self.touching[o].append(t)

    def offer(self, number: int) -> None:
        """Move the region *number* to the site where it costs least now."""
        problem = self.problem
        operators = sorted(o for c in self.regions[number] for o in problem.candidates[c].operators)
        now = problem.candidates[self.regions[number][0]].site
        tensors = list(dict.fromkeys(t for o in operators for t in self.touching[o]))
        before = [self.candidate[o] for o in operators]
        best, least = before, self._cost(operators, tensors, now)
        for site in range(len(problem.sites)):
            there = [self.alone.get((o, site)) for o in operators]
            if site == now or None in there:
                continue
            self._put(operators, there)  # type: ignore[arg-type]
            cost = self._cost(operators, tensors, site)
            if cost < least:
                best, least = there, cost  # type: ignore[assignment]
        self._put(operators, best)

    def _put(self, operators: Iterable[int], candidates: Iterable[int]) -> None:
        for o, c in zip(operators, candidates, strict=True):
            self.candidate[o] = c

    def _cost(self, operators: Sequence[int], tensors: Sequence[int], site: int) -> float:
        """Work, launch and transfers as far as *operators* matter, with neighbours of their site as one region."""
        candidates, problem = self.problem.candidates, self.problem
        cost = sum(candidates[c].seconds for c in {self.candidate[o] for o in operators})
        if site != HOME and not any(
            candidates[self.candidate[n]].site == site and self.region[n] != self.region[operators[0]]
            for t in tensors for n in self._ends(t)
        ):
            cost += problem.sites[site].launch + problem.sites[site].bounds.min_gain
        for t in tensors:
            value = problem.values[t]
            source = HOME if value.producer is None else candidates[self.candidate[value.producer]].site
            needed = {candidates[self.candidate[c]].site for c in value.consumers}
            if value.result:
                needed.add(HOME)
            cost += sum(float(problem.transfer[t, source, q]) for q in sorted(needed) if q != source)
        return cost

    def _ends(self, tensor: int) -> Iterable[int]:
        value = self.problem.values[tensor]
        return value.consumers if value.producer is None else (value.producer, *value.consumers)
