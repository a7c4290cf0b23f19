"""Normalisations and softmax in numpy. Source: ``tvm.topi.testing``'s references of the same names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.relay.op.core.arguments import Arguments, takes_fields_of

Axes = int | Sequence[int]


def softmax_python(a_np: np.ndarray, axis: int = 1) -> np.ndarray:
    """``exp(a) / sum(exp(a))`` along *axis*."""
    shifted = np.exp(a_np - np.max(a_np, axis=axis, keepdims=True))
    result: np.ndarray = (shifted / np.sum(shifted, axis=axis, keepdims=True)).astype(a_np.dtype)
    return result


def log_softmax_python(a_np: np.ndarray, axis: int = 1) -> np.ndarray:
    """The logarithm of the softmax along *axis*."""
    shifted = a_np - np.max(a_np, axis=axis, keepdims=True)
    result: np.ndarray = (shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))).astype(a_np.dtype)
    return result


def _normal(data: np.ndarray, axes: Axes, epsilon: float) -> np.ndarray:
    axes = axes if isinstance(axes, int) else tuple(axes)
    mean, variance = np.mean(data, axis=axes, keepdims=True), np.var(data, axis=axes, keepdims=True)
    result: np.ndarray = (data - mean) / np.sqrt(variance + epsilon)
    return result


def _along(values: np.ndarray, axes: Axes, ndim: int) -> np.ndarray:
    """*values* over *axes* of a tensor of rank *ndim*, of size 1 elsewhere."""
    kept = sorted(axis % ndim for axis in ((axes,) if isinstance(axes, int) else axes))
    shape = [1] * ndim
    for axis, size in zip(kept, values.shape, strict=True):
        shape[axis] = size
    return values.reshape(shape)


def layer_norm_python(
    data: np.ndarray, gamma: np.ndarray, beta: np.ndarray | None, axis: Axes, epsilon: float = 1e-5
) -> np.ndarray:
    """*data* with mean 0 and variance 1 over *axis*, times gamma plus beta, which are over *axis* too."""
    result = _normal(data, axis, epsilon) * _along(gamma, axis, data.ndim)
    found: np.ndarray = result if beta is None else result + _along(beta, axis, data.ndim)
    return found


def instance_norm_python(
    data: np.ndarray, gamma: np.ndarray, beta: np.ndarray, axis: Axes, epsilon: float = 1e-5
) -> np.ndarray:
    """*data* with mean 0 and variance 1 over *axis*, times gamma plus beta, which are over axis 1, the channels."""
    result: np.ndarray = _normal(data, axis, epsilon) * _along(gamma, 1, data.ndim) + _along(beta, 1, data.ndim)
    return result


def group_norm_python(
    data: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> np.ndarray:
    """*data* normal over *axes* and within each of *num_groups* groups of channels, times gamma plus beta."""
    channel_axis %= data.ndim
    shape = list(data.shape)
    shape[channel_axis : channel_axis + 1] = [num_groups, shape[channel_axis] // num_groups]
    inside = [axis % data.ndim + (axis % data.ndim > channel_axis) for axis in axes]
    normal = _normal(data.reshape(shape), [channel_axis + 1, *inside], epsilon).reshape(data.shape)
    result: np.ndarray = normal * _along(gamma, channel_axis, data.ndim) + _along(beta, channel_axis, data.ndim)
    return result


@dataclass(eq=False, repr=False)
class BatchNormArguments(Arguments):
    """Arguments of ``batch_norm``."""

    x: np.ndarray
    gamma: np.ndarray
    beta: np.ndarray
    moving_mean: np.ndarray
    moving_var: np.ndarray
    axis: int
    epsilon: float
    center: bool
    scale: bool
    training: bool = False
    momentum: float = 0.1


@takes_fields_of(BatchNormArguments)
def batch_norm(given: BatchNormArguments) -> list[np.ndarray]:
    """The normal data, and the mean and variance to keep. In training they are the batch's and its share of them.

    Its parameters are TVM's, the fields of :class:`BatchNormArguments`.
    """
    x, axis, kept = given.x, given.axis, [given.moving_mean, given.moving_var]
    others = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
    used = [np.mean(x, axis=others), np.var(x, axis=others)] if given.training else kept
    mean, variance = (_along(each, axis, x.ndim) for each in used)
    result = (x - mean) / np.sqrt(variance + given.epsilon)
    if given.scale:
        result = result * _along(given.gamma, axis, x.ndim)
    if given.center:
        result = result + _along(given.beta, axis, x.ndim)
    if not given.training:
        return [result, *kept]
    share = given.momentum
    return [result, *((1 - share) * old + share * new for old, new in zip(kept, used, strict=True))]


def l2_normalize_python(a_np: np.ndarray, eps: float, axis: Axes | None = None) -> np.ndarray:
    """``a / sqrt(max(sum(a^2), eps))`` over *axis*."""
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else axis
    result: np.ndarray = a_np / np.sqrt(np.maximum(np.sum(np.square(a_np), axis=axes, keepdims=True), eps))
    return result


def lrn_python(a_np: np.ndarray, size: int, axis: int, bias: float, alpha: float, beta: float) -> np.ndarray:
    """``a / (bias + alpha/size * sum of the squares of the *size* neighbours along *axis*)^beta``."""
    radius = size // 2
    squares = np.moveaxis(np.square(a_np), axis, -1)
    padded = np.pad(squares, [(0, 0)] * (a_np.ndim - 1) + [(radius, radius)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * radius + 1, axis=-1)
    result: np.ndarray = a_np / np.power(bias + alpha / size * np.moveaxis(windows.sum(axis=-1), -1, axis), beta)
    return result


def nll_loss(
    predictions: np.ndarray, targets: np.ndarray, weights: np.ndarray, reduction: str = "mean", ignore_index: int = -100
) -> np.ndarray:
    """The negative log likelihood of *targets* [N, ...] in *predictions* [N, C, ...], times the weight of its class."""
    chosen = np.where(targets == ignore_index, 0, targets)
    weight = np.where(targets == ignore_index, 0, weights[chosen])
    loss = -np.take_along_axis(predictions, np.expand_dims(chosen, 1), axis=1).squeeze(1) * weight
    if reduction == "none":
        return loss
    result: np.ndarray = np.sum(loss) / np.sum(weight) if reduction == "mean" else np.sum(loss)
    return result
