"""Linear quantisation. Source: ONNX QuantizeLinear-10 to 21, DequantizeLinear-10 to 21, QLinearConv-10.

With constant scales and zero points nodes are the operators of ``relay.qnn``, rounded as ONNX says (``TOEVEN``), so
that backends find them; computed ones and scales of blocks are arithmetic on floats, which is also what the host makes
of the former (``relay/qnn/onnx_arithmetic.py``).
"""

from __future__ import annotations

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay import qnn
from byoc.relay.expr import Constant, constant
from byoc.relay.frontend.onnx.converters.convolution import convolution
from byoc.relay.frontend.onnx.converters.linear import matrix_product
from byoc.relay.frontend.onnx.dtypes import dtype_of
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.narrowing import as_call
from byoc.runtime.kernels.qnn.rounding import TOEVEN


def _along_axis(node: OnnxNode, value: RelayExpr) -> RelayExpr:
    """A scale or zero point in a shape that broadcasts against the data: one, one for each channel, or one a block."""
    rank = node.rank(node[0])
    shape = node.shape(value)
    if rank == 0 or not shape or shape == (1,):
        return relay.reshape(value, []) if shape else value
    axis = node.axis(node.attrs.int("axis", 1), rank)
    block = node.attrs.int("block_size", 0)
    if len(shape) == 1 and not block:
        return relay.expand_dims(value, 1, rank - 1 - axis) if axis < rank - 1 else value
    if not block or len(shape) != rank:
        raise node.error(f"a scale of shape {list(shape)} does not fit the data {node.type_of(node[0])}")
    repeated = relay.repeat(value, block, axis)
    size = node.static_dims(node[0], "quantisation in blocks")[axis]
    return relay.strided_slice(repeated, begin=[0], end=[size], strides=[1], axes=[axis])


def _quantised(node: OnnxNode, data: RelayExpr, zero: RelayExpr | None, dtype: str) -> RelayExpr:
    """Rounded to even, moved by the zero point and saturated."""
    if dtype not in ("int8", "uint8", "int16", "uint16"):
        raise node.error(f"quantising to {dtype} is not supported; use int8, uint8, int16 or uint16")
    rounded = relay.round(data)
    if zero is not None:
        rounded = relay.add(rounded, relay.cast(zero, node.dtype(data)))
    limits = np.iinfo(dtype)
    return relay.cast(relay.clip(rounded, float(limits.min), float(limits.max)), dtype)


def _constants(node: OnnxNode, scale: int, zero: int) -> tuple[Constant, Constant] | None:
    """The scale (f32) and the zero point (i32) that inputs *scale* and *zero* hold, each one number or one an index.

    None where one is computed, or no float32, or neither fits the other.
    """
    factors, points = node.value(scale), node.value(zero)
    if factors is None or factors.dtype != np.float32 or factors.ndim > 1 or (factors.ndim and not factors.size):
        return None
    if points is None:
        if node.optional(zero) is not None:
            return None
        points = np.zeros((), "int32")
    if points.size not in (1, factors.size) or points.ndim > 1 or points.dtype.kind not in "iu":
        return None
    return _numbers(factors, "float32"), _numbers(points, "int32")


def _numbers(values: np.ndarray, dtype: str) -> Constant:
    """One number as a scalar, several as they are."""
    return constant(np.asarray(values.reshape(()) if values.size == 1 else values).astype(dtype))


def _channel_axis(node: OnnxNode, scale: Constant) -> int | None:
    """The axis of input 0 along which *scale* lies, -1 for one number; None where its length is another."""
    if not scale.data.numpy().ndim:
        return -1
    shape = node.shape(node[0])
    axis = node.axis(node.attrs.int("axis", 1), len(shape)) if shape else 0
    return axis if shape and shape[axis] == scale.data.numpy().size else None


@converter("QuantizeLinear")
def _quantize(node: OnnxNode) -> RelayExpr:
    zero = node.optional(2)
    if zero is not None:
        dtype = node.dtype(zero)
    else:
        number = node.attrs.int("output_dtype", 0)
        dtype = dtype_of(number, f"the output of node {node.name}") if number else "uint8"
    data = node[0] if node.dtype(node[0]) == "float32" else relay.cast(node[0], "float32")
    known = _constants(node, 1, 2)
    axis = None if known is None else _channel_axis(node, known[0])
    if known is not None and axis is not None and dtype in ("int8", "uint8", "int16", "uint16"):
        return qnn.op.quantize(data, *known, axis=axis, out_dtype=dtype, rounding=TOEVEN)
    scale = relay.cast(_along_axis(node, node[1]), "float32")
    return _quantised(node, relay.divide(data, scale), _along_axis(node, zero) if zero is not None else None, dtype)


@converter("DequantizeLinear")
def _dequantize(node: OnnxNode) -> RelayExpr:
    """Exact in int32 before the product with the scale."""
    known = _constants(node, 1, 2)
    axis = None if known is None else _channel_axis(node, known[0])
    if known is not None and axis is not None and node.dtype(node[0]) in ("int8", "uint8", "int16", "uint16", "int32"):
        return qnn.op.dequantize(node[0], *known, axis=axis)
    value = relay.cast(node[0], "int32")
    if node.optional(2) is not None:
        value = relay.subtract(value, relay.cast(_along_axis(node, node[2]), "int32"))
    scale = _along_axis(node, node[1])
    return relay.multiply(relay.cast(value, node.dtype(scale)), scale)


@converter("DynamicQuantizeLinear")
def _dynamic_quantize(node: OnnxNode) -> list[RelayExpr]:
    """Scale and zero point from the range of the data, which always holds 0; the scale of zeros alone is 1.

    ONNX's formula has 0 for that scale, and 0 / 0 for what is quantised by it; 1 is ONNX Runtime's.
    """
    data, zero = node[0], node.like(0, node[0])
    axes = list(range(node.rank(data)))
    low = relay.minimum(relay.min(data, axis=axes), zero)
    high = relay.maximum(relay.max(data, axis=axes), zero)
    span = relay.divide(relay.subtract(high, low), node.like(255, data))
    scale = relay.where(relay.equal(high, low), node.like(1, data), span)
    point = relay.cast(relay.round(relay.clip(relay.divide(relay.negative(low), scale), 0.0, 255.0)), "uint8")
    return [_quantised(node, relay.divide(data, scale), point, "uint8"), scale, point]


@converter("QLinearMatMul")
def _qlinear_matmul(node: OnnxNode) -> RelayExpr:
    """The product in int32 after the zero points are taken off, times one scale: ONNX Runtime's order of roundings."""
    known = _quantized_dense(node)
    if known is not None:
        return known
    left = _offset(node, node[0], node[2], column=True)
    right = _offset(node, node[3], node[5], column=False)
    product = relay.cast(matrix_product(node, left, right), "float32")
    scales = relay.multiply(relay.cast(_as_column(node, node[1]), "float32"), relay.cast(node[4], "float32"))
    scale = relay.divide(scales, relay.cast(node[6], "float32"))
    return _quantised(node, relay.multiply(product, scale), node[7], node.dtype(node[7]))


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
    return _quantised(node, relay.multiply(relay.cast(total, "float32"), scale), node[7], node.dtype(node[7]))


def _quantized_dense(node: OnnxNode) -> RelayExpr | None:
    """A QLinearMatMul of matrices with constant parameters as quantized operators."""
    found = [_constants(node, k, k + 1) for k in (1, 4, 6)]
    out_dtype = node.dtype(node[7])
    ranks = node.rank(node[0]), node.rank(node[3])
    if ranks != (2, 2) or any(f is None for f in found) or out_dtype not in ("int8", "uint8"):
        return None
    (scale, zero), (w_scale, w_zero), (out_scale, out_zero) = (f for f in found if f is not None)
    if any(p.data.numpy().ndim for p in (scale, zero, out_scale, out_zero)):
        return None
    weight = node.fold(relay.transpose(node[3], axes=[1, 0]))
    total = qnn.op.dense(node[0], weight, zero, w_zero, scale, w_scale, None)
    return _requantized(total, scale, w_scale, out_scale, out_zero, 1, out_dtype)


def _requantized(
    total: RelayExpr, scale: Constant, w_scale: Constant, out_scale: Constant, out_zero: Constant, axis: int, dtype: str
) -> RelayExpr:
    """int32 sums in units of both scales as *dtype*."""
    product = constant(np.asarray(scale.data.numpy() * w_scale.data.numpy()))
    zero = constant(np.int32(0))
    return qnn.op.requantize(total, product, zero, out_scale, out_zero, axis=axis, rounding=TOEVEN, out_dtype=dtype)


def _quantized_conv(node: OnnxNode) -> RelayExpr | None:
    """A two-dimensional QLinearConv with constant parameters as quantized operators."""
    found = [_constants(node, k, k + 1) for k in (1, 4, 6)]
    bias = node.optional(8)
    out_dtype = node.dtype(node[7])
    if node.rank(node[0]) != 4 or any(f is None for f in found) or out_dtype not in ("int8", "uint8"):
        return None
    (scale, zero), (w_scale, w_zero), (out_scale, out_zero) = (f for f in found if f is not None)
    if any(p.data.numpy().ndim for p in (scale, zero, out_scale, out_zero)):
        return None
    geometry = convolution(node, relay.cast(node[0], "int32"), relay.cast(node[3], "int32"))
    total: RelayExpr = qnn.op.conv2d(
        node[0],
        node[3],
        zero,
        w_zero,
        scale,
        w_scale,
        **{k: v for k, v in as_call(geometry).attrs.items() if k != "out_dtype"},
    )
    if bias is not None:
        total = relay.nn.bias_add(total, bias, axis=1)
    return _requantized(total, scale, w_scale, out_scale, out_zero, 1, out_dtype)


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


def _offset(node: OnnxNode, data: RelayExpr, zero: RelayExpr, column: bool) -> RelayExpr:
    point = relay.cast(_as_column(node, zero) if column else zero, "int32")
    return relay.subtract(relay.cast(data, "int32"), point)
