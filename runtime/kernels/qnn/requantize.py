"""Requantization: a quantized tensor under another scale and zero point.

In int64 it multiplies with a fixed-point number, in float32 or float64 with a float. Source: ``qnn.requantize`` and its
lowering, ``RequantizeLower``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.qnn.fixed_point import multiply_fixed_point
from byoc.runtime.kernels.qnn.parameters import limits, narrow, scalar, spread
from byoc.runtime.kernels.qnn.rounding import TOEVEN, UNSAID, UPWARD, resolve


def _multipliers(data: np.ndarray, input_scale: np.ndarray, output_scale: np.ndarray, axis: int) -> np.ndarray | None:
    """The quotients of the scales as float64; None where both are one number and the same."""
    scale = spread(input_scale, axis, data.ndim)
    if input_scale.size == 1 and scalar(input_scale) == scalar(output_scale):
        return None
    return scale.astype(np.float64) / np.float64(scalar(output_scale))


def rounded(x: np.ndarray, rounding: str) -> np.ndarray:
    """Floats to whole numbers: halves up, away from zero, or to even."""
    if rounding == TOEVEN:
        return np.asarray(np.rint(x))
    return np.asarray(np.floor(x + x.dtype.type(0.5))) if rounding == UPWARD else round_away(x)


def round_away(x: np.ndarray) -> np.ndarray:
    """The nearest whole number, halves away from zero; each step is exact."""
    whole = np.trunc(x)
    result: np.ndarray = whole + np.trunc((x - whole) * x.dtype.type(2))
    return result


def _in_floats(
    data: np.ndarray,
    zero_in: np.ndarray,
    multipliers: np.ndarray | None,
    zero_out: np.ndarray,
    rounding: str,
    work: np.dtype,
    out: np.dtype,
) -> np.ndarray:
    x = data.astype(work) - zero_in.astype(work)
    if multipliers is not None:
        x = multipliers.astype(work) * x
    x = rounded(x, rounding) + zero_out.astype(work)
    low, high = limits(out, work)
    result: np.ndarray = np.minimum(np.maximum(x, low), high).astype(out)
    return result


@dataclass(frozen=True, kw_only=True)
class RequantizeAttributes(KernelAttributes):
    """Attributes of the requantization."""

    axis: int = -1
    rounding: str = UNSAID
    compute_dtype: str = UNSAID
    out_dtype: str = "int8"


def requantized(
    data: np.ndarray,
    input_scale: np.ndarray,
    input_zero_point: np.ndarray,
    output_scale: np.ndarray,
    output_zero_point: np.ndarray,
    out: np.dtype,
    how: RequantizeAttributes,
) -> np.ndarray:
    """``round(input_scale / output_scale * (data - input_zero_point)) + output_zero_point`` in the range of *out*."""
    rounding, compute_dtype = resolve(how.rounding, how.compute_dtype)
    zero_in, zero_out = spread(input_zero_point, how.axis, data.ndim), output_zero_point.reshape(())
    multipliers = _multipliers(data, input_scale, output_scale, how.axis)
    if compute_dtype != "int64":
        return _in_floats(data, zero_in, multipliers, zero_out, rounding, np.dtype(compute_dtype), out)
    with np.errstate(over="ignore"):
        x = data.astype(np.int32) - zero_in.astype(np.int32)
        if multipliers is not None:
            x = multiply_fixed_point(x, multipliers, rounding)
        return narrow(np.asarray(x + zero_out.astype(np.int32)), out)


@kernel("qnn.requantize")
def requantize(
    data: np.ndarray,
    input_scale: np.ndarray,
    input_zero_point: np.ndarray,
    output_scale: np.ndarray,
    output_zero_point: np.ndarray,
    *,
    attrs: RequantizeAttributes,
) -> np.ndarray:
    """data: i[...], input scale: f32 and zero point: i32 along *axis*, output's scalars -> out_dtype[...]."""
    out = numpy_dtype(attrs.out_dtype)
    return np.asarray(requantized(data, input_scale, input_zero_point, output_scale, output_zero_point, out, attrs))
