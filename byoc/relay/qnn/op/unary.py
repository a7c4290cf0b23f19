"""Functions of each element of a quantized tensor: ``qnn.tanh`` and its kin, ``qnn.leaky_relu``, ``qnn.softmax``.

Source: ``relay/qnn/op/unary_elementwise_op.cc``, ``leaky_relu.cc`` and ``softmax.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OPS, OpPattern, Sample, register_op
from byoc.ir.traits import OpKind, Traits, pointwise
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import normalize_axis
from byoc.relay.op.nn.activation import LeakyReluAttrs, SoftmaxAttrs
from byoc.relay.qnn.op.type_relations import SCALE, ZERO_POINT, check_scalar, data_of

INPUTS = ("x", "scale", "zero_point", "output_scale", "output_zero_point")
DTYPES = ("int8", "uint8", "int16", "int32")


def elementwise_relation(types: Sequence[Type], attrs: Attrs | None) -> TensorType:
    """The type of the first input, whose scale and zero point and those of the result are scalars."""
    data = data_of(types, 0, "x", DTYPES)
    for k, name in enumerate(INPUTS[1:], 1):
        check_scalar(types[k], name, SCALE if k % 2 else ZERO_POINT)
    return data


def _softmax_rel(types: Sequence[Type], attrs: SoftmaxAttrs) -> TensorType:
    data = elementwise_relation(types, attrs)
    normalize_axis(attrs.axis, data.ndim)
    return data


def operands(
    x: Operand, scale: Operand, zero_point: Operand, output_scale: Operand, output_zero_point: Operand
) -> list[RelayExpr]:
    """The arguments of an operator on one quantized tensor."""
    return [
        as_expr(x),
        as_expr(scale, SCALE),
        as_expr(zero_point, ZERO_POINT),
        as_expr(output_scale, SCALE),
        as_expr(output_zero_point, ZERO_POINT),
    ]


def _numbers(scale: float, zero: int, out_scale: float, out_zero: int) -> list[np.ndarray]:
    return [
        np.array(scale, "float32"),
        np.array(zero, "int32"),
        np.array(out_scale, "float32"),
        np.array(out_zero, "int32"),
    ]


_INTS = np.arange(-120, 120, 20, dtype="int8").reshape(4, 3)
_SAMPLES = (
    Sample([_INTS, *_numbers(0.05, -3, 0.03, 5)]),
    Sample([_INTS.view("uint8"), *_numbers(0.02, 0, 0.5, 0)]),
)


def _unary(name: str, doc: str) -> Callable[[Operand, Operand, Operand, Operand, Operand], Call]:
    register_op(
        f"qnn.{name}",
        inputs=INPUTS,
        rel=elementwise_relation,
        pattern=OpPattern.ELEMWISE,
        traits=pointwise(quantized=True, costly=OPS[name].traits.costly if name in OPS else 0.0),
        doc=doc,
        samples=_SAMPLES,
    )

    def build(
        x: Operand, scale: Operand, zero_point: Operand, output_scale: Operand, output_zero_point: Operand
    ) -> Call:
        return make_call(f"qnn.{name}", operands(x, scale, zero_point, output_scale, output_zero_point))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{doc} Source: ``relay.qnn.op.{name}``."
    return build


tanh = _unary("tanh", "The hyperbolic tangent of each element of a quantized tensor.")
exp = _unary("exp", "The exponential of each element of a quantized tensor.")
sqrt = _unary("sqrt", "The square root of each element of a quantized tensor.")
rsqrt = _unary("rsqrt", "The reciprocal square root of each element of a quantized tensor.")
erf = _unary("erf", "The error function of each element of a quantized tensor.")
sigmoid = _unary("sigmoid", "The logistic function of each element of a quantized tensor.")
hardswish = _unary("hardswish", "``x * clip(x + 3, 0, 6) / 6`` of each element of a quantized tensor.")
log = _unary("log", "The natural logarithm of each element of a quantized tensor.")
abs = _unary("abs", "The absolute value of each element of a quantized tensor.")

register_op(
    "qnn.softmax",
    inputs=INPUTS,
    attrs=SoftmaxAttrs,
    rel=_softmax_rel,
    traits=Traits(OpKind.ROWS, quantized=True, costly=3.5),
    doc="The softmax of a quantized tensor along an axis.",
    samples=(
        Sample([_INTS, *_numbers(0.05, -3, 1 / 256, -128)], {"axis": 0}),
        Sample([_INTS, *_numbers(1, 0, 0.1, 0)]),
    ),
)
register_op(
    "qnn.leaky_relu",
    inputs=("x", "input_scale", "input_zero_point", "output_scale", "output_zero_point"),
    attrs=LeakyReluAttrs,
    rel=elementwise_relation,
    pattern=OpPattern.ELEMWISE,
    traits=Traits(OpKind.POINTWISE, quantized=True),
    doc="Each element where it is positive, else alpha times it.",
    samples=(
        Sample([_INTS, *_numbers(0.05, -3, 0.03, 5)], {"alpha": 0.1}),
        Sample([_INTS.view("uint8"), *_numbers(0.125, 60, 0.125, 60)], {"alpha": 0.9}),
    ),
)


def softmax(
    x: Operand, scale: Operand, zero_point: Operand, output_scale: Operand, output_zero_point: Operand, axis: int = -1
) -> Call:
    """The softmax of a quantized tensor along *axis*. Source: ``relay.qnn.op.softmax``."""
    args = operands(x, scale, zero_point, output_scale, output_zero_point)
    return make_call("qnn.softmax", args, SoftmaxAttrs(int(axis)))


def leaky_relu(
    x: Operand,
    alpha: float,
    input_scale: Operand,
    input_zero_point: Operand,
    output_scale: Operand,
    output_zero_point: Operand,
) -> Call:
    """*x* where it is positive, else *alpha* times it. Source: ``relay.qnn.op.leaky_relu``."""
    args = operands(x, input_scale, input_zero_point, output_scale, output_zero_point)
    return make_call("qnn.leaky_relu", args, LeakyReluAttrs(float(alpha)))
