"""Numpy kernels of pools: sliding, global and adaptive, in one to three dimensions and any order of axes.

Means of integers are rounded toward zero, as Relay's are.

A sliding pool folds one strided slice per kernel position, so it copies nothing but its result. A window may hang over
the end (``ceil_mode``); what it sees there is no element. Source of the sizes: ``byoc.relay.op.core.window``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from byoc.runtime.kernels.binary import truncated_divide
from byoc.runtime.kernels.core.layout import (
    from_letters,
    lowest,
    pad_pairs,
    per_axis,
    spatial_letters,
    to_letters,
    wide,
)
from byoc.runtime.kernels.core.window import WindowAttributes, window_count
from byoc.runtime.kernels.nn.blocked import kernel_in_blocks
from byoc.runtime.kernels.nn.conv import on_last_axes, padded, positions


@dataclass(frozen=True, kw_only=True)
class MaxPoolAttributes(WindowAttributes):
    """Attributes of maximum pools."""

    pool_size: tuple[int, ...]
    layout: str
    out_layout: str = ""
    ceil_mode: bool = False


@dataclass(frozen=True, kw_only=True)
class AvgPoolAttributes(MaxPoolAttributes):
    """Attributes of average pools."""

    count_include_pad: bool = False


@dataclass(frozen=True)
class _Window:
    """How a window slides over the spatial axes, a number for each."""

    shape: Sequence[int]
    strides: Sequence[int]
    dilation: Sequence[int]
    pads: Sequence[tuple[int, int]]
    ceil_mode: bool

    @staticmethod
    def of(attrs: MaxPoolAttributes, n: int) -> _Window:
        return _Window(
            per_axis(attrs.pool_size, n),
            per_axis(attrs.strides, n),
            per_axis(attrs.dilation, n),
            pad_pairs(attrs.padding, n),
            attrs.ceil_mode,
        )


def _fold(data: np.ndarray, window: _Window, fill: float, fold: Callable[..., np.ndarray]) -> np.ndarray:
    """*fold* over the windows of *data* ``[N, C, *in]``, padded by *fill*."""
    strides, dilation, n = window.strides, window.dilation, len(window.shape)
    sizes = data.shape[2:]
    axes = list(zip(sizes, window.shape, strides, dilation, window.pads, strict=True))
    outs = [window_count(*axis, window.ceil_mode) for axis in axes]
    # a window wider than all there is sees nothing beyond it
    kernel_shape = [min(k, max(1, (size + sum(p) - 1) // d + 1)) for size, k, _, d, p in axes]
    reach = [
        (p[0], max(0, (o - 1) * s + d * (k - 1) + 1 - size - p[0]))
        for o, k, (size, _, s, d, p) in zip(outs, kernel_shape, axes, strict=True)
    ]
    source = padded(data, reach, fill)
    result: np.ndarray | None = None
    for at in positions(kernel_shape):
        where = [
            slice(at[j] * dilation[j], at[j] * dilation[j] + (outs[j] - 1) * strides[j] + 1, strides[j])
            for j in range(n)
        ]
        piece = source[on_last_axes(where)]
        result = piece.copy() if result is None else fold(result, piece, out=result)
    assert result is not None  # a kernel has a position at least
    return result


@kernel_in_blocks("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
def max_pool(data: np.ndarray, *, attrs: MaxPoolAttributes) -> np.ndarray:
    """The greatest element of each window."""
    n = data.ndim - 2
    letters, window = "NC" + spatial_letters(n), _Window.of(attrs, n)
    value = _fold(to_letters(data, attrs.layout, letters), window, _outside_value(data.dtype, window), np.maximum)
    return from_letters(value, letters, attrs.out_layout or attrs.layout)


def _outside_value(dtype: np.dtype, window: _Window) -> float:
    """What padding holds for a maximum: the least finite value where some window sees nothing else, as in Relay."""
    blind = any(max(p) > (k - 1) * d for k, d, p in zip(window.shape, window.dilation, window.pads, strict=True))
    return float(np.finfo(dtype).min) if blind and dtype.kind == "f" else lowest(dtype)


@kernel_in_blocks("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d")
def avg_pool(data: np.ndarray, *, attrs: AvgPoolAttributes) -> np.ndarray:
    """The mean of each window: over its elements, with *count_include_pad* over its elements and padding."""
    n = data.ndim - 2
    letters, window = "NC" + spatial_letters(n), _Window.of(attrs, n)
    x = to_letters(data, attrs.layout, letters)
    ones = np.ones((1, 1, *x.shape[2:]), np.int64)
    if attrs.count_include_pad:  # the padding counts, what lies beyond it does not
        ones = padded(ones, window.pads, 1)
        outside = tuple((0, 0) for _ in window.pads)
        count = _fold(ones, replace(window, pads=outside), 0, np.add)
        # a window that starts in the padding after the data is dropped
        count = count[(slice(None), slice(None), *(slice(0, o) for o in _fold(x[:1, :1], window, 0, np.add).shape[2:]))]
    else:
        count = _fold(ones, window, 0, np.add)
    total, count = _fold(wide(x), window, 0, np.add), np.maximum(count, 1)
    value = truncated_divide(total, count.astype(total.dtype))
    return from_letters(value.astype(data.dtype, copy=False), letters, attrs.out_layout or attrs.layout)


def _mean(block: np.ndarray, axis: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if dtype.kind in "iu":
        count = math.prod(block.shape[a] for a in axis)
        return truncated_divide(block.sum(axis, dtype).astype(np.int64), np.asarray(count))
    result: np.ndarray = block.mean(axis, dtype=np.float64)
    return result


def _greatest(block: np.ndarray, axis: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    result: np.ndarray = block.max(axis)
    return result


def _adaptive(
    data: np.ndarray, output_size: Sequence[int], layout: str, out_layout: str, fold: Callable[..., np.ndarray]
) -> np.ndarray:
    n = data.ndim - 2
    letters = "NC" + spatial_letters(n)
    x = to_letters(data, layout, letters)
    outs = per_axis(output_size, n) if output_size else x.shape[2:]
    value = np.empty((*x.shape[:2], *outs), data.dtype)
    for at in positions(outs):
        where = [slice(a * i // o, -(-(a + 1) * i // o)) for a, i, o in zip(at, x.shape[2:], outs, strict=True)]
        value[on_last_axes(at)] = fold(x[on_last_axes(where)], tuple(range(2, 2 + n)), data.dtype)
    return from_letters(value, letters, out_layout or layout)


@kernel_in_blocks("nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "nn.adaptive_avg_pool3d")
def adaptive_avg_pool(
    data: np.ndarray, *, output_size: tuple[int, ...] = (), layout: str, out_layout: str = ""
) -> np.ndarray:
    """The means of *output_size* windows that cover the data."""
    return _adaptive(data, output_size, layout, out_layout, _mean)


@kernel_in_blocks("nn.adaptive_max_pool1d", "nn.adaptive_max_pool2d", "nn.adaptive_max_pool3d")
def adaptive_max_pool(
    data: np.ndarray, *, output_size: tuple[int, ...] = (), layout: str, out_layout: str = ""
) -> np.ndarray:
    """The greatest elements of *output_size* windows that cover the data."""
    return _adaptive(data, output_size, layout, out_layout, _greatest)


@kernel_in_blocks("nn.global_avg_pool2d")
def global_avg_pool(data: np.ndarray, *, layout: str, out_layout: str = "") -> np.ndarray:
    """The mean over height and width."""
    return _adaptive(data, (1,) * (data.ndim - 2), layout, out_layout, _mean)


@kernel_in_blocks("nn.global_max_pool2d")
def global_max_pool(data: np.ndarray, *, layout: str, out_layout: str = "") -> np.ndarray:
    """The greatest element over height and width."""
    return _adaptive(data, (1,) * (data.ndim - 2), layout, out_layout, _greatest)
