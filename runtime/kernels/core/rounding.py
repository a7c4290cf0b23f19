"""Floats as integers: to the nearest, ties to even, and no further than the integers go (ONNX's ``saturate_cast``)."""

from __future__ import annotations

import numpy as np


def integer_limits(dtype: str, work: str) -> tuple[float, float]:
    """The least and the greatest number of type *work* that is one of the integer type *dtype*.

    >>> integer_limits("uint8", "float32"), integer_limits("int64", "float64")
    ((0.0, 255.0), (-9.223372036854776e+18, 9.223372036854775e+18))
    """
    limits, kind = np.iinfo(dtype), np.dtype(work).type
    low, high = kind(limits.min), kind(limits.max)
    if int(high) > limits.max:
        high = np.nextafter(high, kind(0))
    return float(low), float(high)


def saturated(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """*value* as *dtype*: floats as integers to the nearest, ties to even, within their limits."""
    if dtype.kind not in "iu" or value.dtype.kind in "iub":
        return value.astype(dtype, copy=False)
    result: np.ndarray = np.clip(np.rint(value), *integer_limits(dtype.name, value.dtype.name)).astype(dtype)
    return result
