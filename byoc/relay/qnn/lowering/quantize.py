"""Lowering of ``qnn.quantize`` and ``qnn.dequantize`` to arithmetic in float32.

Source: ``QuantizeLower`` and ``DequantizeLower``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType, Type
from byoc.relay import op as relay
from byoc.relay.qnn.lowering.parameters import cast, is_zero, less_zero, spread
from byoc.relay.qnn.op.op import register_qnn_canonicalize
from byoc.relay.qnn.op.quantize import DequantizeAttrs, QuantizeAttrs
from byoc.runtime.kernels.qnn.parameters import limits
from byoc.runtime.kernels.qnn.rounding import TOEVEN

FLOAT = "float32"
Parameters = Sequence[RelayExpr]


def quantized(
    data: RelayExpr, ty: TensorType, parameters: Parameters, types: Sequence[Type], axis: int, out_dtype: str
) -> RelayExpr:
    """Floats as integers: ``round(clip(data / scale + zero_point))``; *parameters* are the scale and the zero point."""
    scale, zero_point = (spread(p, t, axis, ty.ndim, FLOAT) for p, t in zip(parameters, types, strict=True))
    shifted = relay.add(relay.divide(cast(data, ty.dtype, FLOAT), scale), zero_point)
    low, high = limits(np.dtype(out_dtype), np.dtype(FLOAT))
    return relay.cast(relay.round(relay.clip(shifted, float(low), float(high))), out_dtype)


def quantized_as_onnx(
    data: RelayExpr, ty: TensorType, parameters: Parameters, types: Sequence[Type], axis: int, out_dtype: str
) -> RelayExpr:
    """Floats as ONNX quantizes them: rounded to even, moved by the zero point, then saturated.

    A float32 has no limits of int32: there what it has next to them counts.
    """
    scale = spread(parameters[0], types[0], axis, ty.ndim, FLOAT)
    whole = relay.round(relay.divide(cast(data, ty.dtype, FLOAT), scale))
    return saturated(whole, parameters[1], types[1], axis, ty.ndim, out_dtype)


def saturated(
    whole: RelayExpr, zero_point: RelayExpr, zero_type: Type, axis: int, ndim: int, out_dtype: str
) -> RelayExpr:
    """Whole float32 numbers moved by the zero point and kept in the range of *out_dtype*."""
    moved = whole if is_zero(zero_point) else relay.add(whole, spread(zero_point, zero_type, axis, ndim, FLOAT))
    low, high = limits(np.dtype(out_dtype), np.dtype(FLOAT))
    return relay.cast(relay.clip(moved, float(low), float(high)), out_dtype)


def dequantized(
    data: RelayExpr, ty: TensorType, parameters: Parameters, types: Sequence[Type], axis: int, out_dtype: str = FLOAT
) -> RelayExpr:
    """Integers as floats: ``(data - zero_point) * scale``; *parameters* are the scale and the zero point."""
    wide = cast(data, ty.dtype, "int32")
    shifted = less_zero(wide, parameters[1], types[1], axis, ty.ndim, "int32")
    scaled = relay.multiply(relay.cast(shifted, FLOAT), spread(parameters[0], types[0], axis, ty.ndim, FLOAT))
    return cast(scaled, FLOAT, out_dtype)


@register_qnn_canonicalize("qnn.quantize")
def lower_quantize(attrs: QuantizeAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr:
    """``qnn.quantize`` as arithmetic."""
    data = types[0]
    assert isinstance(data, TensorType)
    if attrs.rounding == TOEVEN:
        return quantized_as_onnx(inputs[0], data, inputs[1:], types[1:3], attrs.axis, attrs.out_dtype)
    return quantized(inputs[0], data, inputs[1:], types[1:3], attrs.axis, attrs.out_dtype)


@register_qnn_canonicalize("qnn.dequantize")
def lower_dequantize(attrs: DequantizeAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr:
    """``qnn.dequantize`` as arithmetic."""
    data = types[0]
    assert isinstance(data, TensorType)
    return dequantized(inputs[0], data, inputs[1:], types[1:3], attrs.axis, attrs.out_dtype)
