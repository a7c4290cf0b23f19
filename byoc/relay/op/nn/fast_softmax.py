"""``nn.fast_softmax``: softmax with the exponential by a polynomial. Source: ``relay.nn.fast_softmax``."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.op_parts import Implementation
from byoc.ir.traits import OpKind, Traits
from byoc.ir.types import Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.type_relations import is_float, only
from byoc.relay.op.nn.activation import SoftmaxAttrs, softmax_of, softmax_relation
from byoc.relay.op.pointwise.fast_math import exp_of
from byoc.te import Tensor


def _compute(attrs: SoftmaxAttrs, inputs: Sequence[Tensor], out_type: Type) -> list[Tensor]:
    return [softmax_of(inputs[0], attrs.axis, "fast_softmax", exp_of)]


register_op(
    "nn.fast_softmax",
    inputs=("data",),
    rel=softmax_relation,
    doc="Softmax with exp by a polynomial.",
    attrs=SoftmaxAttrs,
    pattern=OpPattern.OPAQUE,
    traits=Traits(OpKind.ROWS, costly=0.7, passes=3.0),
    compute=Implementation(_compute, code_for=only(is_float)),
    samples=(Sample([(3, 7)]), Sample([(2, 5, 3)], {"axis": 1}, low=80.0, high=120.0)),
).set_support_level(1)


def fast_softmax(data: RelayExpr, axis: int = -1) -> Call:
    """exp(x) by a polynomial over its sum along *axis*. Source: ``relay.nn.fast_softmax``."""
    return make_call("nn.fast_softmax", [data], SoftmaxAttrs(axis))
