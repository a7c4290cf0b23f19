"""Making plans: the policies, and what they have in common.

``order`` is TVM's: composites by the rows of the tables, each operator to the first target that takes it, neighbours
merged. ``cost`` chooses patterns, places and regions together (``by_cost.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from byoc.codegen.backend import Backend, Limits, Reason, Verdict, get_backend
from byoc.errors import PartitionError
from byoc.ir.module import IRModule
from byoc.partition.cut import annotate, refused_by_limits, regions_of
from byoc.partition.decide import Decision, decide, form_composites, known_names
from byoc.partition.exclusions import Exclude, Exclusions
from byoc.partition.plan import Plan
from byoc.partition.planned import planned_regions
from byoc.relay.transform import CompositeRecord, InferType, PartitionGraph

TIME_LIMIT = 10.0
OBJECTIVES = ("latency", "makespan")
CostSpec = object


@dataclass(frozen=True)
class Request:
    """What a plan is asked for, checked: the backends in order of preference, what is kept from them, their limits
    (where the user gives them, else their own), and for policy ``cost`` what things cost and what is wanted.
    """

    backends: tuple[Backend, ...]
    exclusions: Exclusions
    limits: Mapping[str, Limits]
    mod_name: str = "default"
    costs: CostSpec = "analytic"
    objective: str = OBJECTIVES[0]
    time_limit: float = TIME_LIMIT
    record: CompositeRecord = field(default_factory=CompositeRecord)

    @property
    def names(self) -> tuple[str, ...]:
        """The targets."""
        return tuple(b.name for b in self.backends)

    @property
    def notes(self) -> tuple[str, ...]:
        """What happened while composites were sought."""
        return tuple(map(str, self.record.failed_checks))


def make_plan(
    mod: IRModule,
    targets: Sequence[str | Backend],
    exclude: Exclude = (),
    policy: str = "order",
    mod_name: str = "default",
    *,
    limits: Mapping[str, Limits] | None = None,
    costs: CostSpec = "analytic",
    objective: str = OBJECTIVES[0],
    time_limit: float = TIME_LIMIT,
) -> Plan:
    """Plan the cut of *mod* over *targets*, the first that takes an operator before the next.

    *exclude* names ONNX nodes or operators that no target gets, or by target those that it does not get. *limits*
    are put in place of a backend's own. Policy ``cost`` takes the cheapest plan by *costs* for *objective*
    (``latency`` adds everything up, ``makespan`` lets devices work at the same time), found in *time_limit* seconds a
    function. The host is whatever no target takes: name ``c`` only for regions of generated C beside it. Raises
    PartitionError for an unknown target, policy, objective, limit or exclusion.
    """
    if policy not in POLICIES:
        raise PartitionError(f"no policy is called {policy!r}; known: {', '.join(POLICIES)}")
    if objective not in OBJECTIVES:
        raise PartitionError(f"no objective is called {objective!r}; known: {', '.join(OBJECTIVES)}")
    names = [t.name if isinstance(t, Backend) else str(t) for t in targets]
    twice = next((n for k, n in enumerate(names) if n in names[:k]), None)
    if twice is not None:
        raise PartitionError(f"target {twice!r} is named twice in {', '.join(names)}")
    other = next((n for n in limits or () if n not in names), None)
    if other is not None:
        raise PartitionError(f"limits name the target {other!r}, which is not asked for; asked: {', '.join(names)}")
    backends = tuple(get_backend(name) for name in names)
    mod = InferType()(mod)
    exclusions = Exclusions.of(exclude, names)
    exclusions.check(known_names(mod))
    own = {b.name: b.limits for b in backends if b.limits != Limits()}
    request = Request(
        backends, exclusions, {**own, **(limits or {})}, mod_name, costs, objective, time_limit
    )
    plan = POLICIES[policy](mod, request)
    return replace(plan, regions=tuple(planned_regions(plan.apply(mod))))


def _by_order(mod: IRModule, request: Request) -> Plan:
    prepared, dissolved = form_composites(mod, request.backends, request.exclusions, request.record)
    decisions = decide(prepared, request.backends, request.exclusions)
    decisions = _within_limits(prepared, decisions, request.limits)
    return Plan(
        "order", request.names, request.mod_name, tuple(decisions), (), dissolved, request.limits, request.notes
    )


POLICIES: Mapping[str, Callable[[IRModule, Request], Plan]] = {"order": _by_order}


def _within_limits(mod: IRModule, decisions: list[Decision], limits: Mapping[str, Limits]) -> list[Decision]:
    """*decisions* with the calls of regions beyond the limits on the host; each round drops some, so that it ends."""
    while limits:
        regions = regions_of(annotate(mod, [d.target for d in decisions], limits))
        refused = refused_by_limits(regions, limits)
        if not refused:
            break
        decisions = [_dropped(d, refused[k]) if k in refused else d for k, d in enumerate(decisions)]
    return decisions


def _dropped(decision: Decision, reason: Reason) -> Decision:
    no = Verdict(False, decision.operator, decision.nodes, (reason,))
    kept = tuple((t, v) for t, v in decision.verdicts if t != decision.target)
    return Decision(decision.operator, decision.nodes, None, (*kept, (decision.target or "", no)))
