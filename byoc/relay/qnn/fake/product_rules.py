"""Rules of products: convolutions, matrix products and their bias become quantized ones in units of both scales.

Source: ``conv2d``, ``conv2d_transpose``, ``dense``, ``batch_matmul`` and ``bias_add`` of
``fake_quantization_to_integer.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.errors import UserError
from byoc.ir.affine_type import TensorAffineType, as_tensor_affine_type
from byoc.ir.expr import RelayExpr
from byoc.relay import op as relay
from byoc.relay import qnn
from byoc.relay.expr import Call, Constant, constant
from byoc.relay.narrowing import operator_of
from byoc.relay.op.op import register_fake_quantization_to_integer as register
from byoc.relay.qnn.fake.parameters import (
    fold_constant,
    get_zeros,
    is_per_axis,
    same_numbers,
    tensor_type,
)
from byoc.relay.qnn.fake.rewriting import TypeMap

Result = Sequence[object]
Sides = tuple[RelayExpr, RelayExpr, TensorAffineType, TensorAffineType]


def _sides(expr: Call, type_map: TypeMap) -> Sides:
    """Both factors and what they stand for. Raises UserError for one that is not quantized."""
    x, y = expr.args[:2]
    for arg in (x, y):
        if arg not in type_map:
            raise UserError(f"both inputs of {operator_of(expr).name} must be quantized")
    return x, y, as_tensor_affine_type(type_map[x]), as_tensor_affine_type(type_map[y])


def _check_axes(expr: Call, sides: Sides, weight_axis: int | None) -> None:
    """Raises UserError where scales lie along axes whose products have no one scale."""
    _x, y, x_t, y_t = sides
    name = operator_of(expr).name
    if is_per_axis(x_t):
        raise UserError(f"the data of {name} must have one scale and one zero point")
    if is_per_axis(y_t) and (weight_axis is None or y_t.axis % tensor_type(y).ndim != weight_axis):
        raise UserError(f"the scales of the weight of {name} lie along axis {y_t.axis}, not its outputs")


def _product(scale: RelayExpr, other: RelayExpr) -> RelayExpr:
    return fold_constant(relay.multiply(scale, other))


def _convolution(builder: Callable[..., Call]) -> Callable[[Call, TypeMap], Result]:
    def rule(expr: Call, type_map: TypeMap) -> Result:
        attrs = {k: v for k, v in expr.attrs.items() if k != "out_dtype"}
        sides = _sides(expr, type_map)
        _check_axes(expr, sides, attrs["kernel_layout"].index("O"))
        x, weight, x_t, w_t = sides
        scale = _product(x_t.scale, w_t.scale)
        out = builder(x, weight, x_t.zero_point, w_t.zero_point, x_t.scale, w_t.scale, **attrs)
        axis = (attrs["out_layout"] or attrs["data_layout"]).index("C")
        return [out, TensorAffineType(scale, get_zeros(scale), out.attrs.out_dtype, axis)]

    return rule


conv2d = register("nn.conv2d", _convolution(qnn.op.conv2d))
conv2d_transpose = register("nn.conv2d_transpose", _convolution(qnn.op.conv2d_transpose))


@register("nn.dense")
def dense(expr: Call, type_map: TypeMap) -> Result:
    """``qnn.dense``, with a scale for each output where the weight has one."""
    attrs = {k: v for k, v in expr.attrs.items() if k != "out_dtype"}
    sides = _sides(expr, type_map)
    _check_axes(expr, sides, 0)
    x, weight, x_t, w_t = sides
    scale = _product(x_t.scale, w_t.scale)
    out = qnn.op.dense(x, weight, x_t.zero_point, w_t.zero_point, x_t.scale, w_t.scale, **attrs)
    axis = tensor_type(x).ndim - 1
    return [out, TensorAffineType(scale, get_zeros(scale), out.attrs.out_dtype, axis)]


@register("nn.batch_matmul")
def batch_matmul(expr: Call, type_map: TypeMap) -> Result:
    """``qnn.batch_matmul``. Raises UserError for factors that are not transposed as it has them."""
    attrs = expr.attrs
    if attrs["transpose_a"] or not attrs["transpose_b"]:
        raise UserError("qnn.batch_matmul takes its second factor transposed and its first not")
    sides = _sides(expr, type_map)
    _check_axes(expr, sides, None)
    x, y, x_t, y_t = sides
    out = qnn.op.batch_matmul(x, y, x_t.zero_point, y_t.zero_point, x_t.scale, y_t.scale)
    scale = _product(x_t.scale, y_t.scale)
    return [out, TensorAffineType(scale, constant(0), out.attrs.out_dtype, x_t.axis)]


@register("nn.bias_add")
def bias_add(expr: Call, type_map: TypeMap) -> Result:
    """The bias in the units of what it is added to: requantized, or quantized where it is a constant; in int32."""
    x, bias = expr.args
    x_t = type_map[x]
    assert isinstance(x_t, TensorAffineType)
    if x_t.dtype != "int32":
        x, x_t = relay.cast(x, "int32"), TensorAffineType(x_t.scale, x_t.zero_point, "int32", x_t.axis)
    scale, zero = fold_constant(x_t.scale), fold_constant(x_t.zero_point)
    if is_per_axis(x_t) and x_t.axis % tensor_type(x).ndim != expr.attrs["axis"] % tensor_type(x).ndim:
        raise UserError(f"the scales lie along axis {x_t.axis}, the bias does not")
    if bias in type_map:
        b_t = type_map[expr.args[1]]
        assert isinstance(b_t, TensorAffineType)
        if not same_numbers(x_t, b_t):
            bias = _requantized_bias(bias, b_t, x_t)
    elif isinstance(bias, Constant):
        bias = qnn.op.quantize(bias, scale, zero, axis=0, out_dtype=x_t.dtype)
    else:
        raise UserError("the bias must be quantized or a constant")
    if not _is_zero(zero):
        bias = relay.subtract(bias, zero)
    return [relay.nn.bias_add(x, bias, **expr.attrs), x_t]


def _is_zero(zero: RelayExpr) -> bool:
    return isinstance(zero, Constant) and not zero.data.numpy().any()


def _requantized_bias(bias: RelayExpr, b_t: TensorAffineType, x_t: TensorAffineType) -> RelayExpr:
    """*bias* in the units of *x_t*; several scales of the result go through floats, for requantize has one."""
    if not is_per_axis(x_t):
        return qnn.op.requantize(
            bias,
            b_t.scale,
            b_t.zero_point,
            fold_constant(x_t.scale),
            fold_constant(x_t.zero_point),
            axis=0,
            out_dtype=x_t.dtype,
        )
    floats = qnn.op.dequantize(bias, b_t.scale, b_t.zero_point, axis=0)
    return qnn.op.quantize(floats, x_t.scale, x_t.zero_point, axis=0, out_dtype=x_t.dtype)
