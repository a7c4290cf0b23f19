"""The cut that a plan is: which operators go where, why not elsewhere, and what crosses the borders.

Invariant: it holds decisions and numbers, no expressions; applied to the same module it gives the same cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from byoc.contract.limits import Limits
from byoc.contract.registration import get_backend
from byoc.contract.verdict import Verdict, callee_name, sentence_of
from byoc.errors import PartitionError
from byoc.ir.module import IRModule
from byoc.partition.calls import Decision, calls_of, functions_of
from byoc.partition.cut.decide import composites_of, dissolve, judged
from byoc.relay.expr import Call, Function
from byoc.relay.op.annotation import is_begin, is_end
from byoc.relay.transform import InferType, MergeComposite
from byoc.relay.traverse import post_order

if TYPE_CHECKING:
    from byoc.partition.content.explanation import Explained
    from byoc.partition.content.region_measures import PlannedRegion
    from byoc.partition.cut.cost_breakdown import CostBreakdown, Transfer
    from byoc.partition.cut.matches import ChosenMatch


@dataclass(frozen=True)
class PlannedCut:
    """The fields of a plan, which its class (``plan/plan.py``) documents, and how they are applied to a module."""

    policy: str
    targets: tuple[str, ...]
    mod_name: str
    decisions: tuple[Decision, ...]
    regions: tuple[PlannedRegion, ...] = ()
    dissolved: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    limits: Mapping[str, Limits] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    composites: tuple[ChosenMatch, ...] = ()
    moves: tuple[Transfer, ...] = ()
    total: CostBreakdown | None = None
    measured: Mapping[str, float] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    preferred: bool = False
    layouts: tuple[str, ...] = ()
    stand_ins: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_read(self) -> bool:
        """Whether the decisions were read from a file: targets are asked again before they are followed."""
        return True

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

        Raises PartitionError where *mod* is not the module that the plan was made for, and where a plan from a file has
        an operator on a target that does not take it.
        """
        mod = self.composed(self._placed(InferType()(mod), self.layouts))
        mod = self._placed(mod, self.places)
        calls = [call for _, func in functions_of(mod) for call in calls_of(func)]
        self._check([callee_name(call) for call in calls])
        if self.is_read:
            self._ask_again(calls)
        return mod

    def composed(self, mod: IRModule) -> IRModule:
        """*mod*, which has its layouts, with the composites of the plan."""
        chosen = self.total is not None or self.preferred
        if chosen:
            from byoc.partition.cut.matches import with_composites

            mod, _ = with_composites(mod, self.composites)
        for target in () if chosen else self.targets:
            from byoc.contract.checks import pattern_entries

            rows = [(e.name, e.pattern, e.check) for e in pattern_entries(get_backend(target))]
            if rows:
                mod = MergeComposite(rows)(mod)
                found = composites_of(mod, target)
                gone = self.dissolved.get(target, ())
                if gone:
                    mod = dissolve(mod, {found[n] for n in gone if n < len(found)})
        return mod

    @staticmethod
    def _placed(mod: IRModule, places: Sequence[str]) -> IRModule:
        """*mod* with its calls at *places*, and casts between these; as it is without any."""
        if not places:
            return mod
        from byoc.partition.cut.casting import with_casts

        try:
            return with_casts(mod, places)[0]
        except IndexError as error:
            raise PartitionError("the plan was made for a module with fewer operators; make it again") from error

    def _ask_again(self, calls: Sequence[Call]) -> None:
        """Raises PartitionError for an operator on a target that does not take it, as a file may have it."""
        for number, (call, decision) in enumerate(zip(calls, self.decisions, strict=True)):
            verdict = judged(get_backend(decision.target), call) if decision.target is not None else True
            if not verdict:
                raise PartitionError(
                    f"the plan has operator {number} on {decision.target}, which does not take it: {verdict}; "
                    "make the plan again, or put it elsewhere"
                )

    def _check(self, found: Sequence[str]) -> None:
        planned = [d.operator for d in self.decisions]
        if found == planned:
            return
        same = [a == b for a, b in zip(found, planned, strict=False)]
        at = same.index(False) if False in same else len(same)
        here, there = (names[at] if at < len(names) else "nothing" for names in (found, planned))
        raise PartitionError(
            f"the plan was made for another module: operator {at} is {here}, the plan has {there}; make it again, "
            "for the shapes, the precision and the samples with which it is compiled"
        )

    def annotate(self, mod: IRModule) -> IRModule:
        """*mod* with its composites and annotations: regions as they were planned, or else merged as Relay does."""
        return self.annotate_prepared(self.prepare(mod))

    def annotate_prepared(self, prepared: IRModule) -> IRModule:
        """What :meth:`annotate` makes of what :meth:`prepare` made."""
        return self.annotate_numbered(prepared)[0]

    def annotate_numbered(self, prepared: IRModule) -> tuple[IRModule, tuple[int, ...]]:
        """What :meth:`annotate_prepared` makes, and for each of its calls, in order, the number of its decision."""
        from byoc.partition.cut.annotate import annotate

        if self.total is None and all(d.region is None for d in self.decisions):
            return annotate(prepared, [d.target for d in self.decisions]), tuple(range(len(self.decisions)))
        from byoc.partition.cut.regions import annotated_calls

        result, numbers, count = prepared.shallow_copy(), [], 0
        for var, func in functions_of(prepared):
            number = {call: count + k for k, call in enumerate(calls_of(func))}
            count += len(number)
            placed = {call: self.decisions[k] for call, k in number.items()}
            regions = {c: (d.target, d.region) for c, d in placed.items() if d.target and d.region is not None}
            annotated, origin = annotated_calls(func, regions)
            result[var] = annotated
            numbers += [number[origin[call]] for call in calls_of(annotated)]
        return result, tuple(numbers)

    def apply(self, mod: IRModule) -> IRModule:
        """*mod* cut by this plan: each region a function with ``Compiler`` and ``global_symbol``.

        Raises PartitionError where *mod* is not the module that the plan was made for.
        """
        if not isinstance(mod, IRModule):
            raise PartitionError(
                f"a plan is applied to a module of Relay, got {type(mod).__name__}: "
                "byoc.compile(model, plan=plan) takes models"
            )
        prepared = self.prepare(mod)
        if not self.cuts(prepared):
            return InferType()(prepared)
        from byoc.relay.transform.cut.partition_graph import PartitionGraph

        return PartitionGraph(self.mod_name)(self.annotate_prepared(prepared))

    def cuts(self, prepared: IRModule) -> bool:
        """Whether anything of what :meth:`prepare` made leaves the host, or left it before."""
        if any(d.target is not None for d in self.decisions):
            return True
        functions = [f for f in prepared.functions.values() if isinstance(f, Function)]
        nodes = (n for f in functions for n in post_order(f))
        return any("Compiler" in f.attrs for f in functions) or any(is_begin(n) or is_end(n) for n in nodes)

    def explain(self, name: str) -> Explained:
        """Where the ONNX node or operator *name* goes (it may hold ``*``), alone or in a composite, what every target
        said, what else could have run it. Raises PartitionError with the nearest names where nothing is called so.
        """
        from byoc.partition.content.explanation import explain

        return explain(name, self.decisions, self.symbols(), self.stand_ins)

    def region_seconds(self) -> dict[str, float]:
        """What each region is estimated to take by its operators, where costs were asked."""
        found: dict[str, float] = {}
        for decision, symbol in zip(self.decisions, self.symbols(), strict=True):
            if symbol and decision.seconds is not None:
                found[symbol] = found.get(symbol, 0.0) + decision.seconds
        return found

    def symbols(self) -> tuple[str, ...]:
        """The name of its region for each decision, empty where it is in none."""
        owner = {number: region.symbol for region in self.regions for number in region.calls}
        return tuple(owner.get(number, "") for number in range(len(self.decisions)))


def reasons(verdict: Verdict) -> str:
    """Why a verdict is no, without the operator and the node."""
    return sentence_of(verdict.why) or "accepted"
