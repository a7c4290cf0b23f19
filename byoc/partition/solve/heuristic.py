"""Good placements quickly, for any size: what starts the exact methods, and what stands where they take too long.

Labellings of the pairwise model (``relaxation.py``) and simple covers are settled into regions; then each region is
offered to home and to the other sites as a whole, by the true cost of what changes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from byoc.partition.problem import HOME, Problem
from byoc.partition.solve.evaluate import cost_of
from byoc.partition.solve.relaxation import LabelModel, Messages
from byoc.partition.solve.settle import Settled, Settler
from byoc.partition.solve.whole_regions import move_whole_regions

LARGE = 20_000  # operators from which on few rounds and one improvement must do
Costed = tuple["Settled | None", float]


def heuristic(problem: Problem, usable: Sequence[int], settler: Settler, deadline: float, rounds: int = 4) -> Costed:
    """A solution and its penalized cost; None and infinity where none was found."""
    best: Costed = None, float("inf")
    is_large = problem.operators > LARGE
    rounds = 2 if is_large else rounds
    messages = Messages(LabelModel(problem, usable, as_bound=False))
    for number in range(rounds):
        messages.round()
        if number == rounds - 1 or (number % 2 and not is_large):
            chosen = _consistent(problem, messages.model, messages.labelling())
            best = _better(problem, settler, chosen, best)
        if time.monotonic() > deadline:
            break
    for homely in (True, False):
        if best[0] is None or not is_large:
            best = _better(problem, settler, greedy_cover(problem, usable, homely), best)
    for _ in range(1 if is_large else 4):
        if best[0] is None or time.monotonic() > deadline:
            break
        improved = _better(problem, settler, move_whole_regions(problem, usable, *best[0]), best)
        if improved[1] >= best[1]:
            break
        best = improved
    return best


def _better(problem: Problem, settler: Settler, chosen: Sequence[int] | None, known: Costed) -> Costed:
    settled = None if chosen is None else settler.settle(chosen)
    if settled is None or settled is known[0]:
        return known
    cost = cost_of(problem, *settled).penalized
    return (settled, cost) if cost < known[1] else known


def greedy_cover(problem: Problem, usable: Sequence[int], homely: bool) -> list[int] | None:
    """Candidates that cover each operator once, the fastest an operator first; those at home before all if *homely*."""
    candidates = problem.candidates

    def key(c: int) -> tuple[bool, float, int]:
        return (homely and candidates[c].site != HOME, candidates[c].seconds / len(candidates[c].operators), c)

    return _cover(problem, sorted(usable, key=key))


def _cover(problem: Problem, wished: Sequence[int]) -> list[int] | None:
    covered: set[int] = set()
    chosen = []
    for c in wished:
        if covered.isdisjoint(problem.candidates[c].operators):
            covered.update(problem.candidates[c].operators)
            chosen.append(c)
    return sorted(chosen) if len(covered) == problem.operators else None


def _consistent(problem: Problem, model: LabelModel, labels: Sequence[int]) -> list[int] | None:
    """Candidates that cover each operator once, those that all their operators took before others of their site."""
    candidates = problem.candidates
    votes: dict[int, int] = {}
    for c in labels:
        votes[c] = votes.get(c, 0) + 1
    agreed = [c for c, count in votes.items() if count == len(candidates[c].operators)]
    covered = {o for c in agreed for o in candidates[c].operators}
    rest = []
    for o in (o for o in range(problem.operators) if o not in covered):
        site = candidates[labels[o]].site
        ranks = {c: (len(k.operators), k.site != site, k.seconds) for c in model.labels[o] for k in (candidates[c],)}
        rest += sorted(model.labels[o], key=ranks.__getitem__)
    return _cover(problem, [*agreed, *rest])
