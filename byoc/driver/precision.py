"""What the host's products compute in, where the user says it, and what a plan says of it.

In float32 nothing is done and nothing is reported; the other precisions have ``narrow_products.py``.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from byoc.driver.options import PRECISIONS
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.ir.passes.transform import Pass
from byoc.partition.calls import Decision, nearest
from byoc.partition.plan.plan import Plan
from byoc.runtime.library import Library

if TYPE_CHECKING:
    from byoc.driver.quantization import Calibration, Sample
    from byoc.relay.expr import Function

CALIBRATED = ("int8", "fp16")
FLOAT, FP16, INT8 = "f32", "fp16", "int8"
HALVES = "half_precision"  # what became of products in half precision, in the report
LEFT_TO_TARGETS = "float32_products"  # those that targets were given in float32 in spite of bf16 or int8, likewise


@dataclass(frozen=True)
class ProductPrecision:
    """What the host's products compute in; *keep_f32* names operators and ONNX nodes that stay in float32.

    ``fp16`` is for regions of backends that take it (``half_regions.py``), *calibration* then for what must stay in
    float32. ``int8`` takes what the model quantizes (QuantizeLinear, DequantizeLinear) as integers, and quantizes the
    rest by *calibration*, or by ranges found when the model runs.
    """

    products: str = FLOAT
    keep_f32: tuple[str, ...] = ()
    calibration: Calibration | None = None  # of those that are CALIBRATED

    @staticmethod
    def of(
        products: str, keep_f32: Sequence[str], calibration: Calibration | Iterable[Sample] | None = None
    ) -> ProductPrecision:
        """Raises UserError for a precision that is none of ``PRECISIONS``, for a name that is not in a list, and for
        a calibration without int8.
        """
        if products not in PRECISIONS:
            raise UserError(f"precision is one of {', '.join(PRECISIONS)}, got {products!r}")
        if isinstance(keep_f32, str):
            raise UserError(f"keep_f32 is a list of names; write keep_f32=[{keep_f32!r}]")
        if calibration is not None and products not in CALIBRATED:
            raise UserError(f'calibration is for precision="int8" and "fp16", got precision={products!r}')
        if products not in CALIBRATED:
            return ProductPrecision(products, tuple(keep_f32))
        from byoc.driver.quantization import Calibration  # which few ask for

        return ProductPrecision(products, tuple(keep_f32), Calibration.of(calibration))

    def check(self, known: Collection[str]) -> None:
        """Raises UserError with the nearest names for one of *keep_f32* that is not among *known*."""
        for name in self.keep_f32:
            if name not in known:
                raise UserError(
                    f"keep_f32: no operator or ONNX node of the model is called {name!r}; "
                    f"the nearest: {nearest(name, known)}"
                )


@dataclass(frozen=True)
class PrecisionOutcome:
    """In which precision a product runs, and why it is not the one that was asked for."""

    operator: str
    nodes: tuple[str, ...]
    precision: str
    reason: str = ""


class HostProducts:
    """The host's products in float32: nothing is done to them, and nothing reported."""

    def __init__(self) -> None:
        self.outcomes: list[PrecisionOutcome] = []

    def quantized(self, mod: IRModule, compile_host: Callable[[IRModule], Library]) -> IRModule:
        """The partitioned *mod* with main quantized, where int8 was asked for; *compile_host* compiles in float32."""
        return mod

    def add_report(self, library: Library) -> Library:
        """*library* with what quantization did in its report. Raises UserError for an error that is too large."""
        return library

    def left_to_targets(self, regions: Iterable[Function]) -> Mapping[str, object]:
        """What the report says of products that *regions* were given in float32 though less was asked for, if any."""
        return {}

    def passes(self) -> Sequence[Pass]:
        """The pass, where a lower precision was asked for. Requires typed functions before fusion."""
        return ()


def host_products(precision: ProductPrecision) -> HostProducts:
    """What is done to the host's products at *precision*."""
    if precision.products == FLOAT:
        return HostProducts()
    lowering = importlib.import_module("byoc.driver.narrow_products")
    narrow: Callable[[ProductPrecision], HostProducts] = lowering.NarrowProducts
    return narrow(precision)


def with_precision(plan: Plan, outcomes: Sequence[PrecisionOutcome]) -> Plan:
    """*plan* with the precision of each of the host's products; those without names of their own in their order."""
    found: dict[tuple[str, tuple[str, ...]], list[PrecisionOutcome]] = {}
    for outcome in outcomes:
        found.setdefault((outcome.operator, outcome.nodes), []).append(outcome)

    def decided(decision: Decision) -> Decision:
        waiting = found.get((decision.operator, decision.nodes))
        if not waiting or decision.target is not None:
            return decision
        outcome = waiting.pop(0)
        return dataclasses.replace(decision, precision=outcome.precision, precision_reason=outcome.reason)

    return dataclasses.replace(plan, decisions=tuple(map(decided, plan.decisions)))
