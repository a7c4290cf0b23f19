"""``solve``: the exact cut where there is one, else an integer program, else the heuristic; always said which."""

from __future__ import annotations

import math
import time

from byoc.errors import PartitionError
from byoc.partition.problem import Problem, Solution
from byoc.partition.solve.evaluate import check, cost_of
from byoc.partition.solve.heuristic import heuristic
from byoc.partition.solve.highs import is_available
from byoc.partition.solve.integer import Found, solve_program
from byoc.partition.solve.reduce import useful_candidates
from byoc.partition.solve.refusal import infeasible, refuse_bad_numbers
from byoc.partition.solve.settle import Settler

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

    *start* is a solution known already: the result is never worse. *method* is ``auto`` or one of METHODS.

    Raises PartitionError for a cost that is no finite number of seconds, an operator without any place, limits that no
    placement keeps, and unknown words for *objective* or *method*.
    """
    for word, known, what in ((objective, OBJECTIVES, "objective"), (method, METHODS, "method")):
        if word not in known:
            raise PartitionError(f"{what} {word!r} is unknown; there are {', '.join(known)}")
    refuse_bad_numbers(problem)
    return _by_program(problem, time.monotonic() + time_limit, start, method)


def _by_program(problem: Problem, deadline: float, start: Solution | None, method: str) -> Solution:
    settler = Settler(problem)
    usable = useful_candidates(problem)
    settled, cost = heuristic(problem, usable, settler, deadline)
    if start is not None and start.penalized < cost:
        settled, cost = (start.chosen, start.regions), cost_of(problem, start.chosen, start.regions).penalized
    notes = tuple(settler.notes)
    if method == "heuristic" or not is_available():
        if method != "heuristic":
            notes += ("the heuristic's placement, its distance from the best unknown: "
                      "install byoc[solve] (scipy) for a proof",)
        if settled is None:
            raise infeasible(problem)
        return _solution(problem, settled, None, "heuristic", notes)
    found = solve_program(problem, usable, Found(settled, cost, 0.0), settler.settle, deadline)
    if found.best is None:
        raise infeasible(problem)
    if not found.complete:
        notes += ("the time was over before the best placement was proven",)
    return _solution(problem, found.best, found.bound, "integer program", notes)


def _solution(problem: Problem, settled, bound: float | None, method: str, notes: tuple[str, ...]) -> Solution:  # noqa: ANN001
    chosen, regions = settled
    check(problem, chosen, regions)
    cost = cost_of(problem, chosen, regions)
    if bound is not None and (math.isinf(bound) or cost.penalized - bound <= 1e-9 * cost.penalized):
        bound = cost.penalized
    return Solution(tuple(chosen), tuple(regions), cost.seconds, cost.penalized, bound, method, notes)
