"""The policy ``cost``: patterns, places and regions chosen together so that the sum of all costs is least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from byoc.contract.limits import Limits
from byoc.contract.verdict import Reason, Verdict, callee_name
from byoc.ir.module import IRModule
from byoc.ir.span import span_names
from byoc.partition.calls import Alternative, Decision, functions_of
from byoc.partition.content.plan_origin import Kept, PlanInputs
from byoc.partition.costs import cost_model
from byoc.partition.costs.model import CostModel
from byoc.partition.cut.cost_breakdown import CostBreakdown, Transfer
from byoc.partition.cut.matches import ChosenMatch, with_composites
from byoc.partition.policy.candidates import Placing, bounds_of, placing
from byoc.partition.policy.limit_reasons import Absences
from byoc.partition.problem import HOME, Problem, Solution, region_of_operator
from byoc.partition.solve import solve
from byoc.partition.solve.evaluate import cost_of, find_cycle, moves
from byoc.partition.solve.schedule import shortest_time
from byoc.relay.expr import Call


@dataclass(frozen=True)
class PlacedModule:
    """A module placed: a decision for each call of the module with its composites, which these are, what moves, and the
    cost of all.
    """

    decisions: tuple[Decision, ...]
    composites: tuple[ChosenMatch, ...]
    moves: tuple[Transfer, ...]
    total: CostBreakdown
    notes: tuple[str, ...]
    placed: Kept


def cheapest(mod: IRModule, request: PlanInputs, kept: Kept) -> PlacedModule:
    """The cheapest placement of *mod*, which has types, that is found in the time that *request* gives; operators in
    *kept* stay where that says, wherever they can.
    """
    model = cost_model(request.costs, request.names)
    placings = [_kept(_limited(p, request.limits), kept) for p in placings_of(mod, request, model)]
    solutions = [
        _with_whole_matches(
            p, solve(p.problem, objective=request.objective, time_limit=request.time_limit), request.objective
        )
        for p in placings
    ]
    absences = [
        Absences(p.problem, s, request.objective, request.time_limit) for p, s in zip(placings, solutions, strict=True)
    ]
    return choice_of(mod, placings, solutions, request.objective, absences)


def placings_of(mod: IRModule, request: PlanInputs, model: CostModel) -> tuple[Placing, ...]:
    """The placement problem of each function of *mod*, which has types."""
    view = request.boundaries.on(mod)
    return tuple(placing(var.name_hint, func, request, model, view) for var, func in functions_of(mod))


def _limited(placed: Placing, limits: Mapping[str, Limits]) -> Placing:
    """*placed* under *limits*, by target."""
    sites = tuple(
        replace(site, bounds=bounds_of(limits[spot.target])) if spot.target in limits else site
        for site, spot in zip(placed.problem.sites, placed.spots, strict=True)
    )
    return replace(placed, problem=replace(placed.problem, sites=sites))


def _kept(placed: Placing, kept: Kept) -> Placing:
    """*placed* with only the candidates that leave operators where *kept* says, but for those that then had none."""
    problem = placed.problem
    stays = [
        all(kept.get((placed.name, o), problem.sites[c.site].name) == problem.sites[c.site].name for o in c.operators)
        for c in problem.candidates
    ]
    free = {o for o in range(problem.operators) if not any(stays[c] for c in problem.covering[o])}
    chosen = [k for k, c in enumerate(problem.candidates) if stays[k] or free.issuperset(c.operators)]
    if len(chosen) == len(problem.candidates):
        return placed
    return replace(
        placed,
        problem=replace(problem, candidates=tuple(problem.candidates[k] for k in chosen)),
        estimates=tuple(placed.estimates[k] for k in chosen),
        matches={new: placed.matches[k] for new, k in enumerate(chosen) if k in placed.matches},
    )


def _with_whole_matches(placed: Placing, solution: Solution, objective: str) -> Solution:
    """*solution* with each match of which all operators are in one region as single ones, where it costs no more: as
    vendors expect, and as ``order`` would have it. Larger matches come first; one that would wait for itself, or with
    another for each other, stays in single operators.
    """
    problem = placed.problem
    folded = _foldable(placed, solution)
    while folded:
        chosen, regions = _folded(problem, solution, folded)
        unit = {o: c for c in chosen for o in problem.candidates[c].operators}
        circle = {unit[o] for edge in find_cycle(problem, unit) for o in edge} & folded.keys()
        if not circle:
            break
        del folded[min(circle, key=lambda c: (len(problem.candidates[c].operators), -c))]
    if not folded:
        return solution
    cost = cost_of(problem, chosen, regions)
    if objective == "latency":
        seconds, penalized = cost.seconds, cost.penalized
    else:
        seconds, penalized = (shortest_time(problem, chosen, regions, p) for p in (False, True))
    if penalized > solution.penalized:
        return solution
    return replace(solution, chosen=chosen, regions=regions, seconds=seconds, penalized=penalized)


def _foldable(placed: Placing, solution: Solution) -> dict[int, int]:
    """The matches, by candidate with its region, whose operators *solution* runs singly, no faster, in one region."""
    problem = placed.problem
    alone = {
        problem.candidates[c].operators[0]: c for c in solution.chosen if len(problem.candidates[c].operators) == 1
    }
    region_of = {c: k for k, members in enumerate(solution.regions) for c in members}
    found: dict[int, int] = {}
    for number in sorted(placed.matches, key=lambda k: -len(problem.candidates[k].operators)):
        match = problem.candidates[number]
        parts = [alone[o] for o in match.operators if o in alone]
        homes = {region_of.get(p) for p in parts}
        home = next(iter(homes), None)
        if len(parts) < len(match.operators) or len(homes) != 1 or home is None:
            continue
        if problem.candidates[parts[0]].site != match.site:
            continue
        if match.seconds <= sum(problem.candidates[p].seconds for p in parts):
            found[number] = home
            for operator in match.operators:
                del alone[operator]
    return found


def _folded(
    problem: Problem, solution: Solution, folded: Mapping[int, int]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """The candidates and regions of *solution* with the matches *folded* instead of the operators they cover."""
    covered = {o for c in folded for o in problem.candidates[c].operators}
    kept = {c for c in solution.chosen if covered.isdisjoint(problem.candidates[c].operators)}
    regions = [sorted(kept.intersection(members)) for members in solution.regions]
    for match, home in folded.items():
        regions[home].append(match)
    return tuple(sorted((*kept, *folded))), tuple(tuple(sorted(r)) for r in regions)


def choice_of(
    mod: IRModule,
    placings: Sequence[Placing],
    solutions: Sequence[Solution],
    objective: str,
    absences: Sequence[Absences],
) -> PlacedModule:
    """*solutions* in the words of a plan; *absences* list, by function, what limits kept from its place."""
    composites = tuple(
        p.matches[c].chosen for p, s in zip(placings, solutions, strict=True) for c in s.chosen if c in p.matches
    )
    _, numbers = with_composites(mod, composites)
    decisions: list[Decision] = []
    regions_before = 0
    for placed, solution, absent in zip(placings, solutions, absences, strict=True):
        covering = {o: c for c in solution.chosen for o in placed.problem.candidates[c].operators}
        region = {c: regions_before + k for k, members in enumerate(solution.regions) for c in members}
        count = len(solution.chosen)
        for number in numbers[len(decisions) : len(decisions) + count]:
            chosen = covering[number]
            decisions.append(_decision(placed, chosen, number, region.get(chosen), absent))
        regions_before += len(solution.regions)
    moved = tuple(m for p, s in zip(placings, solutions, strict=True) for m in _moves(p.problem, s))
    notes = tuple(note for s in solutions for note in s.notes)
    sites = {
        (p.name, o): p.problem.sites[candidate.site].name
        for p, s in zip(placings, solutions, strict=True)
        for c in s.chosen
        for candidate in (p.problem.candidates[c],)
        for o in candidate.operators
    }
    return PlacedModule(tuple(decisions), composites, moved, _total(placings, solutions, objective), notes, sites)


def _total(placings: Sequence[Placing], solutions: Sequence[Solution], objective: str) -> CostBreakdown:
    costs = [cost_of(p.problem, s.chosen, s.regions) for p, s in zip(placings, solutions, strict=True)]
    known = all(s.bound is not None for s in solutions)
    penalized, bound = sum(s.penalized for s in solutions), sum(s.bound or 0.0 for s in solutions)
    gap = None if not known else 0.0 if penalized <= 0 else max(0.0, (penalized - bound) / penalized)
    return CostBreakdown(
        objective,
        sum(s.seconds for s in solutions),
        sum(c.work for c in costs),
        sum(c.transfers for c in costs),
        sum(c.launches for c in costs),
        bound if known else None,
        gap,
        ", ".join(dict.fromkeys(s.method for s in solutions)),
    )


def _moves(problem: Problem, solution: Solution) -> list[Transfer]:
    site = {o: problem.candidates[c].site for c in solution.chosen for o in problem.candidates[c].operators}
    region = region_of_operator(problem, solution.regions)
    found: list[Transfer] = []
    for number, source, destination in moves(problem, site, region):
        value = problem.values[number]
        name = "an input" if value.producer is None else problem.name_of(value.producer)
        found.append(
            Transfer(
                name,
                problem.sites[source].name,
                problem.sites[destination].name,
                value.bytes,
                float(problem.transfer[number, source, destination]),
            )
        )
    return found


def _decision(placed: Placing, chosen: int, number: int, region: int | None, absences: Absences) -> Decision:
    """The decision for the unit that candidate *chosen* is, whose root is operator *number*."""
    problem = placed.problem
    candidate, estimate = problem.candidates[chosen], placed.estimates[chosen]
    match = placed.matches.get(chosen)
    call = placed.flow.calls[number] if match is None else match.call
    alternatives = tuple(
        Alternative(problem.sites[other.site].name, other.name, other.seconds)
        for c in problem.covering[number]
        if c != chosen
        for other in (problem.candidates[c],)
    )
    spot = placed.spots[candidate.site]
    target = None if candidate.site == HOME else spot.target
    return Decision(
        callee_name(call),
        span_names(call.span),
        target,
        _verdicts(placed, number, call, target, absences),
        region=region,
        seconds=candidate.seconds,
        source=estimate.source,
        alternatives=alternatives,
        chosen="" if spot.place is None else str(spot.place),
    )


def _verdicts(
    placed: Placing, number: int, call: Call, target: str | None, absences: Absences
) -> tuple[tuple[str, Verdict], ...]:
    """What each target says of the unit *call*, whose root is operator *number*, and why one that would take it does
    not get it.
    """
    operator, nodes = callee_name(call), span_names(call.span)
    verdicts: list[tuple[str, Verdict]] = []
    for name, verdict in placed.verdicts[number]:
        reasons = verdict.reasons
        if name == target:
            reasons = ()
        elif verdict:
            sites = [p for p, spot in enumerate(placed.spots) if spot.target == name]
            reasons = (absences.reason(number, sites) or Reason("cost", "cheaper elsewhere, with what it would move"),)
        verdicts.append((name, Verdict(not reasons, operator, nodes, reasons)))
    return tuple(verdicts)
