"""Numpy kernels between floats and quantized integers: quantize, dequantize and their simulations."""

from __future__ import annotations

import numpy as np

from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.qnn.parameters import limits, spread
from byoc.runtime.kernels.qnn.rounding import TOEVEN, UNSAID

# the codes of the dtypes that a simulated quantization takes as a tensor; 0 passes the data through
SIMULATED_DTYPES: dict[int, np.dtype[np.integer]] = {1: np.dtype("int8"), 2: np.dtype("uint8"), 3: np.dtype("int32")}


def quantized(
    data: np.ndarray,
    scale: np.ndarray,
    zero_point: np.ndarray,
    axis: int,
    dtype: np.dtype,
    rounding: str = UNSAID,
) -> np.ndarray:
    """``round(data / scale + zero_point)`` moved into the range of *dtype*, computed in float32.

    With ``TOEVEN`` as in ONNX, ``round(data / scale) + zero_point``, of which ties differ where the zero point is odd.
    """
    x = data.astype(np.float32, copy=False)
    with np.errstate(all="ignore"):
        x = x / spread(scale, axis, data.ndim)
        x = (np.rint(x) if rounding == TOEVEN else x) + spread(zero_point, axis, data.ndim).astype(np.float32)
        low, high = limits(dtype, x.dtype)
        result: np.ndarray = np.rint(np.minimum(np.maximum(x, low), high)).astype(dtype)
        return result


def dequantized(
    data: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, axis: int, dtype: np.dtype | type = np.float32
) -> np.ndarray:
    """``scale * (data - zero_point)``: an int32 difference times a float32 scale, as the float *dtype*."""
    shifted = data.astype(np.int32) - spread(zero_point, axis, data.ndim).astype(np.int32)
    result: np.ndarray = (shifted.astype(np.float32) * spread(scale, axis, data.ndim)).astype(dtype, copy=False)
    return result


@kernel("qnn.quantize")
def quantize(
    data: np.ndarray,
    output_scale: np.ndarray,
    output_zero_point: np.ndarray,
    *,
    out_dtype: str = "int8",
    axis: int = -1,
    rounding: str = UNSAID,
) -> np.ndarray:
    """data: f[...], scale: f32, zero point: i32 -> out_dtype[...]."""
    return np.asarray(quantized(data, output_scale, output_zero_point, axis, numpy_dtype(out_dtype), rounding))


@kernel("qnn.dequantize")
def dequantize(
    data: np.ndarray,
    input_scale: np.ndarray,
    input_zero_point: np.ndarray,
    *,
    out_dtype: str = "float32",
    axis: int = -1,
) -> np.ndarray:
    """data: i[...], scale: f32, zero point: i32 -> out_dtype[...]."""
    return np.asarray(dequantized(data, input_scale, input_zero_point, axis, numpy_dtype(out_dtype)))


@kernel("qnn.simulated_quantize")
def simulated_quantize(
    data: np.ndarray, datatype: np.ndarray, output_scale: np.ndarray, output_zero_point: np.ndarray, *, axis: int = -1
) -> np.ndarray:
    """What quantize gives, as floats: ``round(data / scale) + zero_point`` in the range of the dtype of a code."""
    dtype = SIMULATED_DTYPES.get(int(datatype.reshape(-1)[0]))
    if dtype is None:
        return data.copy()
    info = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        rounded = np.rint(data / spread(output_scale, axis, data.ndim))
        shifted = rounded + spread(output_zero_point, axis, data.ndim).astype(data.dtype)
        return np.asarray(np.clip(shifted, info.min, info.max)).astype(data.dtype, copy=False)


@kernel("qnn.simulated_dequantize")
def simulated_dequantize(
    data: np.ndarray, datatype: np.ndarray, input_scale: np.ndarray, input_zero_point: np.ndarray, *, axis: int = -1
) -> np.ndarray:
    """``scale * (data - zero_point)`` in floats; the data itself for the code that passes through."""
    if int(datatype.reshape(-1)[0]) not in SIMULATED_DTYPES:
        return data.copy()
    shifted = data - spread(input_zero_point, axis, data.ndim).astype(data.dtype)
    return np.asarray(shifted * spread(input_scale, axis, data.ndim)).astype(data.dtype, copy=False)
