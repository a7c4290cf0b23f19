"""Numpy kernels that turn indices into positions, and refuse indices, lengths and conditions that do not fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.runtime.core.errors import OF_CONDITION, OF_LENGTHS, wrong_condition, wrong_index, wrong_length
from byoc.runtime.kernels.core.registry import kernel


@kernel("check_indices")
def check_indices(indices: np.ndarray, *, sizes: tuple[int, ...], axes: tuple[int, ...], check: str = "") -> np.ndarray:
    """Positions in dimensions of *sizes*; several are for the coordinates along the last axis.

    Raises IndexOutsideError for an index that is outside.
    """
    return _positions(indices, sizes, axes, check)


@kernel("check_indices_like")
def check_indices_like(indices: np.ndarray, data: np.ndarray, *, axes: tuple[int, ...], check: str = "") -> np.ndarray:
    """Positions in the dimensions *axes* of *data*. Raises IndexOutsideError for an index that is outside."""
    places = [axis % data.ndim for axis in axes]
    return _positions(indices, [data.shape[k] for k in places], places, check)


@kernel("check_lengths")
def check_lengths(lengths: np.ndarray, data: np.ndarray, *, axis: int, check: str = "") -> np.ndarray:
    """*lengths* as they are. Raises IndexOutsideError for one that is not from 0 to the size of *axis* of *data*."""
    axis %= data.ndim
    wrong = lengths[(lengths < 0) | (lengths > data.shape[axis])]
    if wrong.size:
        raise wrong_length(f"{check}{OF_LENGTHS}{axis}", int(wrong.max()), data.shape[axis])
    return lengths


@kernel("check_condition")
def check_condition(data: np.ndarray, condition: np.ndarray, *, wanted: bool, check: str = "") -> np.ndarray:
    """*data* as it is. Raises InputError where *condition* is not *wanted*."""
    if bool(condition) != wanted:
        raise wrong_condition(f"{check}{OF_CONDITION}{wanted}")
    return data


def _positions(indices: np.ndarray, sizes: Sequence[int], axes: Sequence[int], check: str) -> np.ndarray:
    for k, (size, axis) in enumerate(zip(sizes, axes, strict=True)):
        own = indices if len(sizes) == 1 else indices[..., k]
        below, above = own[own < -size], own[own >= size]
        if below.size or above.size:
            index = int((below if below.size else above).max())  # the one that native code reports, too
            where = f"{check} along axis {axis}" if check else f"axis {axis}"
            raise wrong_index(where, index, size)
    extents = np.asarray(sizes[0] if len(sizes) == 1 else sizes, "int64")
    return np.where(indices < 0, indices.astype("int64") + extents, indices).astype(indices.dtype)
