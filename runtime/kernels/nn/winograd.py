"""Numpy kernels of convolutions by Winograd's minimal filtering, and of the transforms of their kernels.

For ``m`` outputs of a filter of ``r`` taps, with ``m + r - 2`` points and infinity, ``y = A^T [(G g) * (B^T d)]``. The
matrices are made from the points by Toom and Cook's interpolation, in exact fractions. Source: Lavin and Gray, "Fast
algorithms for convolutional neural networks"; ``topi.nn.winograd_util``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.layout import from_letters, pad_pairs, spatial_letters, to_letters
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.nn.conv import padded

_POINTS = [
    Fraction(0),
    Fraction(1),
    Fraction(-1),
    Fraction(1, 2),
    Fraction(-1, 2),
    Fraction(2),
    Fraction(-2),
    Fraction(1, 4),
    Fraction(-1, 4),
    Fraction(4),
    Fraction(-4),
]


def _coefficients(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of the product of ``x - root``, the constant one first."""
    result = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *result], [*(root * c for c in result), Fraction(0)]
        result = [a - b for a, b in zip(shifted, scaled, strict=True)]
    return result


@functools.cache
def matrices(tile: int, taps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``A^T [tile, n]``, ``G [n, taps]`` and ``B^T [n, n]`` for n = tile + taps - 1, in double precision.

    Raises IndexError where more points are needed than are in the list.
    """
    size = tile + taps - 1
    points = [_POINTS[k] for k in range(size - 1)]
    a = [[p**i for p in points] + [Fraction(int(i == tile - 1))] for i in range(tile)]
    g, b = [], []
    for p in points:
        others = [q for q in points if q != p]
        scale = math.prod((p - q for q in others), start=Fraction(1))
        g.append([p**k / scale for k in range(taps)])
        b.append([*_coefficients(others), Fraction(0)])
    g.append([Fraction(int(k == taps - 1)) for k in range(taps)])
    b.append(_coefficients(points))
    a_t, g_m, b_t = (np.array([[float(x) for x in row] for row in matrix]) for matrix in (a, g, b))
    return a_t, g_m, b_t


def _along(matrix: np.ndarray, array: np.ndarray, axis: int) -> np.ndarray:
    return np.moveaxis(np.tensordot(matrix, array, (1, axis)), 0, axis)


def transformed_weight(weight: np.ndarray, tile: int, axes: Sequence[int]) -> np.ndarray:
    """*weight* with each of *axes*, which has as many elements as the filter has taps, transformed by G."""
    result = weight.astype(np.float64)
    for axis in axes:
        result = _along(matrices(tile, weight.shape[axis])[1], result, axis)
    return result


def winograd(data: np.ndarray, weight: np.ndarray, tile: int, taps: Sequence[int]) -> np.ndarray:
    """data: T[N, C, *in] (padded), weight: T[*(tile + taps - 1), K, C] -> f64[N, K, *out], stride 1."""
    n = len(taps)
    outs = [size - k + 1 for size, k in zip(data.shape[2:], taps, strict=True)]
    counts = [-(-out // tile) for out in outs]
    spans = [tile + k - 1 for k in taps]
    rest = [(0, count * tile + k - 1 - size) for count, k, size in zip(counts, taps, data.shape[2:], strict=True)]
    view = sliding_window_view(padded(data.astype(np.float64), rest), spans, axis=tuple(range(2, 2 + n)))
    tiles = view[(slice(None), slice(None), *(slice(None, None, tile) for _ in taps))]
    for k, r in enumerate(taps):
        tiles = _along(matrices(tile, r)[2], tiles, 2 + n + k)
    places, blocks = "pqr"[:n], "xyz"[:n]
    product = np.einsum(f"nc{places}{blocks},{blocks}kc->nk{places}{blocks}", tiles, weight, optimize=True)
    for k, r in enumerate(taps):
        product = _along(matrices(tile, r)[0], product, 2 + n + k)
    woven = [k for pair in zip(range(2, 2 + n), range(2 + n, 2 + 2 * n), strict=True) for k in pair]
    whole = product.transpose([0, 1, *woven]).reshape(*product.shape[:2], *(c * tile for c in counts))
    result: np.ndarray = whole[(slice(None), slice(None), *(slice(out) for out in outs))]
    return result


def transforms_depth(kernel_size: Sequence[int]) -> bool:
    """True where the depth of a 3-d kernel is transformed too: it is as long as the height, in 3 to 7."""
    return 2 < kernel_size[0] < 8 and kernel_size[0] == kernel_size[1]


def _deep(data: np.ndarray, weight: np.ndarray, tile: int, taps: Sequence[int]) -> np.ndarray:
    """A 3-d convolution whose depth is not transformed: weight T[h, w, depth, K, C]."""
    outs = data.shape[2] - taps[0] + 1
    total: np.ndarray | int = 0
    for d in range(taps[0]):
        layers = np.moveaxis(data[:, :, d : d + outs], 2, 1)
        flat = layers.reshape(layers.shape[0] * layers.shape[1], *layers.shape[2:])
        result = winograd(flat, weight[:, :, d], tile, taps[1:])
        total = total + result.reshape(*layers.shape[:2], *result.shape[1:])
    return np.moveaxis(np.asarray(total), 1, 2)


@dataclass(frozen=True, kw_only=True)
class WinogradAttributes(KernelAttributes):
    """Attributes of a convolution by Winograd."""

    tile_size: int
    padding: tuple[int, ...]
    kernel_size: tuple[int, ...]
    data_layout: str
    out_layout: str = ""
    out_dtype: str = ""


@kernel("nn.contrib_conv2d_winograd_without_weight_transform", "nn.contrib_conv3d_winograd_without_weight_transform")
def conv_winograd(
    data: np.ndarray,
    weight: np.ndarray,
    *,
    attrs: WinogradAttributes,
) -> np.ndarray:
    """A convolution of stride 1 with a kernel that is transformed already."""
    n = data.ndim - 2
    letters = "NC" + spatial_letters(n)
    source = padded(to_letters(data, attrs.data_layout, letters), pad_pairs(attrs.padding, n))
    flat = n == 3 and not transforms_depth(attrs.kernel_size)
    value = (_deep if flat else winograd)(source, weight, attrs.tile_size, attrs.kernel_size)
    return from_letters(value.astype(attrs.out_dtype or data.dtype), letters, attrs.out_layout or attrs.data_layout)


@kernel("nn.contrib_conv2d_winograd_weight_transform")
def weight_transform_2d(weight: np.ndarray, *, tile_size: int) -> np.ndarray:
    """weight: T[K, C, h, w] -> T[tile + h - 1, tile + w - 1, K, C]."""
    return transformed_weight(weight, tile_size, (2, 3)).transpose(2, 3, 0, 1).astype(weight.dtype)


@kernel("nn.contrib_conv3d_winograd_weight_transform")
def weight_transform_3d(weight: np.ndarray, *, tile_size: int) -> np.ndarray:
    """weight: T[K, C, d, h, w] -> T[d', h', w', K, C], or T[h', w', d, K, C] where the depth is not transformed."""
    if transforms_depth(weight.shape[2:]):
        return transformed_weight(weight, tile_size, (2, 3, 4)).transpose(2, 3, 4, 0, 1).astype(weight.dtype)
    return transformed_weight(weight, tile_size, (3, 4)).transpose(3, 4, 2, 0, 1).astype(weight.dtype)


@kernel("nn.contrib_conv2d_winograd_nnpack_weight_transform")
def weight_transform_nnpack(weight: np.ndarray, *, out_dtype: str = "") -> np.ndarray:
    """weight: T[K, C, 3, 3] -> T[K, C, 8, 8], for tiles of 6."""
    return transformed_weight(weight, 6, (2, 3)).astype(out_dtype or weight.dtype)
