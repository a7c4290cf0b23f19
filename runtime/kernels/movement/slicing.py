"""Numpy kernels that pick elements by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from byoc.runtime.core.errors import OF_LENGTHS, KernelError, wrong_length
from byoc.runtime.kernels.core.registry import kernel


def _cut(start: int | None, end: int | None, step: int, size: bool) -> slice:
    if not size:
        return slice(start, end, step)
    first, count = start or 0, -1 if end is None else end
    return slice(first, None if count < 0 or (first < 0 <= first + count) else first + count)


@kernel("strided_slice")
def strided_slice(
    data: np.ndarray,
    *,
    begin: tuple[int, ...],
    end: tuple[int, ...],
    strides: tuple[int, ...] = (),
    slice_mode: str = "end",
    axes: tuple[int, ...] | None = None,
) -> np.ndarray:
    """A slice along each axis; in the mode ``size`` the ends are lengths, a negative one reaches to the end.

    Without *axes* the lists may have different lengths: a begin that is missing is 0, an end the size, a stride 1.
    """
    places = tuple(range(max(len(begin), len(end)))) if axes is None else axes
    steps = tuple(strides) * len(places) if len(strides) == 1 else (*strides, *(1,) * len(places))
    index = [slice(None)] * data.ndim
    for k, (place, step) in enumerate(zip(places, steps, strict=False)):
        start = begin[k] if k < len(begin) else (0 if step > 0 else None)
        index[place] = _cut(start, end[k] if k < len(end) else None, step, slice_mode == "size")
    return data[tuple(index)].copy()


@kernel("dyn.strided_slice")
def dyn_strided_slice(
    data: np.ndarray,
    begin: np.ndarray,
    end: np.ndarray,
    strides: np.ndarray,
    *,
    slice_mode: str = "end",
    axes: tuple[int, ...] | None = None,
    known: tuple[str, ...] = (),
) -> np.ndarray:
    """A slice along each axis whose numbers the inputs hold."""
    first, last, steps = (tuple(int(v) for v in a.reshape(-1)) for a in (begin, end, strides))
    return strided_slice(data, begin=first, end=last, strides=steps, slice_mode=slice_mode, axes=axes)


@kernel("slice_like")
def slice_like(data: np.ndarray, shape_like: np.ndarray, *, axes: tuple[int, ...] | None = None) -> np.ndarray:
    """The array cut to the size of another."""
    index = [slice(None)] * data.ndim
    for axis in axes or range(min(data.ndim, shape_like.ndim)):
        index[axis] = slice(0, shape_like.shape[axis % data.ndim])
    return data[tuple(index)].copy()


@kernel("take")
def take(
    data: np.ndarray, indices: np.ndarray, *, axis: int | None = None, batch_dims: int = 0, mode: str = "clip"
) -> np.ndarray:
    """The slices at positions along an axis; positions outside are clipped or wrapped."""
    how: Literal["wrap", "clip"] = "wrap" if mode == "wrap" else "clip"
    if axis is None or not batch_dims:
        return np.asarray(np.take(data, indices, axis, mode=how))
    place, batch = axis % data.ndim, batch_dims % indices.ndim if batch_dims < 0 else batch_dims
    _check_beside("take: data", data.shape, indices.shape, range(batch))
    size = data.shape[place]
    at = np.mod(indices, size) if how == "wrap" else np.clip(indices, 0, size - 1)
    result = np.empty((*data.shape[:place], *indices.shape[batch:], *data.shape[place + 1 :]), data.dtype)
    for where in np.ndindex(*data.shape[:batch]):
        result[where] = np.take(data[where], at[where], place - batch)
    return result


def _inside(indices: np.ndarray, size: int) -> np.ndarray:
    """Positions counted from the end where they are negative, moved into the dimension."""
    wide = indices.astype("int64")
    return np.clip(np.where(wide < 0, wide + size, wide), 0, max(size - 1, 0))


def _check_beside(what: str, counts: Sequence[int], sizes: Sequence[int], axes: Sequence[int]) -> None:
    """Raises the error for more elements along one of *axes* than there are beside."""
    for axis in axes:
        if counts[axis] > sizes[axis]:
            raise wrong_length(f"{what}{OF_LENGTHS}{axis}", counts[axis], sizes[axis])


@kernel("gather")
def gather(data: np.ndarray, indices: np.ndarray, *, axis: int) -> np.ndarray:
    """Along an axis, the element at the position that the indices hold at the same place."""
    place = axis % data.ndim
    grid: list[np.ndarray] = list(np.indices(indices.shape, sparse=True))
    grid[place] = _inside(indices, data.shape[place])
    _check_beside("gather: indices", indices.shape, data.shape, [k for k in range(data.ndim) if k != place])
    return np.asarray(data[tuple(grid)])


@kernel("gather_nd")
def gather_nd(
    data: np.ndarray, indices: np.ndarray, *, batch_dims: int = 0, index_rank: int | None = None
) -> np.ndarray:
    """The slices at positions whose coordinates stand along the first axis of the indices."""
    if batch_dims + indices.shape[0] > data.ndim:
        raise KernelError(f"gather_nd: {indices.shape[0]} coordinates for a tensor of rank {data.ndim}")
    at = [_inside(row, data.shape[batch_dims + k]) for k, row in enumerate(indices)]
    _check_beside("gather_nd: indices", indices.shape[1:], data.shape, range(batch_dims))
    batch = np.indices(indices.shape[1:], sparse=True)[:batch_dims]
    return np.asarray(data[(*batch, *at)])
