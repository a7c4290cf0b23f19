"""``nn.fast_softmax``: softmax with the exponential by a polynomial. Source: ``relay.nn.fast_softmax``."""

from __future__ import annotations

from collections.abc import Sequence

from byoc import te
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.types import Type
from byoc.relay.expr import Call
from byoc.relay.op.builder import make_call
from byoc.relay.op.fast_math import exp_of
from byoc.relay.op.nn.activation import SoftmaxAttrs, softmax_parts, softmax_relation
from byoc.te import Index, PrimExpr, Tensor


def _compute(attrs: SoftmaxAttrs, inputs: Sequence[Tensor], out_type: Type) -> list[Tensor]:
    data = inputs[0]
    (_, powers, total), row = softmax_parts(data, attrs.axis % data.ndim, exp_of)

    def element(*index: Index) -> PrimExpr:
        return te.cast(data.dtype, powers(*index) / total(*row(index)))

    return [te.compute(data.shape, element, name="fast_softmax", tag="softmax_div")]


register_op(
    "nn.fast_softmax", inputs=("data",), rel=softmax_relation, doc="Softmax with exp by a polynomial.",
    attrs=SoftmaxAttrs, pattern=OpPattern.OPAQUE, compute=_compute,
    samples=(Sample([(3, 7)]), Sample([(2, 5, 3)], {"axis": 1}, low=80.0, high=120.0)),
)


def fast_softmax(data: RelayExpr, axis: int = -1) -> Call:
    """exp(x) by a polynomial over its sum along *axis*. Source: ``relay.nn.fast_softmax``."""
    return make_call("nn.fast_softmax", [data], SoftmaxAttrs(axis))
