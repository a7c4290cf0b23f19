"""Numpy kernels of convolutions in one to three dimensions, and of their transposes.

A convolution is a matrix product over unfolded windows, blocked along its first spatial axis so that the unfolded
copy stays below :data:`BLOCK_BYTES`; a depthwise one is a sum of shifted slices. A transposed convolution adds one
matrix product per kernel position into a strided slice of its result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import EllipsisType

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from byoc.runtime.kernels.core.layout import (
    from_letters,
    merged_groups,
    pad_pairs,
    per_axis,
    spatial_letters,
    to_letters,
)
from byoc.runtime.kernels.core.window import WindowAttributes, transposed_size, window_count
from byoc.runtime.kernels.nn.blocked import kernel_in_blocks
from byoc.runtime.kernels.nn.dense import finish, result_dtype, working_dtype

BLOCK_BYTES = 32 * 2**20


def positions(kernel_shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every position in a kernel, the last axis fastest."""
    return itertools.product(*map(range, kernel_shape))


def on_last_axes(at: Iterable[int | slice]) -> tuple[int | slice | EllipsisType, ...]:
    """The index of *at* along the last axes, everything along those before."""
    return (Ellipsis, *at)


def padded(data: np.ndarray, pads: Sequence[tuple[int, int]], value: float = 0) -> np.ndarray:
    """*data* with its last axes padded by *value*; itself where there is nothing to add."""
    if not any(map(any, pads)):
        return data
    before = [(0, 0)] * (data.ndim - len(pads))
    return np.pad(data, [*before, *pads], constant_values=value)


def _windows(
    data: np.ndarray, kernel_shape: tuple[int, ...], strides: tuple[int, ...], dilation: tuple[int, ...]
) -> np.ndarray:
    """A view ``[N, C, *out, *kernel]`` of *data* ``[N, C, *in]``."""
    n = len(kernel_shape)
    spans = [d * (k - 1) + 1 for k, d in zip(kernel_shape, dilation, strict=True)]
    view = sliding_window_view(data, spans, axis=tuple(range(2, 2 + n)))
    steps = [slice(None, None, s) for s in (*strides, *dilation)]
    return view[(slice(None), slice(None), *steps)]


def _unfolded(data: np.ndarray, weight: np.ndarray, view: np.ndarray, groups: int) -> np.ndarray:
    n = weight.ndim - 2
    batch, out_shape, channels = view.shape[0], view.shape[2 : 2 + n], weight.shape[0]
    per_group, reduced = channels // groups, weight.shape[1]
    flat = weight.reshape(groups, per_group, math.prod(weight.shape[1:]))
    out = np.empty((batch, channels, *out_shape), data.dtype)
    row_bytes = flat.shape[2] * math.prod(out_shape[1:]) * data.itemsize
    rows = max(1, BLOCK_BYTES // max(1, row_bytes))
    order = (0, *range(1 + n, 1 + 2 * n), *range(1, 1 + n))
    for image, group in itertools.product(range(batch), range(groups)):
        source = view[image, group * reduced : (group + 1) * reduced]
        target = out[image, group * per_group : (group + 1) * per_group]
        for start in range(0, out_shape[0], rows):
            block = source[:, start : start + rows]
            columns = block.transpose(order).reshape(flat.shape[2], math.prod(block.shape[1 : 1 + n]))
            target[:, start : start + rows] = (flat[group] @ columns).reshape(per_group, *block.shape[1 : 1 + n])
    return out


def _depthwise(weight: np.ndarray, view: np.ndarray) -> np.ndarray:
    n, channels = weight.ndim - 2, view.shape[1]
    taps = weight.reshape(channels, weight.shape[0] // channels, *weight.shape[2:])
    out = np.zeros((view.shape[0], channels, taps.shape[1], *view.shape[2 : 2 + n]), view.dtype)
    for at in positions(weight.shape[2:]):
        tap = taps[on_last_axes(at)].reshape(*taps.shape[:2], *(1,) * n)
        out += view[on_last_axes(at)][:, :, None] * tap
    return out.reshape(view.shape[0], weight.shape[0], *view.shape[2 : 2 + n])


def _by_taps(data: np.ndarray, weight: np.ndarray, dilation: Sequence[int], groups: int) -> np.ndarray:
    """A convolution of stride 1 with few outputs: unfolding its many inputs would cost more than its products."""
    batch, sizes, kernel_shape = data.shape[0], data.shape[2:], weight.shape[2:]
    outs = [i - d * (k - 1) for i, k, d in zip(sizes, kernel_shape, dilation, strict=True)]
    x = np.asarray(data, order="C").reshape(batch, groups, weight.shape[1], math.prod(sizes))
    w = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    out = np.zeros((batch, groups, w.shape[1], *outs), data.dtype)
    for at in positions(kernel_shape):
        where = [slice(a * d, a * d + o) for a, d, o in zip(at, dilation, outs, strict=True)]
        out += (w[on_last_axes(at)] @ x).reshape(*out.shape[:3], *sizes)[on_last_axes(where)]
    return out.reshape(batch, weight.shape[0], *outs)


def convolve(
    data: np.ndarray,
    weight: np.ndarray,
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
) -> np.ndarray:
    """data: T[N, C, *in], weight: T[K, C / groups, *kernel] -> T[N, K, *out].

    Raises KernelError for a kernel that is larger than the padded data.
    """
    for axis in zip(data.shape[2:], weight.shape[2:], strides, dilation, pads, strict=True):
        window_count(*axis)
    source = padded(data, pads)
    if all(s == 1 for s in strides) and 4 * weight.shape[0] <= data.shape[1]:
        return _by_taps(source, weight, dilation, groups)
    view = _windows(source, weight.shape[2:], tuple(strides), tuple(dilation))
    if groups == data.shape[1] and weight.shape[1] == 1:
        return _depthwise(weight, view)
    return _unfolded(data, weight, view, groups)


@dataclass(frozen=True, kw_only=True)
class ConvAttributes(WindowAttributes):
    """Attributes of the convolutions."""

    groups: int = 1
    data_layout: str
    kernel_layout: str
    out_layout: str = ""
    out_dtype: str = ""


@kernel_in_blocks("nn.conv1d", "nn.conv2d", "nn.conv3d")
def conv(
    data: np.ndarray,
    weight: np.ndarray,
    *,
    attrs: ConvAttributes,
) -> np.ndarray:
    """Convolution of one to three spatial axes in any order of axes."""
    n = data.ndim - 2
    letters, out = "NC" + spatial_letters(n), result_dtype(data, attrs.out_dtype)
    work = working_dtype(data, weight, out)
    x = to_letters(data, attrs.data_layout, letters).astype(work, copy=False)
    w = to_letters(*merged_groups(weight, attrs.kernel_layout, "O"), "OI" + spatial_letters(n)).astype(work, copy=False)
    if attrs.groups > 1 and attrs.groups == x.shape[1] == w.shape[0]:  # Relay's depthwise kernel: [C, multiplier, ...]
        w = w.reshape(w.shape[0] * w.shape[1], 1, *w.shape[2:])
    strides, dilation = per_axis(attrs.strides, n), per_axis(attrs.dilation, n)
    value = convolve(x, w, strides, pad_pairs(attrs.padding, n), dilation, attrs.groups)
    return from_letters(finish(value, out), letters, attrs.out_layout or attrs.data_layout)


def convolve_transposed(
    data: np.ndarray,
    weight: np.ndarray,
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
) -> np.ndarray:
    """data: T[N, C, *in], weight: T[C, K / groups, *kernel] -> T[N, K, *out].

    Raises KernelError where the padding leaves nothing.
    """
    for axis in zip(data.shape[2:], weight.shape[2:], strides, dilation, pads, output_padding, strict=True):
        transposed_size(*axis)
    batch = data.shape[0]
    sizes, kernel_shape, per_group = data.shape[2:], weight.shape[2:], weight.shape[1]
    full = [
        (i - 1) * s + d * (k - 1) + 1 + max(0, p - after)
        for i, s, d, k, p, (_, after) in zip(sizes, strides, dilation, kernel_shape, output_padding, pads, strict=True)
    ]
    out = np.zeros((batch, groups, per_group, *full), data.dtype)
    x = np.asarray(data, order="C").reshape(batch, groups, data.shape[1] // groups, math.prod(sizes))
    w = weight.reshape(groups, weight.shape[0] // groups, per_group, *kernel_shape)
    for at in positions(kernel_shape):
        tap = np.swapaxes(w[on_last_axes(at)], 1, 2)
        steps = zip(at, dilation, sizes, strides, strict=True)
        where = [slice(a * d, a * d + (i - 1) * s + 1, s) for a, d, i, s in steps]
        out[on_last_axes(where)] += (tap @ x).reshape(batch, groups, per_group, *sizes)
    kept = [
        slice(before, (i - 1) * s + d * (k - 1) + 1 + p - after)
        for i, s, d, k, p, (before, after) in zip(
            sizes, strides, dilation, kernel_shape, output_padding, pads, strict=True
        )
    ]
    return out[on_last_axes(kept)].reshape(batch, groups * per_group, *(k.stop - k.start for k in kept))


@dataclass(frozen=True, kw_only=True)
class TransposeAttributes(ConvAttributes):
    """Attributes of the transposed convolutions."""

    output_padding: tuple[int, ...] = (0,)


@kernel_in_blocks("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose")
def conv_transpose(
    data: np.ndarray,
    weight: np.ndarray,
    *,
    attrs: TransposeAttributes,
) -> np.ndarray:
    """Transposed convolution of one to three spatial axes in any order of axes."""
    n = data.ndim - 2
    letters, out = "NC" + spatial_letters(n), result_dtype(data, attrs.out_dtype)
    work = working_dtype(data, weight, out)
    x = to_letters(data, attrs.data_layout, letters).astype(work, copy=False)
    w = to_letters(*merged_groups(weight, attrs.kernel_layout, "I"), "IO" + spatial_letters(n)).astype(work, copy=False)
    value = convolve_transposed(
        x,
        w,
        per_axis(attrs.strides, n),
        pad_pairs(attrs.padding, n),
        per_axis(attrs.dilation, n),
        per_axis(attrs.output_padding[:n], n),
        attrs.groups,
    )
    return from_letters(finish(value, out), letters, attrs.out_layout or attrs.data_layout)
