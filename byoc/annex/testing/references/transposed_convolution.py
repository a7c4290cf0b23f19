"""Transposed convolutions in numpy: each input number times the kernel, added up where they fall.

Sources: ``tvm.topi.testing``'s ``conv*_transpose*_python`` for names and arguments.
"""

from __future__ import annotations

import numpy as np

from byoc.annex.testing.references.padding import Ints, Padding, both_sides, per_axis
from byoc.errors import UserError


def convolve_transposed(
    data: np.ndarray, weight: np.ndarray, strides: Ints, padding: Padding, output_padding: Ints = 0, groups: int = 1
) -> np.ndarray:
    """``data: [N, C, *S], weight: [C, O/groups, *K] -> [N, O, *P]``; *output_padding* adds places at the end."""
    n = weight.ndim - 2
    kernel, strides, extra = weight.shape[2:], per_axis(strides, n), per_axis(output_padding, n)
    if any(e >= s for e, s in zip(extra, strides, strict=True)):
        raise UserError(f"output padding {extra} must be smaller than the strides {strides}")
    sides = both_sides(padding, kernel)
    full = [(size - 1) * s + k + e for size, s, k, e in zip(data.shape[2:], strides, kernel, extra, strict=True)]
    made, taken = weight.shape[1], data.shape[1] // groups
    result = np.zeros((data.shape[0], made * groups, *full), np.result_type(data, weight))
    for place in np.ndindex(*kernel):
        where = tuple(
            slice(p, p + (size - 1) * s + 1, s) for p, size, s in zip(place, data.shape[2:], strides, strict=True)
        )
        for g in range(groups):
            part = np.einsum(
                "nc...,co->no...",
                data[:, g * taken : (g + 1) * taken],
                weight[(slice(g * taken, (g + 1) * taken), slice(None), *place)],
            )
            result[(slice(None), slice(g * made, (g + 1) * made), *where)] += part
    cut = tuple(slice(before, size - after) for (before, after), size in zip(sides, full, strict=True))
    return result[(slice(None), slice(None), *cut)]


def conv1d_transpose_ncw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Ints, padding: Padding, output_padding: Ints
) -> np.ndarray:
    """``a: [N, C, W], w: [C, O, K] -> [N, O, P]``."""
    return convolve_transposed(a_np, w_np, stride, padding, output_padding)


def group_conv1d_transpose_ncw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Ints, padding: Padding, output_padding: Ints, groups: int = 1
) -> np.ndarray:
    """``a: [N, C, W], w: [C, O/groups, K] -> [N, O, P]``."""
    return convolve_transposed(a_np, w_np, stride, padding, output_padding, groups)


def conv2d_transpose_nchw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Ints, padding: Padding, output_padding: Ints, groups: int = 1
) -> np.ndarray:
    """``a: [N, C, H, W], w: [C, O/groups, R, S] -> [N, O, P, Q]``."""
    return convolve_transposed(a_np, w_np, stride, padding, output_padding, groups)


def conv2d_transpose_nhwc_python(
    a_nhwc: np.ndarray,
    weight: np.ndarray,
    weight_format: str,
    stride: Ints,
    padding: Padding,
    output_padding: Ints = (0, 0),
) -> np.ndarray:
    """``a: [N, H, W, C] -> [N, P, Q, O]``; *weight_format* says the axes of *weight*, such as ``HWIO``.

    Raises UserError for a format that is not of the letters H, W, I and O.
    """
    if sorted(weight_format) != ["H", "I", "O", "W"]:
        raise UserError(f"a format of weights has the letters H, W, I and O, got {weight_format!r}")
    kernel = weight.transpose([weight_format.index(axis) for axis in "IOHW"])
    return convolve_transposed(a_nhwc.transpose(0, 3, 1, 2), kernel, stride, padding, output_padding).transpose(
        0, 2, 3, 1
    )


def conv3d_transpose_ncdhw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Ints, padding: Padding, output_padding: Ints
) -> np.ndarray:
    """``a: [N, C, D, H, W], w: [C, O, T, R, S] -> [N, O, L, P, Q]``."""
    return convolve_transposed(a_np, w_np, stride, padding, output_padding)
