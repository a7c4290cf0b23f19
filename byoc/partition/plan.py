"""The Plan: which operators go where, why not elsewhere, and what crosses the borders.

It stands between partitioning and compiling: printed, drawn, saved as JSON, and applied to the module that it was made
for. Invariant: a plan holds decisions and numbers, no expressions; applied to the same module it gives the same cut.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from byoc.codegen.backend import Backend, Limits, Reason, Verdict, callee_name, get_backend
from byoc.errors import PartitionError
from byoc.ir.module import IRModule
from byoc.partition.cut import annotate, refused_by_limits, regions_of
from byoc.partition.decide import (
    Decision,
    calls_of,
    composites_of,
    decide,
    dissolve,
    form_composites,
    functions_of,
    known_names,
)
from byoc.partition.exclusions import Exclude, Exclusions
from byoc.partition.plan_json import plan_from_json, plan_to_json
from byoc.partition.planned import PlannedRegion, planned_regions
from byoc.partition.table import plan_table
from byoc.relay.transform import CompositeRecord, InferType, MergeComposite, PartitionGraph

POLICIES = ("order",)


@dataclass(frozen=True)
class Plan:
    """A cut of one module.

    *decisions* has an entry for each call, in post-order; *dissolved* the numbers of the composites that were taken
    apart again, by target; *notes* what happened on the way (a check that raised).
    """

    policy: str
    targets: tuple[str, ...]
    mod_name: str
    decisions: tuple[Decision, ...]
    regions: tuple[PlannedRegion, ...] = ()
    dissolved: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    limits: Mapping[str, Limits] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def host(self) -> tuple[Decision, ...]:
        """The decisions for the operators that stay on the host, with the verdict of every target that was asked."""
        return tuple(d for d in self.decisions if d.target is None)

    def host_reasons(self) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
        """For each operator on the host: its name, its ONNX nodes, and one sentence a target that refused it.

        The last sentence is the place of a product whose precision was chosen.
        """
        def sentences(decision: Decision) -> tuple[str, ...]:
            refused = tuple(f"{t}: {reasons(v)}" for t, v in decision.verdicts)
            return (*refused, decision.place) if decision.place else refused

        return [(d.operator, d.nodes, sentences(d)) for d in self.host]

    def prepare(self, mod: IRModule) -> IRModule:
        """*mod* with the composites of the plan; its calls are numbered as the decisions are.

        Raises PartitionError where *mod* is not the module that the plan was made for.
        """
        mod = InferType()(mod)
        for target in self.targets:
            rows = [(e.name, e.pattern, e.check) for e in get_backend(target).patterns()]
            if rows:
                mod = MergeComposite(rows)(mod)
                found = composites_of(mod, target)
                gone = self.dissolved.get(target, ())
                if gone:
                    mod = dissolve(mod, {found[n] for n in gone if n < len(found)})
        self._check(mod)
        return mod

    def _check(self, mod: IRModule) -> None:
        found = [callee_name(call) for _, func in functions_of(mod) for call in calls_of(func)]
        planned = [d.operator for d in self.decisions]
        if found == planned:
            return
        same = [a == b for a, b in zip(found, planned, strict=False)]
        at = same.index(False) if False in same else len(same)
        here, there = (names[at] if at < len(names) else "nothing" for names in (found, planned))
        raise PartitionError(
            f"the plan was made for another module: operator {at} is {here}, the plan has {there}; make it again"
        )

    def annotate(self, mod: IRModule) -> IRModule:
        """*mod* with its composites and annotations, regions merged and within the limits."""
        return annotate(self.prepare(mod), [d.target for d in self.decisions], self.limits)

    def apply(self, mod: IRModule) -> IRModule:
        """*mod* cut by this plan: each region a function with ``Compiler`` and ``global_symbol``.

        Raises PartitionError where *mod* is not the module that the plan was made for.
        """
        return PartitionGraph(self.mod_name)(self.annotate(mod))

    def to_json(self) -> dict[str, object]:
        """The plan as values that ``json.dumps`` takes."""
        return plan_to_json(self)

    @staticmethod
    def from_json(data: Mapping[str, object] | str) -> Plan:
        """The plan that :meth:`to_json` gave, as a mapping or as text. Raises PartitionError for anything else."""
        if isinstance(data, str):
            try:
                data = json.loads(data)
            except ValueError as error:
                raise PartitionError(f"a plan must be JSON: {error}") from error
        return Plan(**plan_from_json(data))  # type: ignore[arg-type]

    def __str__(self) -> str:
        return plan_table(self)


def reasons(verdict: Verdict) -> str:
    """Why a verdict is no, without the operator and the node."""
    return "; ".join(map(str, verdict.reasons)) or "accepted"


def make_plan(
    mod: IRModule,
    targets: Sequence[str | Backend],
    exclude: Exclude = (),
    policy: str = "order",
    mod_name: str = "default",
) -> Plan:
    """Plan the cut of *mod* over *targets*, the first that takes an operator before the next.

    *exclude* names ONNX nodes or operators that no target gets, or by target those that it does not get.
    The host is whatever no target takes: name ``c`` only for regions of generated C beside it. Raises PartitionError
    for an unknown target, policy or exclusion.
    """
    if policy not in POLICIES:
        raise PartitionError(f"no policy is called {policy!r}; known: {', '.join(POLICIES)}")
    names = [t.name if isinstance(t, Backend) else str(t) for t in targets]
    twice = next((n for k, n in enumerate(names) if n in names[:k]), None)
    if twice is not None:
        raise PartitionError(f"target {twice!r} is named twice in {', '.join(names)}")
    backends = [get_backend(name) for name in names]
    mod = InferType()(mod)
    exclusions = Exclusions.of(exclude, names)
    exclusions.check(known_names(mod))
    record = CompositeRecord()
    prepared, dissolved = form_composites(mod, backends, exclusions, record)
    limits = {b.name: b.limits for b in backends if b.limits != Limits()}
    decisions = _within_limits(prepared, decide(prepared, backends, exclusions), limits)
    plan = Plan(
        policy, tuple(names), mod_name, tuple(decisions), (), dissolved, limits, tuple(map(str, record.failed_checks))
    )
    cut = PartitionGraph(mod_name)(annotate(prepared, [d.target for d in decisions], limits))
    return replace(plan, regions=tuple(planned_regions(cut)))


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
