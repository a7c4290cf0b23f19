"""Gradients of pools: ``nn.max_pool2d_grad``, ``nn.avg_pool2d_grad``. Source: ``relay.nn.max_pool2d_grad``.

Of elements that are greatest alike the first one gets the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.errors import TypeInferenceError
from byoc.ir.op import OpPattern, Sample, get_op, register_op
from byoc.ir.types import Type
from byoc.relay.expr import Call
from byoc.relay.op.attributes.pool import AvgPool2DAttrs, MaxPool2DAttrs, MaxPoolAttrs
from byoc.relay.op.core.arguments import Ints, WindowArguments, takes_fields_of
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import same_dtype
from byoc.relay.op.core.window import differ, tensor_of


def _relation(types: Sequence[Type], attrs: MaxPoolAttrs) -> Type:
    grad, data = tensor_of(types[0], 4, "out_grad"), tensor_of(types[1], 4, "data")
    same_dtype([grad, data])
    kind = "avg" if isinstance(attrs, AvgPool2DAttrs) else "max"
    pooled = tensor_of(get_op(f"nn.{kind}_pool2d").result_type([data], attrs), 4, "the pool")
    if any(differ(a, b) for a, b in zip(grad.shape, pooled.shape, strict=True)):
        raise TypeInferenceError(f"out_grad must have the type {pooled} of the pool, got {grad}")
    return data


_SAMPLES = (
    Sample([(1, 2, 3, 3), (1, 2, 6, 6)], {"pool_size": (2, 2), "strides": (2, 2), "layout": "NCHW"}),
    Sample(
        [(2, 4, 3, 3), (2, 7, 6, 3)],
        {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 0), "layout": "NHWC"},
    ),
)
_KINDS = {
    "max": (MaxPool2DAttrs, _SAMPLES, "greatest element"),
    "avg": (
        AvgPool2DAttrs,
        (*_SAMPLES, *(Sample(s.inputs, {**s.attrs, "count_include_pad": True}) for s in _SAMPLES)),
        "mean",
    ),
}
for _kind, (_attrs, _samples, _what) in _KINDS.items():
    register_op(
        f"nn.{_kind}_pool2d_grad",
        inputs=("out_grad", "data"),
        attrs=_attrs,
        rel=_relation,
        samples=_samples,
        pattern=OpPattern.OPAQUE,
        doc=f"The gradient of the {_what} of windows with respect to the data.",
    ).set_support_level(2)


@dataclass(eq=False, repr=False)
class MaxPool2DGradArguments(WindowArguments):
    """Arguments of ``max_pool2d_grad``."""

    AXES = 2
    out_grad: Operand
    data: Operand
    pool_size: Ints = (1, 1)
    strides: Ints = (1, 1)
    padding: Ints = (0, 0)
    layout: str = "NCHW"
    out_layout: str = ""
    ceil_mode: bool = False


@dataclass(eq=False, repr=False)
class AvgPool2DGradArguments(MaxPool2DGradArguments):
    """Arguments of ``avg_pool2d_grad``."""

    count_include_pad: bool = False


@takes_fields_of(MaxPool2DGradArguments)
def max_pool2d_grad(given: MaxPool2DGradArguments) -> Call:
    """The gradient of ``max_pool2d``, of the type of *data*. Source: ``relay.nn.max_pool2d_grad``."""
    attrs = given.attrs(MaxPool2DAttrs, dilation=(1, 1))
    return make_call("nn.max_pool2d_grad", [as_expr(given.out_grad), as_expr(given.data)], attrs)


@takes_fields_of(AvgPool2DGradArguments)
def avg_pool2d_grad(given: AvgPool2DGradArguments) -> Call:
    """The gradient of ``avg_pool2d``, of the type of *data*. Source: ``relay.nn.avg_pool2d_grad``."""
    attrs = given.attrs(AvgPool2DAttrs, dilation=(1, 1))
    return make_call("nn.avg_pool2d_grad", [as_expr(given.out_grad), as_expr(given.data)], attrs)
