"""Numpy kernels that write elements at positions."""

from __future__ import annotations

import numpy as np

from byoc.runtime.core.errors import OF_LENGTHS, KernelError, wrong_index, wrong_length
from byoc.runtime.kernels.core.registry import kernel

IndexArrays = tuple[np.ndarray, ...]
_UFUNCS: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def _write(data: np.ndarray, index: IndexArrays, updates: np.ndarray, reduction: str) -> np.ndarray:
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


def _from_front(indices: np.ndarray, size: int, where: str) -> np.ndarray:
    """The positions of *indices*. Raises IndexOutsideError, which begins with *where*."""
    wide = indices.astype("int64")
    below, above = wide[wide < -size], wide[wide >= size]
    if below.size or above.size:
        raise wrong_index(where, int((below if below.size else above).max()), size)  # as native code reports it
    return np.where(wide < 0, wide + size, wide)


@kernel("scatter_elements")
def scatter_elements(
    data: np.ndarray, indices: np.ndarray, updates: np.ndarray, *, axis: int = 0, reduction: str = "update"
) -> np.ndarray:
    """Each update written, along an axis, at the position that the indices hold."""
    place = axis % data.ndim
    grid: list[np.ndarray] = list(np.indices(indices.shape, sparse=True))
    grid[place] = _from_front(indices, data.shape[place], f"scatter_elements along axis {place}")
    for axis, (count, size) in enumerate(zip(indices.shape, data.shape, strict=True)):
        if axis != place and count > size:
            raise wrong_length(f"scatter_elements{OF_LENGTHS}{axis}", count, size)
    return _write(data, tuple(grid), updates, reduction)


@kernel("scatter_nd")
def scatter_nd(data: np.ndarray, indices: np.ndarray, updates: np.ndarray, *, mode: str = "update") -> np.ndarray:
    """Each update written at the coordinates along the first axis of the indices."""
    index = tuple(_from_front(row, data.shape[k], f"scatter_nd along axis {k}") for k, row in enumerate(indices))
    expected = indices.shape[1:] + data.shape[len(indices) :]
    if updates.shape != expected:
        raise KernelError(f"scatter_nd: the updates have the shape {updates.shape}, the indices say {expected}")
    return _write(data, index, updates, mode)
