"""Quantization parameters as numpy broadcasts them, and the ranges of quantized dtypes."""

from __future__ import annotations

import numpy as np

from byoc.runtime.kernels.core.layout import along


def spread(parameter: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    """A scale or zero point shaped to broadcast with data of *ndim* axes: a vector lies along *axis*.

    What has *ndim* axes itself is shaped so already.
    """
    if parameter.size == 1:
        return parameter.reshape(())
    return parameter if parameter.ndim == ndim else along(parameter.reshape(-1), axis, ndim)


def scalar(parameter: np.ndarray) -> np.generic:
    """The one number that *parameter* holds."""
    number: np.generic = parameter.reshape(()).flat[0]
    return number


def limits(dtype: np.dtype, work: np.dtype) -> tuple[np.generic, np.generic]:
    """The least and the greatest number of an integer *dtype* that the float dtype *work* holds too."""
    info = np.iinfo(dtype)
    low, high = work.type(info.min), work.type(info.max)
    return (low, high) if int(high) <= info.max else (low, np.nextafter(high, work.type(0)))


def narrow(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """int32 *values* moved into the range of an integer *dtype*, and cast to it."""
    if dtype == values.dtype or dtype.kind not in "iu":
        return values.astype(dtype, copy=False)
    info = np.iinfo(dtype)
    result: np.ndarray = np.clip(values, max(info.min, -(2**31)), min(info.max, 2**31 - 1)).astype(dtype)
    return result
