"""Regions in half precision, where the user asks for ``fp16``: which products take halves, and which cannot.

A backend says whether its regions do (``Backend.why_not_in``); for one that does, each region's function is rewritten
before it is compiled (``relay/transform/half_operands.py``), so that plan, costs and the host's version of it stay as
they are. What must stay in float32 is found by range: constants by their numbers, values by samples, which run through
the model in float32 before the cut. A call is known on both sides of the cut by its operator and its ONNX nodes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from byoc.contract.backend import Backend
from byoc.driver.precision import FP16
from byoc.driver.precision import HALVES as WHERE
from byoc.driver.quantization import REPORT, Calibration, CompileHost, HostQuantization
from byoc.errors import PartitionError, UserError, defined_at
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.types import TensorType
from byoc.partition.calls import Decision
from byoc.partition.plan.plan import Plan
from byoc.relay.expr import Call, Constant, Function, Tuple, Var
from byoc.relay.qnn.quantize import Histogram
from byoc.relay.transform import InferType
from byoc.relay.transform.base.fusion_graph import uncompiled_children
from byoc.relay.transform.half_operands import (
    LARGEST,
    WIDE,
    Beyond,
    HalfProduct,
    Key,
    half_operands,
    hands_on,
    key_of,
    out_of_range,
    takes_half,
)
from byoc.relay.traverse import post_order
from byoc.runtime.library import Library

HEADROOM = 2.0  # by which other inputs may exceed what the samples reached


@dataclass(frozen=True)
class GivenHalves:
    """What targets that declare float16 were given in it: *products* by target, with the reason of each that was not;
    *refusals* say of a target why it was given none. *cast* are the calls that are on float16 for them, by their keys,
    and *constants* what these had in float32 (``compiler/widened_host.py``).
    """

    products: tuple[tuple[str, HalfProduct], ...] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)
    cast: frozenset[Key] = frozenset()
    constants: Mapping[int, tuple[Constant, Constant]] = field(default_factory=dict)


@dataclass
class HalfRegions:
    """Makes the regions of one build; *products* records what became of each product, by target, *refusals* which
    target has none and why. *targets* are those whose regions are in half precision; None for all. *given* are those
    whose calls on float16 the model itself has.
    """

    beyond: Beyond
    targets: frozenset[str] | None = None
    products: list[tuple[str, HalfProduct]] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    given: frozenset[str] = frozenset()

    @staticmethod
    def of(
        beyond: Beyond | None, targets: Collection[str] | None = None, given: GivenHalves | None = None
    ) -> HalfRegions:
        """For *targets*, or all; without *beyond* by the numbers of constants alone. *given* is in float16 already."""
        own = None if targets is None else frozenset(targets)
        if given is None:
            return HalfRegions(beyond or Beyond(), own)
        vendors = frozenset((*given.refusals, *(target for target, _ in given.products)))
        return HalfRegions(beyond or Beyond(), own, list(given.products), dict(given.refusals), vendors)

    def lowered(self, region: Function, backend: Backend, options: Mapping[str, object]) -> Function:
        """*region* as *backend* is to compile it."""
        if backend.name in self.given or (self.targets is not None and backend.name not in self.targets):
            return region
        why: object = backend.why_not_in(FP16, options)
        if not isinstance(why, str | None):
            raise PartitionError(
                f"backend {backend.name!r}: its why_not_in(precision, options) gave {why!r}"
                f"{defined_at(backend.why_not_in)}, expected a clause that says why not, or None where it does"
            )
        if why is not None:
            self.refusals[backend.name] = why
            return region
        made, products = half_operands(region, self.beyond)
        self.products += [(backend.name, p) for p in products]
        return made

    def decided(self, plan: Plan) -> Plan:
        """*plan* with the precision of each product of the regions."""
        self.products = [(target, _where_planned(target, p, plan, self.given)) for target, p in self.products]
        return dataclasses.replace(plan, decisions=tuple(_decided(d, self) for d in plan.decisions))

    def to_report(self) -> dict[str, object]:
        """What the report says: a line for each target, and the products that stay in float32."""
        targets = dict.fromkeys((*self.refusals, *(target for target, _ in self.products)))
        wide = [(target, p) for target, p in self.products if p.reason]
        return {
            "text": "".join(f"{self._line(target)}\n" for target in targets),
            "left": [
                {"target": t, "operator": p.operator, "nodes": list(p.nodes), "reason": p.reason} for t, p in wide
            ],
        }

    def _line(self, target: str) -> str:
        if target in self.refusals:
            return f"fp16: {target} stays in f32: {self.refusals[target]}"
        mine = [p for t, p in self.products if t == target]
        halves = sum(not p.reason for p in mine)
        left = dict.fromkeys(f"{p.nodes[0] if p.nodes else p.operator}: {p.reason}" for p in mine if p.reason)
        shown = f"; {'not' if target in self.given else 'in f32'}: {'; '.join(left)}" if left else ""
        how = "are given to it in float16" if target in self.given else "take halves, with sums in f32"
        return f"fp16: {halves} of {len(mine)} products of {target} {how}{shown}"


class HalfCalibration(HostQuantization):
    """The ranges of what may be stored in half precision, from samples that run through the model in float32."""

    precision = FP16
    beyond = Beyond()

    def observed(self, mod: IRModule, compile_host: CompileHost) -> Beyond:
        """What must stay in float32.

        Raises UserError for samples that do not fit the inputs, and where there is none.
        """
        self.calibration = dataclasses.replace(self.calibration, samples=tuple(self.calibration.samples or ()))
        mod = InferType()(mod)
        main = mod["main"]
        assert isinstance(main, Function)
        readers = [n for n in post_order(main.body, uncompiled_children) if takes_half(n) or hands_on(n)]
        sources = dict.fromkeys(s for r in readers for s in _operands(r))
        seen = self._observe(mod, main, list(sources), compile_host)
        values = {s: why for s, h in seen.items() if (why := _range_refusal(h)) is not None}
        of_readers = {}
        for reader in readers:
            assert isinstance(reader, Call)
            for k, operand in enumerate(_operands(reader)):
                if operand in values and takes_half(reader):
                    of_readers[key_of(reader)] = f"its operand {k} {values[operand]}"
        of_values = {key_of(s): why for s, why in values.items() if isinstance(s, Call)}
        return Beyond(of_readers, of_values, self.keep)

    def check(self, library: Library) -> None:
        """Measure the error of the compiled *library* on samples, and put it into its report.

        Raises UserError where an output's error is above ``max_error``.
        """
        report = library.report.pop(REPORT, None)  # of the host, which quantizes nothing in this precision
        super().check(library)
        mine = library.report.pop(REPORT)
        assert report is None and isinstance(mine, Mapping)
        measured = {name: mine[name] for name in ("samples", "errors") if name in mine}
        library.report[WHERE] = {**_report_of(library), **measured}


def _where_planned(target: str, product: HalfProduct, plan: Plan, given: Collection[str]) -> HalfProduct:
    """*product*, which *target* was given in float16; where the plan has it elsewhere, with that as a reason."""
    if target not in given or product.reason:
        return product
    mine = [d for d in plan.decisions if _is_about(d, product)]
    if not mine or any(d.target == target for d in mine):
        return product
    where = f"on {mine[0].target}, in float16" if mine[0].target else "on the host"
    return dataclasses.replace(product, reason=f"the plan has it {where}")


def _is_about(decision: Decision, product: HalfProduct) -> bool:
    return product.operator in (decision.operator, *decision.inside) and set(product.nodes) <= set(decision.nodes)


def _decided(decision: Decision, halves: HalfRegions) -> Decision:
    mine = [p for target, p in halves.products if target == decision.target and _is_about(decision, p)]
    if not mine:
        return decision
    reason = next((p.reason for p in mine if p.reason), "")
    return dataclasses.replace(decision, precision="f32" if reason else FP16, precision_reason=reason)


def half_calibration(calibration: Calibration, keep: Sequence[str]) -> HalfCalibration:
    """The ranges by *calibration*. Raises UserError for what int8 alone asks of one."""
    if calibration.keep_first or calibration.keep_last:
        raise UserError("calibration: keep_first and keep_last are for int8; name products in keep_f32 for fp16")
    return HalfCalibration(calibration, keep)


def _operands(reader: RelayExpr) -> list[RelayExpr]:
    """The float32 tensors that *reader* takes and that are made when the model runs, tuples flattened."""
    assert isinstance(reader, Call)
    flat = [f for a in reader.args for f in (a.fields if isinstance(a, Tuple) else (a,))]
    return [a for a in flat if isinstance(a, (Call, Var)) and _is_wide(a)]


def _is_wide(node: RelayExpr) -> bool:
    ty = node.checked_type
    return isinstance(ty, TensorType) and ty.dtype == WIDE


def _range_refusal(seen: Histogram) -> str | None:
    """Why what was *seen* of a value is not held in float16, in words."""
    if not seen.is_finite:
        return "is not finite on the samples"
    largest = max(abs(seen.low), abs(seen.high))
    if largest <= LARGEST < HEADROOM * largest:
        return f"reaches {largest:.3g} on the samples, within {HEADROOM:g} of float16's end"
    why = out_of_range(largest)
    return None if why is None else f"{why} on the samples"


def _report_of(library: Library) -> Mapping[str, object]:
    report = library.report.get(WHERE, {})
    assert isinstance(report, Mapping)
    return report
