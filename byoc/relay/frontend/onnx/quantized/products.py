"""Products of integers with scales. Source: ONNX ConvInteger-10, QLinearConv-10, QLinearMatMul-10/21; ONNX Runtime's
QGemm-1, QLinearConv-1, MatMulIntegerToFloat-1, DynamicQuantizeMatMul-1, MatMulInteger16-1.

Sums are of int32 after the zero points are taken off, and get one scale: ONNX Runtime's order of roundings. With
constant scales and zero points they are ``qnn.conv2d`` and ``qnn.dense`` with their ``qnn.requantize`` or
``qnn.dequantize``, so that backends find them; others, and products of two batches, are arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.types import Any
from byoc.relay import qnn
from byoc.relay.expr import Constant, constant
from byoc.relay.frontend.onnx.converters.convolution import (
    channels_first,
    convolution,
    in_place,
    read_window,
)
from byoc.relay.frontend.onnx.converters.linear import matrix_product
from byoc.relay.frontend.onnx.dims import reshaped
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.quantized.scales import constants, dynamically_quantised, quantised
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter
from byoc.relay.narrowing import as_call
from byoc.runtime.core.small_types import SMALL_FLOATS
from byoc.runtime.kernels.qnn.rounding import TOEVEN

BYTES = ("int8", "uint8")


@dataclass(frozen=True)
class _Factor:
    """A factor ``[..., M, K]`` or ``[..., K, N]``, and which inputs of the node have its scale and its zero point."""

    value: RelayExpr
    scale: int
    zero: int


@dataclass(frozen=True)
class _Sums:
    """int32 sums in units of *scale*, whose numbers lie along the last axis where they are several.

    *dims* is what the leading axis stands for where several were made one, None where none was.
    """

    total: RelayExpr
    scale: RelayExpr
    dims: tuple[int, ...] | None = None

    def shaped(self, node: OnnxNode, value: RelayExpr) -> RelayExpr:
        """*value*, made of the sums, with the axes of the product."""
        if self.dims is None:
            return value
        return reshaped(node, value, [*self.dims, node.shape(value)[-1]])


def _sums(node: OnnxNode, left: _Factor, right: _Factor, bias: RelayExpr | None = None, alpha: float = 1.0) -> _Sums:
    """``left right + bias``, the *bias* being int32; *alpha* goes into the scale."""
    of_left, of_right = constants(node, left.scale, left.zero), constants(node, right.scale, right.zero)
    shape, weights = node.shape(left.value), node.shape(right.value)
    dims = tuple(d for d in shape[:-1] if not isinstance(d, Any))
    flat = len(shape) == 2 or len(dims) == len(shape) - 1 > 1
    if of_left is None or of_right is None or _several(*of_left) or len(weights) != 2 or not flat:
        return _computed_sums(node, left, right, bias, alpha)
    (scale, zero), (w_scale, w_zero) = of_left, of_right
    data = left.value if len(shape) == 2 else relay.reshape(left.value, [-1, shape[-1]])
    weight = node.fold(relay.transpose(right.value, axes=[1, 0]))
    total = _with_bias(node, qnn.op.dense(data, weight, zero, w_zero, scale, w_scale, None), bias)
    factor = np.float32(alpha) * scale.data.numpy() * w_scale.data.numpy()
    return _Sums(total, constant(np.asarray(factor)), None if len(shape) == 2 else dims)


def _computed_sums(node: OnnxNode, left: _Factor, right: _Factor, bias: RelayExpr | None, alpha: float) -> _Sums:
    sides = _offset(node, left, column=True), _offset(node, right, column=False)
    scales = _as_column(node, node[left.scale]), node[right.scale]
    scale = relay.multiply(*(relay.cast(s, "float32") for s in scales))
    if alpha != 1:
        scale = relay.multiply(scale, node.constant(alpha, "float32"))
    return _Sums(_with_bias(node, matrix_product(node, *sides), bias), scale)


def _with_bias(node: OnnxNode, total: RelayExpr, bias: RelayExpr | None) -> RelayExpr:
    """*total* plus a bias for each of its columns, or of another shape that broadcasts."""
    if bias is None:
        return total
    along = node.shape(bias) == node.shape(total)[-1:] and node.rank(total) > 1
    return relay.nn.bias_add(total, bias, axis=-1) if along else relay.add(total, bias)


def _requantised(node: OnnxNode, sums: _Sums, scale: int, zero: int, dtype: str) -> RelayExpr:
    """*sums* as *dtype* in units of input *scale*."""
    out = constants(node, scale, zero)
    if isinstance(sums.scale, Constant) and out is not None and not _several(*out) and dtype in BYTES:
        return sums.shaped(node, _requantize(sums.total, sums.scale, out, -1, dtype))
    factor = relay.divide(sums.scale, relay.cast(node[scale], "float32"))
    made = quantised(node, relay.multiply(relay.cast(sums.total, "float32"), factor), node.optional(zero), dtype)
    return sums.shaped(node, made)


def _requantize(total: RelayExpr, scale: Constant, out: tuple[Constant, Constant], axis: int, dtype: str) -> RelayExpr:
    axis = axis if scale.data.numpy().ndim else -1
    return qnn.op.requantize(total, scale, constant(np.int32(0)), *out, axis=axis, rounding=TOEVEN, out_dtype=dtype)


def _in_floats(node: OnnxNode, sums: _Sums) -> RelayExpr:
    """*sums* in float32."""
    if isinstance(sums.scale, Constant):
        return sums.shaped(node, qnn.op.dequantize(sums.total, sums.scale, constant(np.int32(0)), axis=-1))
    return sums.shaped(node, relay.multiply(relay.cast(sums.total, "float32"), sums.scale))


def product_in_floats(node: OnnxNode, left: tuple[int, int, int], right: tuple[int, int, int]) -> RelayExpr:
    """The product of two quantised inputs in float32; each is the places of its value, its scale and its zero point."""
    factors = [_Factor(node[value], scale, zero) for value, scale, zero in (left, right)]
    return _in_floats(node, _sums(node, factors[0], factors[1]))


def _several(*parameters: Constant) -> bool:
    return any(p.data.numpy().ndim for p in parameters)


@converter("QLinearMatMul")
def _qlinear_matmul(node: OnnxNode) -> RelayExpr:
    """Inputs: a, its scale and zero point, b, its scale and zero point, the output's scale and zero point."""
    sums = _sums(node, _Factor(node[0], 1, 2), _Factor(node[3], 4, 5))
    return _requantised(node, sums, 6, 7, node.dtype(node[7]))


@converter("QGemm", domain=MICROSOFT)
def _qgemm(node: OnnxNode) -> RelayExpr:
    """``alpha * (A' B' + C)``, C in units of both scales; float32 where the output has no zero point."""
    left, right = (_matrix(node, index, name) for index, name in ((0, "transA"), (3, "transB")))
    sums = _sums(node, _Factor(left, 1, 2), _Factor(right, 4, 5), node.optional(6), node.attrs.float("alpha", 1.0))
    if node.optional(8) is None:
        return _in_floats(node, sums)
    return _requantised(node, sums, 7, 8, node.dtype(node[8]))


def _matrix(node: OnnxNode, index: int, flag: str) -> RelayExpr:
    value = node[index]
    if node.rank(value) != 2:
        raise node.error(f"input {index} must be a matrix, got {node.type_of(value)}")
    return node.fold(relay.transpose(value, axes=[1, 0])) if node.attrs.flag(flag) else value


@converter("MatMulIntegerToFloat", domain=MICROSOFT)
def _matmul_integer_to_float(node: OnnxNode) -> RelayExpr:
    """Inputs: a, b, both scales, both zero points, a bias in float32."""
    made = product_in_floats(node, (0, 2, 4), (1, 3, 5))
    return made if node.optional(6) is None else relay.add(made, node[6])


@converter("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_quantize_matmul(node: OnnxNode) -> RelayExpr:
    """Inputs: a in floats, quantised by its range, b, its scale and zero point, a bias in float32."""
    data, scale, zero = dynamically_quantised(node, node[0])
    left = relay.subtract(relay.cast(data, "int32"), relay.cast(zero, "int32"))
    total = matrix_product(node, left, _offset(node, _Factor(node[1], 2, 3), column=False))
    made = relay.multiply(relay.cast(total, "float32"), relay.multiply(scale, node[2]))
    return made if node.optional(4) is None else relay.add(made, node[4])


@converter("MatMulInteger16", domain=MICROSOFT)
def _matmul_integer16(node: OnnxNode) -> RelayExpr:
    """The product of int16 in int32."""
    return matrix_product(node, relay.cast(node[0], "int32"), relay.cast(node[1], "int32"))


@converter("ConvInteger")
def _conv_integer(node: OnnxNode) -> RelayExpr:
    return _integer_convolution(node, node[0], node[1], node.optional(2), node.optional(3))


@converter("QLinearConv")
def _qlinear_conv(node: OnnxNode) -> RelayExpr:
    """Inputs: x, its scale and zero point, w, its scale and zero point, the output's scale and zero point, bias."""
    known = _quantized_conv(node)
    if known is not None:
        return known
    total = _integer_convolution(node, node[0], node[3], node[2], node[5])
    if node.optional(8) is not None:
        total = relay.nn.bias_add(total, node[8], axis=1)
    weight_scale = _per_channel(node, node[4], node.rank(node[0]) - 2)
    scale = relay.divide(relay.multiply(node[1], weight_scale), node[6])
    return quantised(node, relay.multiply(relay.cast(total, "float32"), scale), node[7], node.dtype(node[7]))


@converter("QLinearConv", domain=MICROSOFT)
def _qlinear_conv_of_any_layout(node: OnnxNode) -> RelayExpr:
    return channels_first(node, _qlinear_conv, node.attrs.flag("channels_last"))


def _quantized_conv(node: OnnxNode) -> RelayExpr | None:
    """A two-dimensional QLinearConv with constant parameters as quantized operators."""
    found = [constants(node, k, k + 1) for k in (1, 4, 6)]
    bias = node.optional(8)
    out_dtype = node.dtype(node[7])
    whole = node.rank(node[0]) == 4 and node.type_of(node[3]).is_static
    if not whole or any(f is None for f in found) or out_dtype not in BYTES:
        return None
    (scale, zero), (w_scale, w_zero), out = (f for f in found if f is not None)
    if _several(scale, zero, *out):
        return None
    geometry = convolution(node, relay.cast(node[0], "int32"), relay.cast(node[3], "int32"))
    window = read_window(node, node.static_dims(node[3], "the weight")[2:])
    total: RelayExpr = qnn.op.conv2d(
        in_place(node, node[0], window, int(zero.data.numpy().reshape(()))),
        node[3],
        zero,
        w_zero,
        scale,
        w_scale,
        **{k: v for k, v in as_call(geometry).attrs.items() if k != "out_dtype"},
    )
    if bias is not None:
        total = relay.nn.bias_add(total, bias, axis=1)
    return _requantize(total, constant(np.asarray(scale.data.numpy() * w_scale.data.numpy())), out, 1, out_dtype)


def _per_channel(node: OnnxNode, value: RelayExpr, trailing: int) -> RelayExpr:
    """A value for each output channel, with *trailing* dimensions behind it; one value for all stays as it is."""
    return relay.expand_dims(value, 1, trailing) if node.rank(value) == 1 and node.shape(value) != (1,) else value


def _integer_convolution(
    node: OnnxNode, data: RelayExpr, weight: RelayExpr, zero: RelayExpr | None, weight_zero: RelayExpr | None
) -> RelayExpr:
    """The convolution in int32 of what lies above the zero points; the padding is the zero point."""
    left, right = relay.cast(data, "int32"), relay.cast(weight, "int32")
    if zero is not None:
        left = relay.subtract(left, relay.cast(zero, "int32"))
    if weight_zero is not None:
        point = _per_channel(node, weight_zero, node.rank(weight) - 1)
        right = relay.subtract(right, relay.cast(point, "int32"))
    return convolution(node, left, right)


def _as_column(node: OnnxNode, value: RelayExpr) -> RelayExpr:
    return relay.expand_dims(value, 1) if node.rank(value) == 1 and node.shape(value) != (1,) else value


def _offset(node: OnnxNode, factor: _Factor, column: bool) -> RelayExpr:
    """*factor* in int32 less its zero point, which is one number, one for each row, or one for each column.

    Raises ImportModelError for floats.
    """
    if node.dtype(factor.value) in SMALL_FLOATS:
        raise node.error(
            f"a product of {node.dtype(factor.value)} is not supported: use DequantizeLinear, MatMul and QuantizeLinear"
        )
    value, zero = relay.cast(factor.value, "int32"), node.optional(factor.zero)
    if zero is None:
        return value
    return relay.subtract(value, relay.cast(_as_column(node, zero) if column else zero, "int32"))
