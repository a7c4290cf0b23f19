"""Linear quantisation. Source: ONNX QuantizeLinear-10 to 28, DequantizeLinear-10 to 28, DynamicQuantizeLinear-11.

Both are in ONNX Runtime's domain too, where they had 16 and 4 bits before opset 21. Products are in ``products``.

With constant scales and zero points nodes are the operators of ``relay.qnn``, rounded as ONNX says (``TOEVEN``), so
that backends find them; computed ones and scales of blocks are arithmetic on floats, which is also what the host makes
of the former (``relay/qnn/onnx_arithmetic.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay import qnn
from byoc.relay.expr import Constant, constant
from byoc.relay.frontend.onnx.converters.casts import saturated
from byoc.relay.frontend.onnx.dims import matched
from byoc.relay.frontend.onnx.dtypes import dtype_of
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter
from byoc.runtime.core.ndarray import dtype_name
from byoc.runtime.core.small_types import SMALL_FLOATS, SMALL_INTEGERS, integer_range
from byoc.runtime.kernels.qnn.rounding import MOVED_TOEVEN, TOEVEN

WIDE = ("int8", "uint8", "int16", "uint16")
QUANTISED = (*WIDE, *SMALL_INTEGERS)
QUANTISED_FLOATS = tuple(name for name in SMALL_FLOATS if name != "float8_e8m0fnu")  # which scales are of alone


def _along_axis(node: OnnxNode, data: RelayExpr, value: RelayExpr, by: Quantisation) -> RelayExpr:
    """A scale or zero point in a shape that broadcasts against *data*: one, one for each channel, or one a block."""
    rank = node.rank(data)
    shape = node.shape(value)
    if rank == 0 or not shape or shape == (1,):
        return relay.reshape(value, []) if shape else value
    axis, block = node.axis(by.axis, rank), by.block
    if len(shape) == 1 and not block:
        return relay.expand_dims(value, 1, rank - 1 - axis) if axis < rank - 1 else value
    if not block or len(shape) != rank:
        raise node.error(f"a scale of shape {list(shape)} does not fit the data {node.type_of(data)}")
    repeated = relay.repeat(value, block, axis)
    size, own = node.shape(data)[axis], node.shape(repeated)
    if isinstance(size, int):
        return relay.strided_slice(repeated, begin=[0], end=[size], strides=[1], axes=[axis])
    one = constant([1], "int64")
    end = relay.take(relay.shape_of(data, "int64"), constant([axis], "int64"), axis=0)
    cut = relay.strided_slice(repeated, constant([0], "int64"), end, one, axes=[axis])
    return matched(node, cut, [*own[:axis], size, *own[axis + 1 :]])


def quantised(node: OnnxNode, data: RelayExpr, zero: RelayExpr | None, dtype: str) -> RelayExpr:
    """*data* in units of the scale as an integer *dtype*: rounded to even, moved by the zero point, and saturated."""
    _check_quantised_type(node, dtype, QUANTISED)
    rounded = relay.round(data)
    if zero is not None:
        rounded = relay.add(rounded, relay.cast(zero, node.dtype(data)))
    low, high = integer_range(dtype)
    return relay.cast(relay.clip(rounded, float(low), float(high)), dtype)


def _quantised_floats(node: OnnxNode, data: RelayExpr, dtype: str) -> RelayExpr:
    """*data* in units of the scale as a float of 8 or 4 bits, with the node's ``saturate``."""
    return saturated(node, data, dtype) if node.attrs.int("saturate", 1) else relay.cast(data, dtype)


def _check_no_zero_point(node: OnnxNode, index: int) -> None:
    """Quantised floats have no zero point but 0, which says their type; ONNX Runtime does not read it either."""
    points = node.value(index)
    if points is not None and points.astype("float32").any():
        raise node.error(f"the zero point (input {index}) of {dtype_name(points.dtype)} is 0, got another number")


def _check_quantised_type(node: OnnxNode, dtype: str, taken: Sequence[str] = (*QUANTISED, *QUANTISED_FLOATS)) -> None:
    if dtype not in taken:
        raise node.error(f"quantising to {dtype} is not supported; use one of {', '.join(taken)}")


def constants(node: OnnxNode, scale: int, zero: int) -> tuple[Constant, Constant] | None:
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
    is_integer = points.dtype.kind in "iu" or dtype_name(points.dtype) in SMALL_INTEGERS
    if points.size not in (1, factors.size) or points.ndim > 1 or not is_integer:
        return None
    return _numbers(factors, "float32"), _numbers(points, "int32")


def _numbers(values: np.ndarray, dtype: str) -> Constant:
    """One number as a scalar, several as they are."""
    return constant(np.asarray(values.reshape(()) if values.size == 1 else values).astype(dtype))


def _channel_axis(node: OnnxNode, data: RelayExpr, scale: Constant, axis: int) -> int | None:
    """The axis of *data* along which *scale* lies, -1 for one number; None where its length is another."""
    if not scale.data.numpy().ndim:
        return -1
    shape = node.shape(data)
    axis = node.axis(axis, len(shape)) if shape else 0
    return axis if shape and shape[axis] == scale.data.numpy().size else None


@dataclass(frozen=True)
class Quantisation:
    """Which inputs of a node are a scale and a zero point, and how these lie: along an axis, by blocks of a size."""

    scale: int
    zero: int
    axis: int = 1
    block: int = 0


def quantize(node: OnnxNode, value: RelayExpr, by: Quantisation, dtype: str, how: str = TOEVEN) -> RelayExpr:
    """Floats as *dtype*; *how* it rounds: ``TOEVEN``, or ``MOVED_TOEVEN``, behind the zero point.

    The quotient is a float32, or what the node's ``precision`` says. Raises ImportModelError for another *dtype* than
    integers up to 16 bits and floats of 8 and 4 bits.
    """
    _check_quantised_type(node, dtype)
    number = node.attrs.int("precision", 0)
    work = dtype_of(number, f"the precision of node {node.name}") if number else "float32"
    data = value if node.dtype(value) == work else relay.cast(value, work)
    known = constants(node, by.scale, by.zero)
    along = None if known is None else _channel_axis(node, value, known[0], by.axis)
    if known is not None and along is not None and dtype in WIDE and work == "float32":
        return qnn.op.quantize(data, *known, axis=along, out_dtype=dtype, rounding=how)
    scaled = relay.divide(data, relay.cast(_along_axis(node, value, node[by.scale], by), work))
    scaled = scaled if work == "float64" else relay.cast(scaled, "float32")
    if dtype in QUANTISED_FLOATS:
        _check_no_zero_point(node, by.zero)
        return _quantised_floats(node, scaled, dtype)
    given = node.optional(by.zero)
    point = None if given is None else _along_axis(node, value, given, by)
    if how == MOVED_TOEVEN and point is not None:
        scaled, point = relay.add(scaled, relay.cast(point, "float32")), None
    return quantised(node, scaled, point, dtype)


def dequantize(node: OnnxNode, data: RelayExpr, by: Quantisation, dtype: str = "") -> RelayExpr:
    """What is quantised as floats, of *dtype* or of the scale's; integers are exact in int32 before the product.

    Integers below a byte are bytes first, so that backends find the operators on bytes; what is constant of them is
    folded.
    """
    if node.dtype(data) in SMALL_INTEGERS:
        data = node.fold(relay.cast(data, "uint8" if node.dtype(data).startswith("u") else "int8"))
    source, wanted = node.dtype(data), dtype or node.dtype(node[by.scale])
    if wanted in SMALL_FLOATS:
        raise node.error(f"the result would be {wanted}, as its scale is: say output_dtype")
    known = constants(node, by.scale, by.zero)
    along = None if known is None else _channel_axis(node, data, known[0], by.axis)
    if known is not None and along is not None and source in (*WIDE, "int32") and wanted == "float32":
        return qnn.op.dequantize(data, *known, axis=along)
    factor = relay.cast(_along_axis(node, data, node[by.scale], by), "float32")
    if source in QUANTISED_FLOATS:
        _check_no_zero_point(node, by.zero)
        made = relay.multiply(relay.cast(data, "float32"), factor)
    else:
        value = relay.cast(data, "int32")
        given = node.optional(by.zero)
        if given is not None:
            value = relay.subtract(value, relay.cast(_along_axis(node, data, given, by), "int32"))
        made = relay.multiply(relay.cast(value, "float32"), factor)
    return made if wanted == "float32" else relay.cast(made, wanted)


def _inputs_1_and_2(node: OnnxNode) -> Quantisation:
    return Quantisation(1, 2, node.attrs.int("axis", 1), node.attrs.int("block_size", 0))


@converter("QuantizeLinear")
@converter("QuantizeLinear", domain=MICROSOFT)
def _quantize_linear(node: OnnxNode) -> RelayExpr:
    zero = node.optional(2)
    if zero is not None:
        dtype = node.dtype(zero)
    else:
        number = node.attrs.int("output_dtype", 0)
        dtype = dtype_of(number, f"the output of node {node.name}") if number else "uint8"
    return quantize(node, node[0], _inputs_1_and_2(node), dtype)


@converter("DequantizeLinear")
@converter("DequantizeLinear", domain=MICROSOFT)
def _dequantize_linear(node: OnnxNode) -> RelayExpr:
    number = node.attrs.int("output_dtype", 0)
    dtype = dtype_of(number, f"the output of node {node.name}") if number else ""
    return dequantize(node, node[0], _inputs_1_and_2(node), dtype)


@converter("DynamicQuantizeLinear")
def _dynamic_quantize(node: OnnxNode) -> list[RelayExpr]:
    return list(dynamically_quantised(node, node[0]))


def dynamically_quantised(node: OnnxNode, data: RelayExpr) -> tuple[RelayExpr, RelayExpr, RelayExpr]:
    """*data* as uint8, scale and zero point from its range, which always holds 0; the scale of zeros alone is 1.

    ONNX's formula has 0 for that scale, and 0 / 0 for what is quantised by it; 1 is ONNX Runtime's.
    """
    zero = node.like(0, data)
    axes = list(range(node.rank(data)))
    low = relay.minimum(relay.min(data, axis=axes), zero)
    high = relay.maximum(relay.max(data, axis=axes), zero)
    span = relay.divide(relay.subtract(high, low), node.like(255, data))
    scale = relay.where(relay.equal(high, low), node.like(1, data), span)
    point = relay.cast(relay.round(relay.clip(relay.divide(relay.negative(low), scale), 0.0, 255.0)), "uint8")
    return quantised(node, relay.divide(data, scale), point, "uint8"), scale, point
