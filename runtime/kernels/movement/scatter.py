"""Numpy kernels that write elements at positions."""

from __future__ import annotations

import numpy as np

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.registry import kernel

Index = tuple[np.ndarray, ...]
_UFUNCS: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def _write(data: np.ndarray, index: Index, updates: np.ndarray, reduction: str) -> np.ndarray:
    """A copy of *data* with *updates* combined in at *index*; ``mean`` counts the element that was there."""
    result = data.copy()
    if reduction == "update":
        result[index] = updates
    elif reduction == "mean":
        count = np.ones(data.shape, data.dtype)
        np.add.at(result, index, updates)
        np.add.at(count, index, np.ones(updates.shape, data.dtype))
        result = (result // count if data.dtype.kind in "iu" else result / count).astype(data.dtype)
    else:
        _UFUNCS[reduction].at(result, index, updates)
    return result


def _from_front(indices: np.ndarray, size: int) -> np.ndarray:
    wide = indices.astype("int64")
    return np.where(wide < 0, wide + size, wide)


@kernel("scatter_elements")
def scatter_elements(
    data: np.ndarray, indices: np.ndarray, updates: np.ndarray, *, axis: int = 0, reduction: str = "update"
) -> np.ndarray:
    """Each update written, along an axis, at the position that the indices hold."""
    place = axis % data.ndim
    grid: list[np.ndarray] = list(np.indices(indices.shape, sparse=True))
    grid[place] = _from_front(indices, data.shape[place])
    return _write(data, tuple(grid), updates, reduction)


@kernel("scatter_nd")
def scatter_nd(data: np.ndarray, indices: np.ndarray, updates: np.ndarray, *, mode: str = "update") -> np.ndarray:
    """Each update written at the coordinates along the first axis of the indices."""
    index = tuple(_from_front(row, data.shape[k]) for k, row in enumerate(indices))
    expected = indices.shape[1:] + data.shape[len(indices) :]
    if updates.shape != expected:
        raise KernelError(f"scatter_nd: the updates have the shape {updates.shape}, the indices say {expected}")
    return _write(data, index, updates, mode)
