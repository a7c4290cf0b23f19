"""Placements with the shortest schedule (``schedule.py``): every one looked at where problems are small, else search.

Small problems are enumerated, operators in order, their candidates and the regions that these join, and left where a
bound says that nothing better follows. Larger ones start from good placements by sum of costs and of one site, and move
single candidates and whole regions as long as the schedule gets shorter and time is left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from byoc.partition.problem import HOME, Problem, Solution
from byoc.partition.solve.evaluate import check, is_solution
from byoc.partition.solve.heuristic import greedy_cover, heuristic
from byoc.partition.solve.refusal import infeasible, nothing_found
from byoc.partition.solve.schedule import EXACT, shortest_possible, shortest_time
from byoc.partition.solve.settle import Settled, Settler, went_home

SMALL = 10  # operators up to which every placement is looked at


def shortest_schedule(problem: Problem, usable: Sequence[int], start: Solution | None, deadline: float) -> Solution:
    """The placement with the shortest schedule that is found before *deadline*, with a bound.

    Raises PartitionError where none was found that keeps the limits.
    """
    settler = Settler(problem)
    search = _Search(problem, settler)
    search.offer(heuristic(problem, usable, settler, deadline)[0])
    if start is not None:
        search.offer((start.chosen, start.regions))
    for homely in (True, False):
        search.take(greedy_cover(problem, usable, homely))
    allowed = [[c for c in covering if c in set(usable)] for covering in problem.covering]
    bound, exact = shortest_possible(problem, allowed), False
    if problem.operators <= SMALL:
        exact = _Enumeration(problem, allowed, search, deadline).run()
    else:
        search.improve(allowed, deadline, bound)
    if search.best is None:
        raise infeasible(problem) if exact else nothing_found(problem)
    chosen, regions = search.best
    check(problem, chosen, regions)
    if exact or search.least - bound <= EXACT * search.least:
        bound = search.least
    method = "enumeration" if exact else "heuristic"
    seconds = shortest_time(problem, chosen, regions)
    return Solution(tuple(chosen), tuple(regions), seconds, search.least, bound, method, went_home(problem, chosen))


class _Search:
    """The best placement so far."""

    def __init__(self, problem: Problem, settler: Settler):
        self.problem, self.settler = problem, settler
        self.best: Settled | None = None
        self.least = float("inf")

    def take(self, chosen: Sequence[int] | None) -> bool:
        """Settle *chosen*; whether that is shorter than what was known."""
        return chosen is not None and self.offer(self.settler.settle(chosen))

    def offer(self, settled: Settled | None) -> bool:
        """Keep *settled* if it is shorter than what was known; says whether."""
        if settled is None:
            return False
        seconds = shortest_time(self.problem, *settled, penalized=True, within=self.least)
        if seconds >= self.least:
            return False
        self.best, self.least = settled, seconds
        return True

    def improve(self, allowed: Sequence[Sequence[int]], deadline: float, bound: float) -> None:
        """Other candidates for one operator after the other, and other sites for whole regions."""
        better = True
        while better and self.best is not None and self.least > bound * (1 + EXACT):
            better = self._move_regions(allowed, deadline)
            for operator in range(self.problem.operators):
                for c in allowed[operator]:
                    if time.monotonic() > deadline:
                        return
                    if c not in self.best[0]:
                        better |= self.take(self._with([c], allowed))

    def _move_regions(self, allowed: Sequence[Sequence[int]], deadline: float) -> bool:
        assert self.best is not None
        better = False
        alone = {}
        for options in allowed:
            for c in options:
                candidate = self.problem.candidates[c]
                if len(candidate.operators) == 1:
                    alone[candidate.operators[0], candidate.site] = c
        for region in self.best[1]:
            operators = [o for c in region for o in self.problem.candidates[c].operators]
            for site in range(len(self.problem.sites)):
                moved = [alone[o, site] for o in operators if (o, site) in alone]
                if time.monotonic() < deadline and len(moved) == len(operators):
                    better |= self.take(self._with(moved, allowed))
        return better

    def _with(self, wished: Sequence[int], allowed: Sequence[Sequence[int]]) -> list[int] | None:
        """The best placement's candidates with *wished* instead of those they overlap."""
        assert self.best is not None
        candidates = self.problem.candidates
        chosen = list(wished)
        covered = {o for c in wished for o in candidates[c].operators}
        chosen += [c for c in self.best[0] if covered.isdisjoint(candidates[c].operators)]
        covered |= {o for c in chosen for o in candidates[c].operators}
        for o in range(self.problem.operators):
            if o not in covered:
                singles = [c for c in allowed[o] if len(candidates[c].operators) == 1]
                if not singles:
                    return None
                chosen.append(min(singles, key=lambda c: (candidates[c].site != HOME, candidates[c].seconds)))
        return sorted(chosen)


class _Enumeration:
    """Every placement, operators in order, as long as a bound allows something shorter."""

    def __init__(self, problem: Problem, allowed: Sequence[Sequence[int]], search: _Search, deadline: float):
        self.problem, self.search, self.deadline = problem, search, deadline
        self.allowed = [list(options) for options in allowed]
        self.regions: list[list[int]] = []
        self.chosen: list[int] = []
        self.complete = True

    def run(self) -> bool:
        """Whether all was looked at in time."""
        self._place(0, frozenset())
        return self.complete

    def _place(self, operator: int, covered: frozenset[int]) -> None:
        while operator in covered:
            operator += 1
        if time.monotonic() > self.deadline:
            self.complete = False
            return
        if operator == self.problem.operators:
            self._finish()
            return
        options = self.allowed[operator]
        for c in list(options):
            candidate = self.problem.candidates[c]
            if not covered.isdisjoint(candidate.operators):
                continue
            saved = {o: self.allowed[o] for o in candidate.operators}
            for o in candidate.operators:
                self.allowed[o] = [c]
            if shortest_possible(self.problem, self.allowed) < self.search.least * (1 - EXACT):
                self._join(c, operator, covered | set(candidate.operators))
            for o, before in saved.items():
                self.allowed[o] = before

    def _join(self, c: int, operator: int, covered: frozenset[int]) -> None:
        self.chosen.append(c)
        site = self.problem.candidates[c].site
        if site == HOME:
            self._place(operator, covered)
        else:
            for region in list(self.regions):
                if self.problem.candidates[region[0]].site == site:
                    region.append(c)
                    self._place(operator, covered)
                    region.pop()
            self.regions.append([c])
            self._place(operator, covered)
            self.regions.pop()
        self.chosen.pop()

    def _finish(self) -> None:
        settled = tuple(sorted(self.chosen)), tuple(sorted(tuple(sorted(r)) for r in self.regions))
        seconds = shortest_time(self.problem, *settled, penalized=True, within=self.search.least)
        if seconds < self.search.least and is_solution(self.problem, *settled):
            self.search.offer(settled)
