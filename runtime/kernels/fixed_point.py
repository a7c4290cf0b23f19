"""Numpy kernels of products with fixed-point numbers: in int64, rounded with halves up, shifted back."""

from __future__ import annotations

import numpy as np

from byoc.runtime.kernels.core.registry import kernel

FRACTION_BITS = 31


def _rounded(product: np.ndarray, bits: np.ndarray | np.int64, dtype: np.dtype) -> np.ndarray:
    half = np.left_shift(np.int64(1), bits - 1)
    return np.asarray(np.right_shift(product + half, bits)).astype(dtype)


@kernel("fixed_point_multiply")
def fixed_point_multiply(data: np.ndarray, *, multiplier: int, shift: int) -> np.ndarray:
    """``data * multiplier * 2**(shift - 31)``."""
    shifted = np.left_shift(data.astype(np.int64), max(shift, 0))
    return _rounded(shifted * np.int64(multiplier), np.int64(FRACTION_BITS + max(-shift, 0)), data.dtype)


@kernel("fixed_point_multiply_per_axis")
def fixed_point_multiply_per_axis(
    data: np.ndarray,
    multiplier: np.ndarray,
    lshift: np.ndarray,
    rshift: np.ndarray,
    *,
    is_lshift_required: bool,
    is_rshift_required: bool,
    axes: tuple[int, ...],
) -> np.ndarray:
    """The product of each element with the number that stands at its indices along *axes*."""
    places = [a % data.ndim for a in axes]
    order = sorted(range(len(places)), key=places.__getitem__)
    shape = [data.shape[k] if k in places else 1 for k in range(data.ndim)]

    def spread(part: np.ndarray) -> np.ndarray:
        return part.astype(np.int64).transpose(order).reshape(shape)

    value = data.astype(np.int64)
    if is_lshift_required:
        value = np.left_shift(value, spread(lshift))
    bits = np.int64(FRACTION_BITS) + (spread(rshift) if is_rshift_required else np.int64(0))
    return _rounded(value * spread(multiplier), bits, data.dtype)
