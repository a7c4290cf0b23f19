"""Good placements quickly, for any size: what starts the exact methods, and what stands where they take too long."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.partition.problem import HOME, Problem
from byoc.partition.solve.evaluate import cost_of
from byoc.partition.solve.settle import Settled, Settler


def heuristic(problem: Problem, usable: Sequence[int], settler: Settler) -> tuple[Settled | None, float]:
    """A solution and its penalized cost; None where none was found."""
    best, least = None, float("inf")
    for homely in (True, False):
        chosen = greedy_cover(problem, usable, homely)
        settled = None if chosen is None else settler.settle(chosen)
        if settled is not None:
            cost = cost_of(problem, *settled).penalized
            if cost < least:
                best, least = settled, cost
    return best, least


def greedy_cover(problem: Problem, usable: Sequence[int], homely: bool) -> list[int] | None:
    """Candidates that cover each operator once, the fastest an operator first; those at home before all if *homely*."""
    candidates = problem.candidates
    covered: set[int] = set()
    chosen = []
    def key(c: int) -> tuple[bool, float, int]:
        return (homely and candidates[c].site != HOME, candidates[c].seconds / len(candidates[c].operators), c)

    for c in sorted(usable, key=key):
        if covered.isdisjoint(candidates[c].operators):
            covered.update(candidates[c].operators)
            chosen.append(c)
    return sorted(chosen) if len(covered) == problem.operators else None
