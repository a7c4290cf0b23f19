"""Numpy kernels of normalisations. Means and variances are summed in float64, results keep the dtype of the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.layout import along
from byoc.runtime.kernels.core.registry import kernel


def _affine(value: np.ndarray, gamma: np.ndarray, beta: np.ndarray, axis: int, center: bool, scale: bool) -> np.ndarray:
    if scale:
        value = value * along(gamma, axis, value.ndim)
    return value + along(beta, axis, value.ndim) if center else value


def _standardised(data: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    mean = data.mean(axes, keepdims=True, dtype=np.float64)
    deviation = data - mean
    variance = np.square(deviation).mean(axes, keepdims=True)
    result: np.ndarray = deviation / np.sqrt(variance + epsilon)
    return result


@dataclass(frozen=True, kw_only=True)
class NormAttributes(KernelAttributes):
    """Attributes of the normalisations along an axis."""

    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@kernel("nn.batch_norm")
def batch_norm(
    data: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    moving_mean: np.ndarray,
    moving_var: np.ndarray,
    *,
    attrs: NormAttributes,
) -> tuple[np.ndarray, ...]:
    """Normalise by given moments; gives the result and the two moments."""
    factor = 1 / np.sqrt(moving_var.astype(np.float64) + attrs.epsilon)
    if attrs.scale:
        factor = factor * gamma
    offset = -moving_mean * factor + (beta if attrs.center else 0)
    work = np.promote_types(data.dtype, np.float32)
    value = data * along(factor.astype(work), attrs.axis, data.ndim) + along(offset.astype(work), attrs.axis, data.ndim)
    return value.astype(data.dtype, copy=False), moving_mean.copy(), moving_var.copy()


@kernel("nn.layer_norm")
def layer_norm(
    data: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> np.ndarray:
    """Normalise along *axis*."""
    value = _standardised(data, (axis % data.ndim,), epsilon)
    return _affine(value, gamma, beta, axis, center, scale).astype(data.dtype)


@kernel("nn.instance_norm")
def instance_norm(
    data: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    *,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> np.ndarray:
    """Normalise each channel (*axis*) of each batch item."""
    over = tuple(k for k in range(1, data.ndim) if k != axis % data.ndim)
    return _affine(_standardised(data, over, epsilon), gamma, beta, axis, center, scale).astype(data.dtype)


@dataclass(frozen=True, kw_only=True)
class GroupNormAttributes(NormAttributes):
    """Attributes of the normalisation by groups."""

    num_groups: int


@kernel("nn.group_norm")
def group_norm(
    data: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    *,
    attrs: GroupNormAttributes,
) -> np.ndarray:
    """Normalise each group of channels (*axis*) of each batch item."""
    k = attrs.axis % data.ndim
    split = data.reshape(*data.shape[:k], attrs.num_groups, data.shape[k] // attrs.num_groups, *data.shape[k + 1 :])
    over = tuple(j for j in range(1, split.ndim) if j != k)
    value = _standardised(split, over, attrs.epsilon).reshape(data.shape)
    return _affine(value, gamma, beta, attrs.axis, attrs.center, attrs.scale).astype(data.dtype)


@kernel("nn.lrn")
def lrn(
    data: np.ndarray, *, size: int = 5, axis: int = 1, bias: float = 2.0, alpha: float = 1e-4, beta: float = 0.75
) -> np.ndarray:
    """Divide by a power of the mean square of *size* neighbours along *axis*; each step rounds to the data's dtype."""
    k, half, extent = axis % data.ndim, size // 2, data.shape[axis]
    squares = np.pad(np.square(data), [(half, half) if j == k else (0, 0) for j in range(data.ndim)])
    total = sum(squares[(slice(None),) * k + (slice(j, j + extent),)] for j in range(size))
    number = data.dtype.type
    scaled = (alpha / size) * total if data.dtype.itemsize > 2 else number(alpha) * total / number(size)
    return (data / np.power(bias + scaled, beta)).astype(data.dtype)


@kernel("nn.l2_normalize")
def l2_normalize(data: np.ndarray, *, eps: float, axis: tuple[int, ...] = ()) -> np.ndarray:
    """Divide by the Euclidean length along *axis* (all axes where empty), whose square is at least *eps*."""
    square = np.square(data.astype(np.float64)).sum(axis or None, keepdims=True)
    result: np.ndarray = (data / np.sqrt(np.maximum(square, eps))).astype(data.dtype)
    return result
