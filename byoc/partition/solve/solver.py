"""``solve``: the exact cut where there is one, else the heuristic where a relaxation proves it best, else an integer
program, else the heuristic with a bound; always said which.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from byoc.errors import PartitionError
from byoc.ir.collector import paused_collector
from byoc.partition.problem import Problem, Solution
from byoc.partition.solve.evaluate import check, cost_of
from byoc.partition.solve.heuristic import LARGE, heuristic
from byoc.partition.solve.highs import is_available
from byoc.partition.solve.integer import EXACT, BestSolution, solve_program
from byoc.partition.solve.makespan import shortest_schedule
from byoc.partition.solve.reduce import useful_candidates
from byoc.partition.solve.refusal import infeasible, nothing_found, refuse_bad_numbers
from byoc.partition.solve.regions import form_regions
from byoc.partition.solve.relaxation import lower_bound
from byoc.partition.solve.settle import Settled, Settler, went_home
from byoc.partition.solve.two_sites import cheapest_cut, is_a_cut
from byoc.runtime.core.entry_points import install_command

LARGEST_PROGRAM = 4000  # operators; beyond, building the program alone takes longer than it has
METHODS = ("auto", "minimum cut", "integer", "heuristic")
OBJECTIVES = ("latency", "makespan")


def solve(
    problem: Problem,
    objective: str = "latency",
    time_limit: float = 10.0,
    start: Solution | None = None,
    method: str = "auto",
) -> Solution:
    """The cheapest placement that is found within *time_limit* seconds, with a bound.

    *start* is a solution known already: the result is never worse. *method* is one of METHODS; the heuristic's bound
    is that of ``relaxation.py``, also where scipy is missing, which a note says.

    Raises PartitionError for a cost that is no finite number of seconds, an operator without any place, limits that no
    placement keeps, and unknown words for *objective* or *method*.
    """
    for word, known, what in ((objective, OBJECTIVES, "objective"), (method, METHODS, "method")):
        if word not in known:
            raise PartitionError(f"{what} {word!r} is unknown; there are {', '.join(known)}")
    refuse_bad_numbers(problem)
    if not problem.operators:
        return Solution((), (), 0.0, 0.0, 0.0, "nothing to place")
    with paused_collector():
        usable = useful_candidates(problem)
        _refuse_homeless(problem, usable)
        deadline = time.monotonic() + time_limit
        if objective == "makespan":
            return shortest_schedule(problem, usable, start, deadline)
        if method in ("auto", "minimum cut") and is_a_cut(problem, usable):
            chosen = tuple(cheapest_cut(problem, usable))
            return _solution(problem, (chosen, form_regions(problem, chosen)), 0.0, "minimum cut", (), exact=True)
        if method == "minimum cut":
            raise PartitionError(
                "method 'minimum cut' is for two places, single operators, no launches and no limits; use 'auto'"
            )
        return _searched(problem, usable, deadline, start, method)


def _refuse_homeless(problem: Problem, usable: Sequence[int]) -> None:
    """Raises PartitionError for an operator all of whose candidates are beyond limits on their own."""
    covered = {o for c in usable for o in problem.candidates[c].operators}
    for operator in range(problem.operators):
        if operator not in covered:
            raise infeasible(problem, operator)


def _searched(
    problem: Problem, usable: Sequence[int], deadline: float, start: Solution | None, method: str
) -> Solution:
    """The heuristic's solution where the relaxation proves it, or nothing else is to be tried; else the program's."""
    settler = Settler(problem)
    settled, cost = heuristic(problem, usable, settler, deadline)
    if start is not None and cost_of(problem, start.chosen, start.regions).penalized < cost:
        settled, cost = (start.chosen, start.regions), cost_of(problem, start.chosen, start.regions).penalized
    bound = 0.0 if settled is None else lower_bound(problem, usable, deadline, 2 if problem.operators > LARGE else 12)
    if settled is not None and method == "auto" and cost - bound <= EXACT * cost:
        return _solution(problem, settled, bound, "relaxation", ())
    by_heuristic = method == "heuristic" or (method == "auto" and problem.operators > LARGEST_PROGRAM)
    if by_heuristic or not is_available():
        if settled is None:
            raise nothing_found(problem)
        notes = () if by_heuristic else (f"no closer bound without HiGHS (scipy): {install_command('solve')}",)
        return _solution(problem, settled, bound, "heuristic", notes)
    found = solve_program(problem, usable, BestSolution(settled, cost, bound), settler.settle, deadline)
    if found.best is None:
        raise infeasible(problem) if found.complete else nothing_found(problem)
    notes = () if found.complete else ("the time was over before the best placement was proven",)
    return _solution(problem, found.best, found.bound, "integer program", notes, found.complete)


def _solution(
    problem: Problem, settled: Settled, bound: float | None, method: str, notes: tuple[str, ...], exact: bool = False
) -> Solution:
    chosen, regions = settled
    check(problem, chosen, regions)
    cost = cost_of(problem, chosen, regions)
    if bound is not None and (exact or cost.penalized - bound <= EXACT * cost.penalized):
        bound = cost.penalized
    notes = (*notes, *went_home(problem, chosen))
    return Solution(tuple(chosen), tuple(regions), cost.seconds, cost.penalized, bound, method, notes)
