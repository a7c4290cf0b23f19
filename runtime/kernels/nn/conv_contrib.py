"""Numpy kernels of convolutions in forms that code generators make, of deformable ones, and of a kernel's gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.layout import from_letters, pad_pairs, per_axis, to_letters
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.core.window import WindowAttributes
from byoc.runtime.kernels.nn.conv import ConvAttributes, conv, convolve, on_last_axes, padded, positions
from byoc.runtime.kernels.nn.dense import finish, result_dtype, working_dtype


@kernel("nn.contrib_conv2d_gemm_weight_transform")
def gemm_weight_transform(weight: np.ndarray, *, tile_N: int, tile_K: int) -> np.ndarray:
    """weight: T[h, w, C, K] as a matrix ``[h w C, K]``, transposed, in tiles ``[tile_N, tile_K]`` padded with zeros."""
    matrix = weight.reshape(math.prod(weight.shape[:-1]), weight.shape[-1])
    rows, columns = (-(-size // tile) for size, tile in zip(matrix.shape, (tile_K, tile_N), strict=True))
    whole = np.zeros((rows * tile_K, columns * tile_N), weight.dtype)
    whole[: matrix.shape[0], : matrix.shape[1]] = matrix
    return np.asarray(whole.reshape(rows, tile_K, columns, tile_N).transpose(2, 0, 3, 1), order="C")


@dataclass(frozen=True, kw_only=True)
class GemmAttributes(WindowAttributes):
    """Attributes of a convolution as a product of matrices."""

    channels: int
    kernel_size: tuple[int, ...]
    data_layout: str
    out_layout: str = ""
    out_dtype: str = ""


@kernel("nn.contrib_conv2d_gemm_without_weight_transform")
def conv_gemm(
    data: np.ndarray,
    weight: np.ndarray,
    *,
    attrs: GemmAttributes,
) -> np.ndarray:
    """A convolution whose kernel stands in transposed tiles ``[n, k, tile_N, tile_K]``."""
    reduced = data.shape[attrs.data_layout.index("C")]
    whole = weight.transpose(1, 3, 0, 2).reshape(weight.shape[1] * weight.shape[3], weight.shape[0] * weight.shape[2])
    taken = whole[: attrs.kernel_size[0] * attrs.kernel_size[1] * reduced, : attrs.channels]
    return conv(
        data,
        taken.reshape(*attrs.kernel_size, reduced, attrs.channels),
        attrs=ConvAttributes(
            strides=attrs.strides,
            padding=attrs.padding,
            dilation=attrs.dilation,
            data_layout=attrs.data_layout,
            kernel_layout="HWIO",
            out_layout=attrs.out_layout,
            out_dtype=attrs.out_dtype,
        ),
    )


@dataclass(frozen=True, kw_only=True)
class BackwardWeightAttributes(WindowAttributes):
    """Attributes of the gradient of a kernel: the layouts of the result's gradient, the data and the kernel."""

    groups: int = 1
    kernel_size: tuple[int, ...]
    data_layout: str
    kernel_layout: str
    out_layout: str
    out_dtype: str = ""


@kernel("nn.conv2d_backward_weight")
def conv_backward_weight(
    grad: np.ndarray,
    data: np.ndarray,
    *,
    attrs: BackwardWeightAttributes,
) -> np.ndarray:
    """grad: T[N, K, *out], data: T[N, C, *in] -> T[K, C / groups, *kernel]: each tap sums over where it was used."""
    out = result_dtype(grad, attrs.out_dtype)
    work = working_dtype(grad, data, out)
    g = to_letters(grad, attrs.data_layout, "NCHW").astype(work, copy=False)
    x = padded(to_letters(data, attrs.kernel_layout, "NCHW").astype(work, copy=False), pad_pairs(attrs.padding, 2))
    g = g.reshape(g.shape[0], attrs.groups, g.shape[1] // attrs.groups, *g.shape[2:])
    x = x.reshape(x.shape[0], attrs.groups, x.shape[1] // attrs.groups, *x.shape[2:])
    result = np.empty((attrs.groups, g.shape[2], x.shape[2], *attrs.kernel_size), work)
    steps, sizes = per_axis(attrs.strides, 2), g.shape[3:]
    for at in positions(attrs.kernel_size):
        starts = [a * d for a, d in zip(at, per_axis(attrs.dilation, 2), strict=True)]
        where = [slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, sizes, steps, strict=True)]
        result[on_last_axes(at)] = np.einsum("ngohw,ngihw->goi", g, x[on_last_axes(where)], optimize=True)
    value = finish(result.reshape(attrs.groups * result.shape[1], *result.shape[2:]), out)
    return from_letters(value, "OIHW", attrs.out_layout)


def _sampled(data: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """data: T[C, H, W] between its pixels at *y*, *x* of any shape; what lies outside is 0."""
    low_y, low_x = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    value = np.zeros((data.shape[0], *y.shape), np.float64)
    for dy, weight_y in ((0, 1 - (y - low_y)), (1, y - low_y)):
        for dx, weight_x in ((0, 1 - (x - low_x)), (1, x - low_x)):
            row, column = low_y + dy, low_x + dx
            inside = (row >= 0) & (row < data.shape[1]) & (column >= 0) & (column < data.shape[2])
            pixel = data[:, np.clip(row, 0, data.shape[1] - 1), np.clip(column, 0, data.shape[2] - 1)]
            value += np.where(inside, pixel * weight_y * weight_x, 0)
    return value


def _deformed(
    data: np.ndarray,
    offset: np.ndarray,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    deformable_groups: int,
) -> np.ndarray:
    """The data that each tap of each output sees: f64[N, C, kh, OH, kw, OW]."""
    batch, channels = data.shape[:2]
    out_h, out_w = offset.shape[2:]
    moves = offset.reshape(batch, deformable_groups, *kernel_size, 2, out_h, out_w)
    group = channels // deformable_groups
    seen = np.empty((batch, channels, kernel_size[0], out_h, kernel_size[1], out_w), np.float64)
    rows = np.arange(out_h)[:, None] * strides[0] - pads[0]
    columns = np.arange(out_w)[None, :] * strides[1] - pads[1]
    for n, g, (i, j) in (
        (n, g, at) for n in range(batch) for g in range(deformable_groups) for at in positions(kernel_size)
    ):
        y = rows + i * dilation[0] + moves[n, g, i, j, 0]
        x = columns + j * dilation[1] + moves[n, g, i, j, 1]
        part = slice(g * group, (g + 1) * group)
        seen[n, part, i, :, j] = _sampled(data[n, part], y, x)
    return seen


@dataclass(frozen=True, kw_only=True)
class DeformableAttributes(ConvAttributes):
    """Attributes of the deformable convolution."""

    deformable_groups: int = 1


@kernel("nn.deformable_conv2d")
def deformable_conv2d(
    data: np.ndarray,
    offset: np.ndarray,
    weight: np.ndarray,
    *,
    attrs: DeformableAttributes,
) -> np.ndarray:
    """A convolution whose every tap is moved by an offset (y, x) of its own."""
    out = result_dtype(data, attrs.out_dtype)
    x, moves = (to_letters(a, attrs.data_layout, "NCHW") for a in (data, offset))
    w = to_letters(weight, attrs.kernel_layout, "OIHW").astype(np.float64)
    before = [pair[0] for pair in pad_pairs(attrs.padding, 2)]
    strides, dilation = per_axis(attrs.strides, 2), per_axis(attrs.dilation, 2)
    seen = _deformed(x, moves, w.shape[2:], strides, before, dilation, attrs.deformable_groups)
    sizes = [k * n for k, n in zip(w.shape[2:], moves.shape[2:], strict=True)]
    image = seen.transpose(0, 1, 3, 2, 5, 4).reshape(*seen.shape[:2], *sizes)
    value = convolve(image, w, w.shape[2:], ((0, 0), (0, 0)), (1, 1), attrs.groups)
    return from_letters(finish(value, out), "NCHW", attrs.out_layout or attrs.data_layout)


@dataclass(frozen=True, kw_only=True)
class ColumnsAttributes(KernelAttributes):
    """Attributes of moved taps."""

    kernel_size: tuple[int, ...]
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0, 0, 0)
    dilation: tuple[int, ...] = (1, 1)
    deformable_groups: int = 1


def _columns(data: np.ndarray, offset: np.ndarray, kernel_size: Sequence[int], attrs: ColumnsAttributes) -> np.ndarray:
    """What the taps see: T[N, C, kh kw, OH, OW]."""
    seen = _deformed(data, offset, kernel_size, attrs.strides, attrs.padding, attrs.dilation, attrs.deformable_groups)
    taps = seen.transpose(0, 1, 2, 4, 3, 5)
    return taps.reshape(*data.shape[:2], math.prod(kernel_size), *offset.shape[2:]).astype(data.dtype)


@kernel("nn.deformable_columns")
def deformable_columns(data: np.ndarray, offset: np.ndarray, *, attrs: ColumnsAttributes) -> np.ndarray:
    """What the taps of a known kernel see."""
    return _columns(data, offset, attrs.kernel_size, attrs)


@kernel("dyn.deformable_columns")
def free_deformable_columns(
    data: np.ndarray, offset: np.ndarray, sizes: np.ndarray, *, attrs: ColumnsAttributes
) -> np.ndarray:
    """What the taps of a kernel of *sizes*, int[2], see."""
    return _columns(data, offset, sizes.tolist(), attrs)
