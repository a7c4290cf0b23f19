"""How far results may be from float32's where products take operands of fewer bits: data, by what an operator is.

A bound counts roundings of the narrow type (``u``: 2**-11 of float16, 2**-8 of bfloat16) in parts of the largest
magnitude of an output; sums are float32's, so that neither their length nor their order adds to it. A product of
operands that are each off by ``u`` is off by at most ``2u + u**2`` of the sum of its terms' magnitudes (Higham,
Accuracy and Stability of Numerical Algorithms, section 3.1), which for signs that change is several times the result:
8 are counted. What reads a product hands its error on, times its own condition: ``x exp(x)`` of a softmax, the
deviation of a norm, the span of a bounded activation. Storing halves and computing with them (``half=memory``,
``half=compute`` of the backend opencl) round at the same places, so that both have one row.
``tests/driver/test_half_regions.py`` holds products and patterns of OpenCL to these; they are what ``byoc certify
--precision`` allows.
"""

from __future__ import annotations

from collections.abc import Mapping

from byoc.ir.op import Op
from byoc.ir.traits import OpKind
from byoc.relay.expr import Call, Function
from byoc.relay.transform.half_operands import takes_half
from byoc.relay.traverse import post_order

UNIT_ROUNDOFF: Mapping[str, float] = {"f32": 0.0, "fp16": 2.0**-11, "bf16": 2.0**-8}
# roundings of the narrow type that a call of such an operator may add to what a product's error has become
ROUNDINGS: Mapping[OpKind, int] = {
    OpKind.PRODUCT: 8,
    OpKind.POINTWISE: 4,
    OpKind.VIEW: 1,
    OpKind.MOVE: 1,
    OpKind.WINDOW: 2,
    OpKind.REDUCTION: 4,
    OpKind.ROWS: 16,
    OpKind.NORM: 16,
}
BOUNDED = 16  # an activation: a clip or a sigmoid leaves a unit of the ten or twenty over which a product spreads
OTHERS = 4


def added_tolerance(function: Function, precision: str) -> float:
    """The part of the largest magnitude that *precision* adds to what the results of *function* may be off by.

    0 where no product in it may take narrow operands.
    """
    calls = [n for n in post_order(function) if isinstance(n, Call) and isinstance(n.op, Op)]
    if not any(takes_half(c) for c in calls):
        return 0.0
    return sum(roundings(c.op) for c in calls if isinstance(c.op, Op)) * UNIT_ROUNDOFF[precision]


def roundings(op: Op) -> int:
    """The row of *op*."""
    return BOUNDED if op.traits.activation else ROUNDINGS.get(op.traits.kind, OTHERS)
