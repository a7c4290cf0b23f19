"""Numpy kernels of operators on positions."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.core.window import window_count


@kernel("unravel_index")
def unravel_index(indices: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """The coordinates of row-major positions, one row an axis; a position outside wraps around."""
    rows, rest = [], indices
    for size in shape[::-1]:
        rows.append(rest % size)
        rest = rest // size
    return np.stack(rows[::-1]).astype(indices.dtype)


@kernel("searchsorted")
def searchsorted(
    sorted_sequence: np.ndarray, values: np.ndarray, *, right: bool = False, dtype: str = "int32"
) -> np.ndarray:
    """The places of values in a sorted sequence, or in the sequence of their row."""
    side: Literal["left", "right"] = "right" if right else "left"
    if sorted_sequence.ndim == 1:
        result: np.ndarray = np.searchsorted(sorted_sequence, values, side).astype(dtype)
        return result
    out = np.empty(values.shape, dtype)
    for row in np.ndindex(sorted_sequence.shape[:-1]):
        out[row] = np.searchsorted(sorted_sequence[row], values[row], side)
    return out


@kernel("adv_index")
def adv_index(inputs: list[np.ndarray]) -> np.ndarray:
    """The elements at positions along the first axes."""
    data, *indices = inputs
    return np.asarray(data[tuple(indices)])


@kernel("invert_permutation")
def invert_permutation(data: np.ndarray) -> np.ndarray:
    """``y[x[i]] = i``. Raises KernelError where an index is missing, since its element would be nobody's."""
    missing = np.setdiff1d(np.arange(len(data)), data)
    if missing.size:
        raise KernelError(f"invert_permutation takes each index below {len(data)} once, and {missing[0]} is missing")
    out = np.empty_like(data)
    out[data] = np.arange(len(data), dtype=data.dtype)
    return out


@kernel("sliding_window")
def sliding_window(
    data: np.ndarray, *, axis: int = 0, window_shape: tuple[int, ...], strides: tuple[int, ...]
) -> np.ndarray:
    """Every window over the axes from *axis* on. Raises KernelError for one that does not fit."""
    first = axis % data.ndim
    for size, window, stride in zip(data.shape[first:], window_shape, strides, strict=True):
        window_count(size, window, stride, 1, (0, 0))
    view = sliding_window_view(data, window_shape, axis=tuple(range(first, data.ndim)))
    steps = (slice(None),) * first + tuple(slice(None, None, s) for s in strides)
    return np.asarray(view[steps], order="C")
