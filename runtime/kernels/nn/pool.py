"""Numpy kernels of pools: sliding, global and adaptive, in one to three dimensions and any order of axes.

Means of integers are rounded toward zero, as Relay's are.

A sliding pool folds one strided slice per kernel position, so it copies nothing but its result. A window may hang over
the end (``ceil_mode``); what it sees there is no element. Source of the sizes: ``byoc.relay.op.core.window``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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
from byoc.runtime.kernels.core.window import window_count
from byoc.runtime.kernels.nn.blocked import kernel_in_blocks
from byoc.runtime.kernels.nn.conv import on_last_axes, padded, positions


def _fold(
    data: np.ndarray,
    kernel_shape: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    pads: Sequence[tuple[int, int]],
    ceil_mode: bool,
    fill: float,
    fold: Callable[..., np.ndarray],
) -> np.ndarray:
    """*fold* over the windows of *data* ``[N, C, *in]``, padded by *fill*."""
    n = len(kernel_shape)
    sizes = data.shape[2:]
    axes = list(zip(sizes, kernel_shape, strides, dilation, pads, strict=True))
    outs = [window_count(*axis, ceil_mode) for axis in axes]
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
def max_pool(
    data: np.ndarray,
    *,
    pool_size: tuple[int, ...],
    strides: tuple[int, ...] = (1,),
    dilation: tuple[int, ...] = (1,),
    padding: tuple[int, ...] = (0,),
    layout: str,
    out_layout: str = "",
    ceil_mode: bool = False,
) -> np.ndarray:
    """The greatest element of each window."""
    n = data.ndim - 2
    letters = "NC" + spatial_letters(n)
    size, steps, pads = per_axis(pool_size, n), per_axis(dilation, n), pad_pairs(padding, n)
    value = _fold(
        to_letters(data, layout, letters),
        size,
        per_axis(strides, n),
        steps,
        pads,
        ceil_mode,
        _outside_value(data.dtype, size, steps, pads),
        np.maximum,
    )
    return from_letters(value, letters, out_layout or layout)


def _outside_value(
    dtype: np.dtype, kernel: Sequence[int], dilation: Sequence[int], pads: Sequence[Sequence[int]]
) -> float:
    """What padding holds for a maximum: the least finite value where some window sees nothing else, as in Relay."""
    blind = any(max(p) > (k - 1) * d for k, d, p in zip(kernel, dilation, pads, strict=True))
    return float(np.finfo(dtype).min) if blind and dtype.kind == "f" else lowest(dtype)


@kernel_in_blocks("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d")
def avg_pool(
    data: np.ndarray,
    *,
    pool_size: tuple[int, ...],
    strides: tuple[int, ...] = (1,),
    dilation: tuple[int, ...] = (1,),
    padding: tuple[int, ...] = (0,),
    layout: str,
    out_layout: str = "",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> np.ndarray:
    """The mean of each window: over its elements, with *count_include_pad* over its elements and padding."""
    n = data.ndim - 2
    letters = "NC" + spatial_letters(n)
    x = to_letters(data, layout, letters)
    pads = pad_pairs(padding, n)
    window = (per_axis(pool_size, n), per_axis(strides, n), per_axis(dilation, n), pads, ceil_mode, 0, np.add)
    ones = np.ones((1, 1, *x.shape[2:]), np.int64)
    if count_include_pad:  # the padding counts, what lies beyond it does not
        ones = padded(ones, pads, 1)
        outside = tuple((0, 0) for _ in pads)
        count = _fold(ones, *window[:3], outside, ceil_mode, 0, np.add)
        # a window that starts in the padding after the data is dropped
        count = count[(slice(None), slice(None), *(slice(0, o) for o in _fold(x[:1, :1], *window).shape[2:]))]
    else:
        count = _fold(ones, *window)
    total, count = _fold(wide(x), *window), np.maximum(count, 1)
    value = truncated_divide(total, count.astype(total.dtype))
    return from_letters(value.astype(data.dtype, copy=False), letters, out_layout or layout)


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
