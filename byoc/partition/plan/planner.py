"""Making plans: the policies, and what they have in common.

``order`` is TVM's: composites by the rows of the tables, each operator to the first target that takes it, neighbours
merged. ``score`` is Paddle Lite's (``by_score.py``). ``cost`` chooses patterns, places and regions together
(``by_cost.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from byoc.contract.backend import Backend
from byoc.contract.limits import Limits
from byoc.contract.registration import get_backend
from byoc.contract.verdict import callee_name
from byoc.errors import PartitionError
from byoc.ir.collector import paused_collector
from byoc.ir.module import IRModule
from byoc.options.entry import takes
from byoc.partition.boundaries import Boundaries
from byoc.partition.calls import Decision, calls_of, functions_of, inner_calls, is_composite, known_names
from byoc.partition.content.plan_origin import Kept, PlanInputs, PlanOrigin
from byoc.partition.costs import cost_model
from byoc.partition.costs.model import CostModel
from byoc.partition.cut.decide import decide, form_composites, next_in_order
from byoc.partition.cut.layouts import asked_layouts
from byoc.partition.cut.preference import Preferences, form_preferred, preferred_order
from byoc.partition.options import PlannerRequest
from byoc.partition.places import Place
from byoc.partition.places.libraries import check_places, with_libraries
from byoc.partition.plan.plan import Plan
from byoc.relay.expr import Call
from byoc.relay.transform import InferType
from byoc.relay.transform.cut.merge_composite import CompositeRecord

if TYPE_CHECKING:
    from byoc.partition.content.region_measures import PlannedRegion
    from byoc.partition.cut.matches import ChosenMatch


@takes(PlannerRequest, "make_plan")
def make_plan(asked: PlannerRequest) -> Plan:
    """Plan the cut of a module over targets, the first that takes an operator before the next.

    Raises:
        PartitionError: an unknown target, policy, objective, limit or exclusion, and rules that cannot be honoured.
    """
    return make_requested_plan(asked)


def make_requested_plan(asked: PlannerRequest) -> Plan:
    """The plan that is asked for, as :func:`make_plan` gives it."""
    names = [t.name if isinstance(t, Backend) else str(t) for t in asked.targets]
    twice = next((n for k, n in enumerate(names) if n in names[:k]), None)
    if twice is not None:
        raise PartitionError(f"target {twice!r} is named twice in {', '.join(names)}")
    names = with_libraries(names)
    limits = _limits(asked.limits or {}, names)
    backends = tuple(get_backend(name) for name in names)
    check_places(backends)
    mod = InferType()(asked.mod)
    places = asked.valid_places
    request = PlanInputs(
        asked.policy,
        backends,
        Boundaries.of(names, asked.exclude, asked.force, asked.stop_at, asked.boundary_lines),
        {**{b.name: b.limits for b in backends if b.limits != Limits()}, **limits},
        asked.mod_name,
        asked.costs,
        asked.objective,
        asked.time_limit,
        tuple(map(Place.of, [places] if isinstance(places, str) else places)),
        asked.formula,
        Preferences.of(asked.prefer, names),
    )
    if request.prefer.rules:
        if asked.policy != "order":
            raise PartitionError(
                f'prefer is for policy "order", not for {asked.policy!r}, which chooses by what it knows'
            )
        request.prefer.check(known_names(mod))
    asked_for = asked_layouts(mod, backends, request.boundaries, asked.policy != "order")
    as_given = replace(request, layouts=replace(asked_for, places=(), by=()), record=CompositeRecord())
    if not asked_for.places:
        return remake(mod, as_given, {})
    return _better(mod, replace(request, layouts=asked_for), as_given)


def _better(mod: IRModule, request: PlanInputs, as_given: PlanInputs) -> Plan:
    """The plan of *mod* with the layouts that *request* asks for, else, with a note, the one in the model's layouts.

    That is where no region uses them in the end, and by cost where their transforms take more than they save. Both are
    made in the time that one may take.
    """
    from byoc.partition.cut.casting import with_casts
    from byoc.partition.plan.used_layouts import is_used

    asked, limit = request.layouts, request.time_limit
    start = time.monotonic()
    laid, numbers = with_casts(mod, asked.places)
    by_cost = request.policy == "cost"
    turned = _within(laid, request, limit / 2 if by_cost else limit)
    is_in_region = is_used(asked, turned, laid, numbers)
    if is_in_region and not by_cost:
        return turned
    plan = _within(mod, as_given, max(limit / 2, limit - (time.monotonic() - start)))
    why = "no operator that needs it is in a region in the end"
    if is_in_region and turned.total is not None and plan.total is not None:
        if turned.total.seconds <= plan.total.seconds:
            return turned
        from byoc.partition.content.explanation import seconds

        why = f"the plan would take {seconds(turned.total.seconds)} with it, and {seconds(plan.total.seconds)} without"
    verb, given = ("asks", "is") if len(asked.by) == 1 else ("ask", "are")
    return plan.with_note(f"{', '.join(asked.by)} {verb} for layout NHWC and {given} given the model's: {why}")


def _within(mod: IRModule, request: PlanInputs, seconds: float) -> Plan:
    """:func:`remake` in *seconds*; what is made of its plan later has the time that *request* says."""
    plan = remake(mod, replace(request, time_limit=seconds), {})
    assert plan.origin is not None
    return replace(plan, origin=replace(plan.origin, request=request))


def _limits(given: object, names: Sequence[str]) -> dict[str, Limits]:
    """The limits of the user by target. Raises PartitionError for what is none, and a target not among *names*."""
    if not isinstance(given, Mapping):
        raise PartitionError(f'limits are by target, as limits={{"acme": Limits(max_operators=4)}}, got {given!r}')
    other = next((n for n in given if n not in names), None)
    if other is not None:
        raise PartitionError(f"limits name the target {other!r}, which is not asked for; asked: {', '.join(names)}")
    return {target: Limits.of(value, target) for target, value in given.items()}


Made = tuple[Plan, Kept, IRModule]  # a plan, what it kept, and the module with its composites and casts


@paused_collector()
def remake(mod: IRModule, request: PlanInputs, kept: Kept) -> Plan:
    """The plan of *mod*, which has types, as *request* asks; operators in *kept* stay where that says.

    Raises PartitionError for boundaries that mean nothing in *mod* or cannot be honoured.
    """
    boundaries = request.boundaries
    unknown = boundaries.check(known_names(mod)) if boundaries.rules else []
    keeping = _keeping_matches(request)
    plan, placed, prepared = POLICIES[request.policy](mod, keeping, kept)
    every = plan.total is not None
    if request.backends:
        from byoc.partition.cut.refused_matches import with_refused_matches

        asked = with_refused_matches(
            mod, plan.decisions, request.backends, boundaries, lambda t: every or t in plan.dissolved, keeping.found
        )
        plan = replace(plan, decisions=asked)
    plan = replace(plan, decisions=tuple(_with_inside(call, d) for call, d in _decided(prepared, plan)))
    dishonoured = boundaries.not_kept(_decided(prepared, plan)) if boundaries.rules else []
    notes = (*unknown, *request.notes, *plan.notes, *_unasked_limits(request), *dishonoured)
    regions: Iterator[PlannedRegion] = iter(())
    if plan.cuts(prepared):
        from byoc.partition.content.region_measures import regions_of_cut

        regions = regions_of_cut(*plan.annotate_numbered(prepared), plan.mod_name)
    return replace(
        plan,
        notes=notes,
        origin=PlanOrigin(mod, request, remake, placed),
        layouts=request.layouts.places,
        regions=tuple(regions),
    )


def _keeping_matches(request: PlanInputs) -> PlanInputs:
    """*request* that keeps what its patterns match, where the policy and the reasons both ask."""
    if request.policy != "cost" or not request.backends:
        return request
    from byoc.partition.cut.matches import TableMatches

    return replace(request, found=TableMatches())


def _unasked_limits(request: PlanInputs) -> Iterator[str]:
    """A sentence for each limit that the policy cannot ask for."""
    for target, limits in request.limits.items():
        if request.policy == "cost" and limits.min_operations:
            yield f"policy cost does not ask for min_operations of {target}: use min_gain"


def _held(
    mod: IRModule, decisions: list[Decision], request: PlanInputs, costs: CostModel | None, dropped: dict[str, None]
) -> list[Decision]:
    """*decisions* within the limits that are asked for; *dropped* gets a sentence for what these send home."""
    if all(limit == Limits() for limit in request.limits.values()):
        return list(decisions)
    from byoc.partition.policy.limits import reported_drops, within_limits  # which few backends ask for

    held = within_limits(mod, decisions, request.limits, costs)
    dropped.update(dict.fromkeys(reported_drops(decisions, held)))
    return held


def _costs_of_gains(request: PlanInputs) -> CostModel | None:
    """What computes the gains of regions, where a limit asks for them."""
    if not any(limits.min_gain for limits in request.limits.values()):
        return None
    return cost_model(request.costs, request.names)


def _decided(prepared: IRModule, plan: Plan) -> Iterator[tuple[Call, Decision]]:
    calls = (call for _, func in functions_of(prepared) for call in calls_of(func))
    return zip(calls, plan.decisions, strict=True)


def _with_inside(call: Call, decision: Decision) -> Decision:
    """*decision* about *call* with the operators inside, where it calls a composite."""
    if not is_composite(call):
        return decision
    return replace(decision, inside=tuple(dict.fromkeys(callee_name(inner) for inner in inner_calls(call))))


def _by_order(mod: IRModule, request: PlanInputs, kept: Kept) -> Made:
    backends, boundaries, prefer = request.backends, request.boundaries, request.prefer
    composites: tuple[ChosenMatch, ...] = ()
    dissolved: Mapping[str, tuple[int, ...]] = {}
    if prefer.rules:
        prepared, composites = form_preferred(mod, backends, boundaries, prefer, request.record)
        decisions = decide(prepared, backends, boundaries, lambda call: preferred_order(call, backends, prefer))
    else:
        prepared, dissolved = form_composites(mod, backends, boundaries, request.record)
        decisions = decide(prepared, backends, boundaries)
    dropped: dict[str, None] = {}
    costs = _costs_of_gains(request)
    while True:
        held = _held(prepared, decisions, request, costs, dropped)
        decisions = [next_in_order(d) for d in held]
        if decisions == held:
            break
    plan = Plan(
        "order",
        request.names,
        request.mod_name,
        tuple(decisions),
        (),
        dissolved,
        request.limits,
        tuple(dropped),
        composites,
        preferred=bool(prefer.rules),
    )
    return plan, {}, prepared


def _by_score(mod: IRModule, request: PlanInputs, kept: Kept) -> Made:
    from byoc.partition.cut.casting import HOME_PLACE, asks_for_casts, cast_decisions, with_casts
    from byoc.partition.policy.by_score import score  # what the order of the tables does not need

    prepared, dissolved = form_composites(mod, request.backends, request.boundaries, request.record)
    decided = score(prepared, request)
    dropped: dict[str, None] = {}
    costs = _costs_of_gains(request)
    while True:
        places = tuple(d.chosen for d in decided)
        cut, decisions = prepared, decided
        numbers: Sequence[int | None] = range(len(decided))
        if asks_for_casts(places):
            cut, numbers = with_casts(prepared, places)
            decisions = cast_decisions(cut, numbers, decided, request.backends)
        held = _held(cut, decisions, request, costs, dropped)
        gone = {
            n: replace(after, chosen=HOME_PLACE)
            for n, before, after in zip(numbers, decisions, held, strict=True)
            if n is not None and before.target is not None and after.target is None
        }
        if not gone or cut is prepared:
            break
        decided = [gone.get(n, d) for n, d in enumerate(decided)]  # without casts for what is at home
    plan = Plan(
        "score",
        request.names,
        request.mod_name,
        tuple(held),
        (),
        dissolved,
        request.limits,
        tuple(dropped),
        places=() if cut is prepared else places,
    )
    return plan, {}, cut


def _by_cost(mod: IRModule, request: PlanInputs, kept: Kept) -> Made:
    from byoc.partition.cut.casting import HOME_PLACE, asks_for_casts, cast_decisions, in_regions, with_casts
    from byoc.partition.cut.matches import with_composites
    from byoc.partition.policy.by_cost import cheapest  # what the order of the tables does not need

    choice = cheapest(mod, request, kept)
    decisions: Sequence[Decision] = choice.decisions
    prepared, _ = with_composites(mod, choice.composites)
    places = tuple(d.chosen or HOME_PLACE for d in decisions)
    if asks_for_casts(places):
        prepared, numbers = with_casts(prepared, places)
        decisions = in_regions(prepared, cast_decisions(prepared, numbers, decisions, request.backends))
    else:
        places = ()
    plan = Plan(
        "cost",
        request.names,
        request.mod_name,
        tuple(decisions),
        (),
        {},
        request.limits,
        choice.notes,
        choice.composites,
        choice.moves,
        choice.total,
        places=places,
    )
    return plan, choice.placed, prepared


Policy = Callable[[IRModule, PlanInputs, Kept], Made]
POLICIES: Mapping[str, Policy] = {"order": _by_order, "score": _by_score, "cost": _by_cost}
