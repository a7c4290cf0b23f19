"""What numbers of a placement problem are refused, each with one sentence."""

from __future__ import annotations

import math

import numpy as np

from byoc.errors import PartitionError
from byoc.partition.problem import HOME, Problem


def refuse_bad_numbers(problem: Problem) -> None:
    """Raises PartitionError naming the operator and the place of a cost that is negative or no finite number."""
    for candidate in problem.candidates:
        if not (math.isfinite(candidate.seconds) and candidate.seconds >= 0):
            raise PartitionError(
                f"{problem.name_of(candidate.operators[0])} as {candidate.name} at "
                f"{problem.sites[candidate.site].name} costs {candidate.seconds} seconds: "
                "give a finite number that is not negative"
            )
    for site in problem.sites:
        for what, seconds in (("a launch", site.launch), ("min_gain", site.bounds.min_gain)):
            if not (math.isfinite(seconds) and seconds >= 0):
                raise PartitionError(
                    f"{what} at {site.name} is {seconds} seconds: give a finite number that is not negative"
                )
    _refuse_bad_transfers(problem)
    for operator, covering in enumerate(problem.covering):
        if not covering:
            raise PartitionError(
                f"{problem.name_of(operator)} has no place where it can run: let the host or a backend take it"
            )


def _refuse_bad_transfers(problem: Problem) -> None:
    shape = (len(problem.values), len(problem.sites), len(problem.sites))
    if problem.transfer.shape != shape:
        raise PartitionError(f"transfer times have the shape {problem.transfer.shape}, expected {shape}")
    bad = np.argwhere(~(np.isfinite(problem.transfer) & (problem.transfer >= 0)))
    if len(bad):
        t, p, q = (int(k) for k in bad[0])
        maker = problem.values[t].producer
        what = "an input of the model" if maker is None else f"a result of {problem.name_of(maker)}"
        raise PartitionError(
            f"bringing {what} from {problem.sites[p].name} to {problem.sites[q].name} costs "
            f"{problem.transfer[t, p, q]} seconds: give a finite number that is not negative"
        )
    if problem.transfer[:, HOME, HOME].any():
        raise PartitionError("a tensor that stays at the host costs nothing to bring there; the table says otherwise")


def infeasible(problem: Problem, operator: int | None = None) -> PartitionError:
    """The error for a problem without a solution: *operator* if it is known to have no place within the limits."""
    homeless = [
        o for o in range(problem.operators) if all(problem.candidates[c].site != HOME for c in problem.covering[o])
    ]
    if operator is None:
        operator = homeless[0] if homeless else 0
    sites = sorted({problem.candidates[c].site for c in problem.covering[operator]} - {HOME})
    limits = "; ".join(f"{problem.sites[s].name}: {_in_words(problem, s)}" for s in sites)
    return PartitionError(
        f"{problem.name_of(operator)} cannot run at the host and no placement keeps the limits ({limits}): "
        "raise them or let the host take it"
    )


def nothing_found(problem: Problem) -> PartitionError:
    """The error where no placement was found, though one may exist."""
    return PartitionError(f"{infeasible(problem)}; not all were tried: a longer time limit may find one")


def _in_words(problem: Problem, site: int) -> str:
    bounds = problem.sites[site].bounds
    named = (
        (bounds.max_operators, "at most {} operators a region"),
        (bounds.max_bytes, "at most {} bytes a region"),
        (bounds.max_regions, "at most {} regions"),
        (bounds.min_operators if bounds.min_operators > 1 else None, "at least {} operators a region"),
    )
    return ", ".join(text.format(value) for value, text in named if value is not None) or "no limits"
