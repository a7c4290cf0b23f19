"""Lowering of quantized arithmetic and of functions of each element.

Sums bring both sides to the scale of the result, products are rescaled once, functions go through float32. Source:
``relay/qnn/op/{add,subtract,mul,leaky_relu,softmax,unary_elementwise_op}``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.ir.attrs import Attrs, all_given
from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType, Type
from byoc.relay import op as relay
from byoc.relay.expr import constant
from byoc.relay.op.nn.activation import LeakyReluAttrs, SoftmaxAttrs
from byoc.relay.qnn.lowering.parameters import cast, is_zero, less_zero, narrow, number_of, scalar, value_of
from byoc.relay.qnn.lowering.quantize import dequantized, quantized
from byoc.relay.qnn.lowering.requantize import Rescaling, requantized
from byoc.relay.qnn.op.binary import DTYPES, BroadcastAttrs
from byoc.relay.qnn.op.op import register_qnn_canonicalize
from byoc.runtime.kernels.qnn.elementwise import spread_from_last
from byoc.runtime.kernels.qnn.fixed_point import multiplier_and_shift

INT32 = "int32"
SCALAR = TensorType((), INT32)


def rescaled(data: RelayExpr, ty: TensorType, how: Rescaling) -> RelayExpr:
    """*data* under other parameters as int32; only widened where these are the same."""
    return cast(data, ty.dtype, INT32) if how.is_identity else requantized(data, ty, how, INT32)


def _sum_rule(
    combine: Callable[[RelayExpr, RelayExpr], RelayExpr], undo_zero: Callable[[RelayExpr, RelayExpr], RelayExpr]
) -> Callable[..., RelayExpr | None]:
    def lower(attrs: BroadcastAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
        out_scale, out_zero = inputs[6:]
        left = Rescaling(inputs[2], inputs[3], out_scale, out_zero, types[2:4], attrs.lhs_axis)
        right = Rescaling(inputs[4], inputs[5], out_scale, out_zero, types[4:6], attrs.rhs_axis)
        lhs, rhs = types[:2]
        assert isinstance(lhs, TensorType) and isinstance(rhs, TensorType)
        if not (left.is_known and right.is_known) or lhs.dtype not in DTYPES:
            return None
        value = combine(rescaled(inputs[0], lhs, left), rescaled(inputs[1], rhs, right))
        if not is_zero(out_zero):
            value = undo_zero(value, scalar(out_zero, types[7], INT32))
        return narrow(value, lhs.dtype)

    return lower


register_qnn_canonicalize("qnn.add", _sum_rule(relay.add, relay.subtract))
register_qnn_canonicalize("qnn.subtract", _sum_rule(relay.subtract, relay.add))


@register_qnn_canonicalize("qnn.mul")
def lower_mul(attrs: BroadcastAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
    """``qnn.mul`` as an int32 product, rescaled; None where a scale is not constant, or the data is not quantized."""
    scales, (lhs, rhs), out = [value_of(inputs[k]) for k in (2, 4)], types[:2], types[8]
    assert isinstance(lhs, TensorType) and isinstance(rhs, TensorType) and isinstance(out, TensorType)
    if not all_given(scales) or number_of(inputs[6]) is None or lhs.dtype not in DTYPES:
        return None
    left = less_zero(cast(inputs[0], lhs.dtype, INT32), inputs[3], types[3], attrs.lhs_axis, lhs.ndim, INT32)
    right = less_zero(cast(inputs[1], rhs.dtype, INT32), inputs[5], types[5], attrs.rhs_axis, rhs.ndim, INT32)
    ndim = out.ndim
    scale = spread_from_last(scales[0], attrs.lhs_axis, lhs.ndim, ndim).astype("float32")
    scale = scale * spread_from_last(scales[1], attrs.rhs_axis, rhs.ndim, ndim).astype("float32")
    how = Rescaling(constant(scale), constant(0), inputs[6], inputs[7], (types[2], SCALAR))
    return requantized(relay.multiply(left, right), TensorType(out.shape, INT32), how, lhs.dtype)


def _through_floats(function: Callable[[RelayExpr], RelayExpr]) -> Callable[..., RelayExpr]:
    def lower(attrs: Attrs | None, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr:
        data = types[0]
        assert isinstance(data, TensorType)
        value = function(dequantized(inputs[0], data, inputs[1:3], types[1:3], -1))
        floats = TensorType(data.shape, "float32")
        return quantized(value, floats, inputs[3:5], types[3:5], -1, data.dtype)

    return lower


def hard_swish(x: RelayExpr) -> RelayExpr:
    """``x * clip(x + 3, 0, 6) / 6`` in float32."""
    return relay.divide(relay.multiply(x, relay.clip(relay.add(x, constant(3.0)), 0.0, 6.0)), constant(6.0))


FUNCTIONS: dict[str, Callable[[RelayExpr], RelayExpr]] = {
    "tanh": relay.tanh,
    "exp": relay.exp,
    "sqrt": relay.sqrt,
    "rsqrt": relay.rsqrt,
    "erf": relay.erf,
    "sigmoid": relay.sigmoid,
    "log": relay.log,
    "abs": relay.abs,
    "hardswish": hard_swish,
}
for _name, _function in FUNCTIONS.items():
    register_qnn_canonicalize(f"qnn.{_name}", _through_floats(_function))


@register_qnn_canonicalize("qnn.softmax")
def lower_softmax(attrs: SoftmaxAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr:
    """``qnn.softmax`` through float32."""
    return _through_floats(lambda x: relay.nn.softmax(x, attrs.axis))(attrs, inputs, types)


@register_qnn_canonicalize("qnn.leaky_relu")
def lower_leaky_relu(attrs: LeakyReluAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
    """``qnn.leaky_relu``: below the zero point z of the result, ``alpha * q + (1 - alpha) * z`` in fixed point."""
    scale, point, new_scale, new_point = inputs[1:]
    how = Rescaling(scale, point, new_scale, new_point, types[1:3])
    if not how.is_known:
        return None
    data = types[0]
    assert isinstance(data, TensorType)
    value, zero = rescaled(inputs[0], data, how), scalar(inputs[4], types[4], INT32)
    below = relay.add(
        relay.fixed_point_multiply(value, *multiplier_and_shift(attrs.alpha)),
        relay.fixed_point_multiply(zero, *multiplier_and_shift(1.0 - attrs.alpha)),
    )
    return narrow(relay.where(relay.less(value, zero), below, value), data.dtype)
