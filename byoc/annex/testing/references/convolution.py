"""Convolutions in numpy, from the definition: a window at each place, times the kernel, summed.

Sources: ``tvm.topi.testing``'s ``conv*_python`` and ``depthwise_conv2d_python`` for names and arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType

import numpy as np

from byoc.annex.testing.references.padding import Ints, Padding, both_sides, per_axis


def convolve(
    data: np.ndarray,
    weight: np.ndarray,
    strides: Ints,
    padding: Padding,
    dilation: Ints = 1,
    groups: int = 1,
) -> np.ndarray:
    """``data: [N, C, *S], weight: [O, C/groups, *K] -> [N, O, *P]``; float16 is summed in float32."""
    n = weight.ndim - 2
    strides, dilation = per_axis(strides, n), per_axis(dilation, n)
    extent = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
    wide = np.float32 if data.dtype == np.float16 else np.result_type(data, weight)
    padded = np.pad(data.astype(wide), ((0, 0), (0, 0), *both_sides(padding, extent)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, extent, axis=tuple(range(2, n + 2)))
    windows = windows[(slice(None), slice(None), *(slice(None, None, s) for s in strides))]
    apart: list[EllipsisType | slice] = [..., *(slice(None, None, d) for d in dilation)]
    windows = windows[tuple(apart)]
    taken, made = data.shape[1] // groups, weight.shape[0] // groups
    kernel_axes = tuple(range(n + 2, 2 * n + 2))
    parts = [
        np.tensordot(
            windows[:, g * taken : (g + 1) * taken],
            weight[g * made : (g + 1) * made].astype(wide),
            axes=((1, *kernel_axes), tuple(range(1, n + 2))),
        )
        for g in range(groups)
    ]
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, 1).astype(np.result_type(data, weight))


def conv1d_ncw_python(a_np: np.ndarray, w_np: np.ndarray, stride: Ints, padding: Padding, dilation: Ints) -> np.ndarray:
    """``a: [N, C, W], w: [O, C, K] -> [N, O, P]``."""
    return convolve(a_np, w_np, stride, padding, dilation)


def group_conv1d_ncw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Ints, padding: Padding, dilation: Ints, groups: int
) -> np.ndarray:
    """``a: [N, C, W], w: [O, C/groups, K] -> [N, O, P]``."""
    return convolve(a_np, w_np, stride, padding, dilation, groups)


def conv2d_nchw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Ints, padding: Padding, groups: int = 1
) -> np.ndarray:
    """``a: [N, C, H, W], w: [O, C/groups, R, S] -> [N, O, P, Q]``."""
    return convolve(a_np, w_np, stride, padding, groups=groups)


def conv2d_nhwc_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Ints, padding: Padding, groups: int = 1
) -> np.ndarray:
    """``a: [N, H, W, C], w: [R, S, C/groups, O] -> [N, P, Q, O]``."""
    result = convolve(a_np.transpose(0, 3, 1, 2), w_np.transpose(3, 2, 0, 1), stride, padding, groups=groups)
    return result.transpose(0, 2, 3, 1)


def conv2d_hwcn_python(a_np: np.ndarray, w_np: np.ndarray, stride: Ints, padding: Padding) -> np.ndarray:
    """``a: [H, W, C, N], w: [R, S, C, O] -> [P, Q, O, N]``."""
    return convolve(a_np.transpose(3, 2, 0, 1), w_np.transpose(3, 2, 0, 1), stride, padding).transpose(2, 3, 1, 0)


def conv3d_ncdhw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Ints, padding: Padding, groups: int = 1
) -> np.ndarray:
    """``a: [N, C, D, H, W], w: [O, C/groups, T, R, S] -> [N, O, L, P, Q]``."""
    return convolve(a_np, w_np, stride, padding, groups=groups)


def conv3d_ndhwc_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Ints, padding: Padding, groups: int = 1
) -> np.ndarray:
    """``a: [N, D, H, W, C], w: [T, R, S, C/groups, O] -> [N, L, P, Q, O]``."""
    result = convolve(np.moveaxis(a_np, -1, 1), w_np.transpose(4, 3, 0, 1, 2), stride, padding, groups=groups)
    return np.moveaxis(result, 1, -1)


def depthwise_conv2d_python_nchw(
    input_np: np.ndarray, filter_np: np.ndarray, stride: Ints, padding: Padding
) -> np.ndarray:
    """``input: [N, C, H, W], filter: [C, M, R, S] -> [N, C*M, P, Q]``."""
    channels, multiplier, *kernel = filter_np.shape
    weight = filter_np.reshape(channels * multiplier, 1, *kernel)
    return convolve(input_np, weight, stride, padding, groups=channels)


def depthwise_conv2d_python_nhwc(
    input_np: np.ndarray, filter_np: np.ndarray, stride: Ints, padding: Padding
) -> np.ndarray:
    """``input: [N, H, W, C], filter: [R, S, C, M] -> [N, P, Q, C*M]``."""
    result = depthwise_conv2d_python_nchw(
        input_np.transpose(0, 3, 1, 2), filter_np.transpose(2, 3, 0, 1), stride, padding
    )
    return result.transpose(0, 2, 3, 1)


def dilate_python(
    input_np: np.ndarray, strides: Sequence[int], dilation_value: float = 0.0, out_dtype: str | None = None
) -> np.ndarray:
    """*input_np* with ``stride - 1`` numbers *dilation_value* between neighbours of each axis."""
    shape = [(size - 1) * stride + 1 for size, stride in zip(input_np.shape, strides, strict=True)]
    result = np.full(shape, dilation_value, dtype=out_dtype or input_np.dtype)
    result[tuple(slice(None, None, stride) for stride in strides)] = input_np
    return result


def conv2d_backward_weight_python(
    dy_np: np.ndarray,
    x_np: np.ndarray,
    kernel_size: Ints,
    stride: Ints,
    padding: Padding,
    groups: int = 1,
    channels: int | None = None,
) -> np.ndarray:
    """The gradient of a convolution by its kernel: ``dy: [N, O, P, Q], x: [N, C, H, W] -> [O, C, R, S]``."""
    kernel, strides = per_axis(kernel_size, 2), per_axis(stride, 2)
    padded = np.pad(x_np, ((0, 0), (0, 0), *both_sides(padding, kernel)))
    rows, columns = dy_np.shape[2:]
    taken, made = x_np.shape[1] // groups, dy_np.shape[1] // groups
    result = np.zeros((dy_np.shape[1], taken, *kernel), dy_np.dtype)
    for r, s in np.ndindex(*kernel):
        seen = padded[:, :, r : r + rows * strides[0] : strides[0], s : s + columns * strides[1] : strides[1]]
        for g in range(groups):
            part = dy_np[:, g * made : (g + 1) * made]
            found = np.einsum("nopq,ncpq->oc", part, seen[:, g * taken : (g + 1) * taken, :rows, :columns])
            result[g * made : (g + 1) * made, :, r, s] = found
    return result
