"""Local improvement: a region as a whole moves home, or to another site, where that costs less."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

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
    def __init__(
        self, problem: Problem, usable: Sequence[int], chosen: Sequence[int], regions: Sequence[Sequence[int]]
    ):
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
        self.read: list[list[int]] = [[] for _ in range(problem.operators)]
        self.made: list[list[int]] = [[] for _ in range(problem.operators)]
        self.readers: list[dict[int, int]] = []  # of a value, how many at each site
        for t, value in enumerate(problem.values):
            for o in dict.fromkeys(value.consumers):
                self.read[o].append(t)
            if value.producer is not None:
                self.made[value.producer].append(t)
            self.readers.append(Counter(self._site(o) for o in dict.fromkeys(value.consumers)))

    def offer(self, number: int) -> None:
        """Move the region *number* to the site where it costs least now."""
        problem = self.problem
        operators = sorted(o for c in self.regions[number] for o in problem.candidates[c].operators)
        now = problem.candidates[self.regions[number][0]].site
        tensors = sorted({t for o in operators for t in (*self.read[o], *self.made[o])})
        before = [self.candidate[o] for o in operators]
        best, least = before, self._cost(operators, tensors, now)
        for site in range(len(problem.sites)):
            there = [self.alone[o, site] for o in operators if (o, site) in self.alone]
            if site == now or len(there) < len(operators):
                continue
            self._put(operators, there)
            cost = self._cost(operators, tensors, site)
            if cost < least:
                best, least = there, cost
        self._put(operators, best)

    def _put(self, operators: Iterable[int], candidates: Iterable[int]) -> None:
        for o, c in zip(operators, candidates, strict=True):
            before = self._site(o)
            self.candidate[o] = c
            after = self._site(o)
            for t in self.read[o] if before != after else ():
                self.readers[t][before] -= 1
                self.readers[t][after] += 1

    def _site(self, operator: int) -> int:
        return self.problem.candidates[self.candidate[operator]].site

    def _cost(self, operators: Sequence[int], tensors: Sequence[int], site: int) -> float:
        """Work, launch and transfers as far as *operators* matter, with neighbours of their site as one region."""
        candidates, problem = self.problem.candidates, self.problem
        cost = sum(candidates[c].seconds for c in {self.candidate[o] for o in operators})
        region = self.region[operators[0]]
        if site != HOME and not any(
            self._site(n) == site and self.region[n] != region for o in operators for n in self._neighbours(o)
        ):
            cost += problem.sites[site].launch + problem.sites[site].bounds.min_gain
        for t in tensors:
            value = problem.values[t]
            source = HOME if value.producer is None else self._site(value.producer)
            needed = {site for site, count in self.readers[t].items() if count}
            if value.result:
                needed.add(HOME)
            cost += sum(float(problem.transfer[t, source, q]) for q in sorted(needed) if q != source)
        return cost

    def _neighbours(self, operator: int) -> Iterator[int]:
        """Who makes what *operator* reads, and who reads what it makes."""
        values = self.problem.values
        for t in self.read[operator]:
            producer = values[t].producer
            if producer is not None:
                yield producer
        for t in self.made[operator]:
            yield from values[t].consumers
