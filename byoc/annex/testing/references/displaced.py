"""Convolutions whose taps are moved, and correlations of displaced patches, in numpy from the definition.

Sources: ``tvm.topi.testing``'s ``deformable_conv2d_*_python`` and ``correlation_nchw_python`` for names and arguments.
"""

from __future__ import annotations

import numpy as np

from byoc.annex.testing.references.padding import Ints, Padding, both_sides, per_axis
from byoc.annex.testing.references.vision import bilinear


def deformable_conv2d_nchw_python(
    a_np: np.ndarray,
    offset_np: np.ndarray,
    w_np: np.ndarray,
    stride: Ints,
    padding: Padding,
    dilation: Ints,
    deformable_groups: int,
    groups: int,
) -> np.ndarray:
    """``a: [N, C, H, W], offset: [N, 2 D KH KW, P, Q], w: [O, C/groups, KH, KW] -> [N, O, P, Q]``.

    Offsets hold (y, x) of each tap for each of the D deformable groups; what lies outside of the data is 0.
    """
    kernel = w_np.shape[2:]
    strides, dilations = per_axis(stride, 2), per_axis(dilation, 2)
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    before = [sides[0] for sides in both_sides(padding, extent)]
    batch, channels = a_np.shape[:2]
    rows, columns = offset_np.shape[2:]
    moves = offset_np.reshape(batch, deformable_groups, *kernel, 2, rows, columns)
    each, made = channels // deformable_groups, w_np.shape[0] // groups
    result = np.zeros((batch, w_np.shape[0], rows, columns), a_np.dtype)
    for n, p, q in np.ndindex(batch, rows, columns):
        seen = np.zeros((channels, *kernel))
        for g, i, j in np.ndindex(deformable_groups, *kernel):
            down, right = moves[n, g, i, j, :, p, q]
            y = p * strides[0] - before[0] + i * dilations[0] + down
            x = q * strides[1] - before[1] + j * dilations[1] + right
            seen[g * each : (g + 1) * each, i, j] = bilinear(a_np[n, g * each : (g + 1) * each], y, x)
        for out in range(w_np.shape[0]):
            taken = channels // groups * (out // made)
            result[n, out, p, q] = (seen[taken : taken + channels // groups] * w_np[out]).sum()
    return result


def deformable_conv2d_nhwc_python(
    a_np: np.ndarray,
    offset_np: np.ndarray,
    w_np: np.ndarray,
    stride: Ints,
    padding: Padding,
    dilation: Ints,
    deformable_groups: int,
    groups: int,
) -> np.ndarray:
    """As :func:`deformable_conv2d_nchw_python` with channels last; ``w: [KH, KW, C/groups, O]``."""
    a, offset = a_np.transpose(0, 3, 1, 2), offset_np.transpose(0, 3, 1, 2)
    weight = w_np.transpose(3, 2, 0, 1)
    result = deformable_conv2d_nchw_python(a, offset, weight, stride, padding, dilation, deformable_groups, groups)
    return result.transpose(0, 2, 3, 1)


def correlation_nchw_python(
    data1: np.ndarray,
    data2: np.ndarray,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: Padding,
    is_multiply: bool,
) -> np.ndarray:
    """``data1, data2: [N, C, H, W] -> [N, D*D, P, Q]``: each patch of the one with those around it in the other.

    The mean over patch and channels of products, else of absolute differences. Dosovitskiy et al., "FlowNet" (2015).
    """
    sides = both_sides(padding, (1, 1))
    first, second = (np.pad(data, ((0, 0), (0, 0), *sides)).astype("float64") for data in (data1, data2))
    half, radius = (kernel_size - 1) // 2, max_displacement // stride2
    border = max_displacement + half
    outs = [-(-(size - 2 * border) // stride1) for size in first.shape[2:]]
    moves = [stride2 * k for k in range(-radius, radius + 1)]
    result = np.zeros((data1.shape[0], len(moves) ** 2, *outs), data1.dtype)
    for n, p, q in np.ndindex(data1.shape[0], *outs):
        top, left = p * stride1 + max_displacement, q * stride1 + max_displacement
        patch = first[n, :, top : top + kernel_size, left : left + kernel_size]
        for k, (down, right) in enumerate((d, r) for d in moves for r in moves):
            y, x = top + down, left + right
            other = second[n, :, y : y + kernel_size, x : x + kernel_size]
            found = patch * other if is_multiply else np.abs(patch - other)
            result[n, k, p, q] = found.sum() / (kernel_size**2 * data1.shape[1])
    return result
