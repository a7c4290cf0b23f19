"""Gradients of pools: ``nn.max_pool2d_grad``, ``nn.avg_pool2d_grad``. Source: ``relay.nn.max_pool2d_grad``.

Of elements that are greatest alike the first one gets the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import TypeInferenceError
from byoc.ir.op import OpPattern, Sample, get_op, register_op
from byoc.ir.types import Type
from byoc.relay.expr import Call
from byoc.relay.op.attributes.pool import AvgPool2DAttrs, MaxPool2DAttrs, MaxPoolAttrs
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.layout import tensor_of
from byoc.relay.op.core.type_relations import same_dtype
from byoc.relay.op.core.window import differ, pad_tuple, per_axis
from byoc.relay.op.nn.pool import Ints


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
    )


def max_pool2d_grad(
    out_grad: Operand,
    data: Operand,
    pool_size: Ints = (1, 1),
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    layout: str = "NCHW",
    out_layout: str = "",
    ceil_mode: bool = False,
) -> Call:
    """The gradient of ``max_pool2d``, of the type of *data*. Source: ``relay.nn.max_pool2d_grad``."""
    attrs = MaxPool2DAttrs(
        per_axis(pool_size, 2, "pool_size"),
        per_axis(strides, 2, "strides"),
        (1, 1),
        pad_tuple(padding, 2),
        layout,
        out_layout,
        ceil_mode,
    )
    return make_call("nn.max_pool2d_grad", [as_expr(out_grad), as_expr(data)], attrs)


def avg_pool2d_grad(
    out_grad: Operand,
    data: Operand,
    pool_size: Ints = (1, 1),
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    layout: str = "NCHW",
    out_layout: str = "",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Call:
    """The gradient of ``avg_pool2d``, of the type of *data*. Source: ``relay.nn.avg_pool2d_grad``."""
    attrs = AvgPool2DAttrs(
        per_axis(pool_size, 2, "pool_size"),
        per_axis(strides, 2, "strides"),
        (1, 1),
        pad_tuple(padding, 2),
        layout,
        out_layout,
        ceil_mode,
        count_include_pad,
    )
    return make_call("nn.avg_pool2d_grad", [as_expr(out_grad), as_expr(data)], attrs)
