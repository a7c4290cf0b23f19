"""Numpy kernels of copies in which some elements are replaced."""

from __future__ import annotations

import numpy as np

from byoc.runtime.kernels.core.registry import kernel


@kernel("sequence_mask")
def sequence_mask(data: np.ndarray, valid_length: np.ndarray, *, mask_value: float = 0.0, axis: int = 0) -> np.ndarray:
    """*mask_value* where the place along *axis* is not below the length of its sequence."""
    steps = np.arange(data.shape[axis])
    beyond = steps[:, None] >= valid_length[None, :] if axis == 0 else steps[None, :] >= valid_length[:, None]
    shape = (*beyond.shape, *(1,) * (data.ndim - 2))
    return np.where(beyond.reshape(shape), np.asarray(mask_value).astype(data.dtype), data)


@kernel("strided_set")
def strided_set(data: np.ndarray, v: np.ndarray, begin: np.ndarray, end: np.ndarray, strides: np.ndarray) -> np.ndarray:
    """The slice of the first axes replaced; strides that are not given are 1."""
    steps = [int(s) for s in strides] + [1] * (len(begin) - len(strides))
    where = []
    for size, first, last, step in zip(data.shape, begin, end, steps, strict=False):
        before_first = step < 0 and last < -size  # such an end means: through the first element
        where.append(slice(int(first), None if before_first else int(last), step))
    out = data.copy()
    out[tuple(where)] = v
    return out


@kernel("matrix_set_diag")
def matrix_set_diag(
    data: np.ndarray,
    diagonal: np.ndarray,
    *,
    k1: int = 0,
    k2: int = 0,
    super_diag_right_align: bool = True,
    sub_diag_right_align: bool = False,
) -> np.ndarray:
    """Diagonals *k1* to *k2* of the last two axes replaced, the highest one first."""
    out = data.copy()
    rows, columns = data.shape[-2:]
    longest = diagonal.shape[-1]
    for k in range(k1, k2 + 1):
        length = min(rows + min(k, 0), columns - max(k, 0))
        source = diagonal if k1 == k2 else diagonal[..., k2 - k, :]
        right = super_diag_right_align if k >= 0 else sub_diag_right_align
        start = longest - length if right else 0
        at = np.arange(length)
        out[..., at + max(-k, 0), at + max(k, 0)] = source[..., start : start + length]
    return out


@kernel("nn.fifo_buffer")
def fifo_buffer(data: np.ndarray, buffer: np.ndarray, *, axis: int = 0) -> np.ndarray:
    """The buffer without its first elements, and then the data."""
    kept = np.take(buffer, np.arange(data.shape[axis], buffer.shape[axis]), axis)
    return np.concatenate([kept, data], axis)
