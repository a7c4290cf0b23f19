"""Numpy kernels of activations, and of what surrounds them: bias, dropout, flattening."""

from __future__ import annotations

import numpy as np

from byoc.runtime.kernels.core.layout import along, wide
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.reduce import extremum


@kernel("nn.relu")
def relu(data: np.ndarray) -> np.ndarray:
    """max(x, 0); a NaN stays."""
    result: np.ndarray = np.maximum(data, data.dtype.type(0))
    return result


@kernel("nn.leaky_relu")
def leaky_relu(data: np.ndarray, *, alpha: float = 0.25) -> np.ndarray:
    """x where it is positive, else alpha x."""
    return np.where(data > 0, data, data * data.dtype.type(alpha))


@kernel("nn.prelu")
def prelu(data: np.ndarray, alpha: np.ndarray, *, axis: int = 1) -> np.ndarray:
    """x where it is positive, else x times the slope of its channel."""
    return np.where(data > 0, data, data * along(alpha, axis, data.ndim))


@kernel("nn.softmax")
def softmax(data: np.ndarray, *, axis: int = -1) -> np.ndarray:
    """exp(x) over its sum along *axis*, after the greatest is taken off."""
    x = wide(data)
    e = np.exp(x - extremum(x, axis, keepdims=True))
    result: np.ndarray = (e / e.sum(axis, keepdims=True)).astype(data.dtype, copy=False)
    return result


@kernel("nn.log_softmax")
def log_softmax(data: np.ndarray, *, axis: int = -1) -> np.ndarray:
    """x less the logarithm of the sum of exp(x) along *axis*."""
    x = wide(data)
    shifted = x - extremum(x, axis, keepdims=True)
    result: np.ndarray = (shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))).astype(data.dtype, copy=False)
    return result


@kernel("nn.bias_add")
def bias_add(data: np.ndarray, bias: np.ndarray, *, axis: int = 1) -> np.ndarray:
    """Add ``bias[C]`` along *axis*."""
    result: np.ndarray = data + along(bias, axis, data.ndim)
    return result


@kernel("nn.dropout")
def dropout(data: np.ndarray, *, rate: float = 0.5) -> tuple[np.ndarray, ...]:
    """At inference nothing is dropped: the data, and a mask of ones."""
    return data.copy(), np.ones_like(data)
