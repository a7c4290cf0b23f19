"""The placement problem solved as an integer program, with rows added as they are broken.

First the linear program with cuts from a pool; its reduced costs fix what no solution better than the one known can
have. Then integer programs: each one's regions are looked at, and what breaks a promise is cut off, until nothing does.
The bound is always that of a relaxation, so that it holds whenever the time is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.partition.problem import Problem
from byoc.partition.solve.cover_cuts import Covers
from byoc.partition.solve.cuts import MARGIN, Pool, described_regions, integer_cuts
from byoc.partition.solve.evaluate import cost_of, is_solution
from byoc.partition.solve.highs import Solver, SolverOutcome
from byoc.partition.solve.program import PlacementProgram, Row
from byoc.partition.solve.settle import Settled

CUT_ROUNDS = 40
EXACT = 1e-9  # as a share: costs nearer than this are equal
SLACK = 1e-7


@dataclass
class BestSolution:
    """The best solution known (chosen, regions, penalized cost; None: none), and what is below every solution."""

    best: Settled | None
    cost: float
    bound: float
    complete: bool = False  # nothing was left undecided
    rounds: int = 0


Repair = Callable[[Sequence[int]], Settled | None]


def solve_program(
    problem: Problem, usable: Sequence[int], start: BestSolution, repair: Repair, deadline: float
) -> BestSolution:
    """Improve *start* until it is proven best or ``time.monotonic()`` reaches *deadline*.

    *repair* makes a solution of candidates that cover each operator once, or gives None.
    """
    return _Search(problem, usable, start, repair, deadline).run()


class _Search:
    def __init__(self, problem: Problem, usable: Sequence[int], start: BestSolution, repair: Repair, deadline: float):
        self.problem, self.found, self.repair, self.deadline = problem, start, repair, deadline
        self.program = PlacementProgram(problem, usable)
        self.pool = Pool(self.program)
        self.covers = Covers(self.program)
        self.is_real = False  # whether the point looked at last describes a solution
        total = start.cost if np.isfinite(start.cost) else sum(self.program.program.costs)
        self.solver = Solver(self.program.program, 1e4 / total if total > 0 else 1.0)

    def run(self) -> BestSolution:
        """Both stages, again after each round of cuts."""
        while not self._is_over():
            root = self._relax()
            if root is None or self._is_proven():
                break
            self._fix(root)
            self.found.rounds += 1
            outcome = self.solver.integer(self._left())
            if outcome.infeasible:
                return self._prove()
            self._raise_bound(outcome.bound)
            if outcome.values is None:
                break
            cuts = self._look(outcome.values)
            if self._is_proven():
                break
            if not cuts:
                if outcome.complete and self.is_real:
                    self._prove()
                break
            self.solver.add(cuts)
        return self.found

    def _relax(self) -> SolverOutcome | None:
        """The linear program with all cuts of the pool; None where nothing more is to be done."""
        last, bounds = None, [0.0]
        for _ in range(CUT_ROUNDS):
            outcome = self.solver.relaxation(self._left())
            if outcome.infeasible:
                self._prove()
                return None
            if outcome.values is None:
                return last
            last = outcome
            self._raise_bound(outcome.bound)
            if self._is_proven():
                return None
            self._fix(outcome)
            cuts = [*self.pool.broken(outcome.values), *self.covers.broken(outcome.values)]
            cuts = cuts or self._guess(outcome.values)
            if self.found.complete:
                return None
            bounds.append(outcome.bound)
            if not cuts or self._is_over():
                break
            self.solver.add(cuts)
            if self._is_stuck(bounds):
                break
        return last

    def _is_stuck(self, bounds: Sequence[float]) -> bool:
        """Whether the last rounds of cuts have closed next to nothing of the gap: then it is time to branch."""
        return len(bounds) > 4 and bounds[-1] - bounds[-4] < 0.05 * (self.found.cost - bounds[-1])

    def _guess(self, values: np.ndarray) -> list[Row]:
        """Cuts that *values* break, found by looking at a whole-numbered point near them."""
        near = self._round(values)
        if near is None:
            return []
        cuts = self._look(near)
        if np.abs(values - np.round(values)).max() >= SLACK:
            return [
                (row, least)
                for row, least in cuts
                if sum(values[v] * coefficient for v, coefficient in row.items()) < least - MARGIN
            ]
        if not cuts and self.is_real:
            self._prove()
        return cuts

    def _look(self, values: np.ndarray) -> list[Row]:
        """Cuts that a whole-numbered point breaks; what it chooses may be better than what is known."""
        self._try(self.repair(self.program.chosen(values)))
        cuts = integer_cuts(self.program, values)
        described = tuple(self.program.chosen(values)), described_regions(self.program, values)
        self.is_real = not cuts and is_solution(self.problem, *described)
        if self.is_real:
            self._try(described)
        return [*cuts, *self.pool.broken(values), *self.covers.broken(values)]

    def _round(self, values: np.ndarray) -> np.ndarray | None:
        """A whole-numbered point of the candidates that *values* like most, as far as they fit together."""
        candidates, program = self.problem.candidates, self.program
        site: dict[int, int] = {}
        near = values.copy()
        for c in sorted(program.x, key=lambda c: (-round(values[program.x[c]], 6), c)):
            fits = all(o not in site for o in candidates[c].operators)
            near[program.x[c]] = float(fits)
            if fits:
                site.update(dict.fromkeys(candidates[c].operators, candidates[c].site))
        if len(site) < self.problem.operators:
            return None
        for (operator, p), y in program.y.items():
            near[y] = float(site[operator] == p)
        for (e, p), m in program.m.items():
            u, v = self.problem.edges[e]
            near[m] = float(values[m] > 0.5 and site[u] == site[v] == p)
        return near

    def _try(self, solution: Settled | None) -> None:
        if solution is None:
            return
        cost = cost_of(self.problem, *solution).penalized
        if cost < self.found.cost:
            self.found.best, self.found.cost = solution, cost

    def _fix(self, root: SolverOutcome) -> None:
        """Variables whose reduced cost lies above what is still to be gained keep their value."""
        if root.reduced is None or not np.isfinite(self.found.cost):
            return
        gain = (self.found.cost * (1 + EXACT) - root.bound) * self.solver.scale + SLACK
        at_lower, at_upper = root.reduced
        free = self.solver.lower < self.solver.upper
        self.solver.upper[free & (at_lower > gain)] = 0.0
        self.solver.lower[free & (-at_upper > gain)] = 1.0

    def _raise_bound(self, bound: float) -> None:
        self.found.bound = max(self.found.bound, min(bound, self.found.cost))

    def _prove(self) -> BestSolution:
        self.found.bound = self.found.cost
        self.found.complete = True
        return self.found

    def _is_proven(self) -> bool:
        proven = np.isfinite(self.found.cost) and self.found.cost - self.found.bound <= EXACT * self.found.cost
        if proven:
            self._prove()
        return proven

    def _left(self) -> float:
        return self.deadline - time.monotonic()

    def _is_over(self) -> bool:
        return self._left() <= 0
