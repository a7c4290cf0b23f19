"""Slices, gathers and the like in numpy. Source: ``tvm.topi.testing``'s references of the same names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from byoc.errors import UserError

Strides = int | Sequence[int | None] | None


def _slices(
    shape: Sequence[int], begin: Sequence[int | None], end: Sequence[int | None], strides: Strides, mode: str
) -> list[slice]:
    if mode not in ("end", "size"):
        raise UserError(f"slice_mode is end or size, got {mode!r}")
    steps = [] if strides is None else [strides] * len(shape) if isinstance(strides, int) else list(strides)
    result = []
    for axis in range(len(shape)):
        first = begin[axis] if axis < len(begin) else None
        last = end[axis] if axis < len(end) else None
        given = steps[axis] if axis < len(steps) else None
        step = 1 if given is None else given
        if mode == "size":
            step, first = 1, first or 0
            last = None if last is None or last < 0 else first + last
        elif step < 0 and last is not None and last < -shape[axis]:
            last = None  # before the first element
        result.append(slice(first, last, step))
    return result


def strided_slice_python(
    data: np.ndarray,
    begin: Sequence[int | None],
    end: Sequence[int | None],
    strides: Strides,
    slice_mode: str = "end",
    axes: Sequence[int] | None = None,
) -> np.ndarray:
    """*data* from *begin* up to *end* by *strides*; in the mode ``size``, *end* is how many are taken (-1: the rest).

    With *axes*, only those are sliced. Raises UserError for another mode.
    """
    if axes is None:
        return data[tuple(_slices(data.shape, begin, end, strides, slice_mode))]
    where = [slice(None)] * data.ndim
    chosen = _slices([data.shape[axis] for axis in axes], begin, end, strides, slice_mode)
    for axis, one in zip(axes, chosen, strict=True):
        where[axis] = one
    return data[tuple(where)]


def strided_set_python(
    data: np.ndarray, v: np.ndarray, begin: Sequence[int], end: Sequence[int], strides: Sequence[int]
) -> np.ndarray:
    """A copy of *data* with *v* in the slice."""
    result = data.copy()
    result[tuple(_slices(data.shape, begin, end, strides, "end"))] = v
    return result


def slice_axis_python(data: np.ndarray, axis: int, begin: int, end: int | None = None) -> np.ndarray:
    """*data* from *begin* up to *end* along *axis*."""
    where = [slice(None)] * data.ndim
    where[axis] = slice(begin, end)
    return data[tuple(where)]


def gather_python(data: np.ndarray, axis: int, indices: np.ndarray) -> np.ndarray:
    """The elements of *data* at *indices* along *axis*, both of one rank."""
    return np.take_along_axis(data, indices.astype(np.int64), axis)


def gather_nd_python(a_np: np.ndarray, indices_np: np.ndarray) -> np.ndarray:
    """The elements of *a_np* at ``indices: [K, *S]``, which has one row for each of the first K axes."""
    result: np.ndarray = a_np[tuple(indices_np.astype(np.int64))]
    return result


def one_hot(indices: np.ndarray, on_value: float, off_value: float, depth: int, axis: int, dtype: str) -> np.ndarray:
    """*on_value* where the new *axis* of size *depth* is the index, *off_value* elsewhere."""
    matches = np.expand_dims(indices, -1) == np.arange(depth)
    return np.moveaxis(np.where(matches, on_value, off_value).astype(dtype), -1, axis)


def sequence_mask(data: np.ndarray, valid_length: np.ndarray, mask_value: float, axis: int) -> np.ndarray:
    """*data* with *mask_value* from the valid length on; *axis* (0 or 1) is the sequence, the other the batch."""
    shape = [1] * data.ndim
    shape[axis] = data.shape[axis]
    steps = np.arange(data.shape[axis]).reshape(shape)
    shape[axis], shape[1 - axis] = 1, data.shape[1 - axis]
    return np.where(steps < valid_length.reshape(shape), data, np.asarray(mask_value, data.dtype))


def searchsorted_ref(sorted_sequence: np.ndarray, values: np.ndarray, right: bool, out_dtype: str) -> np.ndarray:
    """The places of *values* in the rows of *sorted_sequence*, which may also be a single row."""
    side: Literal["left", "right"] = "right" if right else "left"
    if sorted_sequence.ndim == 1:
        result: np.ndarray = np.searchsorted(sorted_sequence, values, side=side).astype(out_dtype)
        return result
    rows = zip(
        sorted_sequence.reshape(-1, sorted_sequence.shape[-1]), values.reshape(-1, values.shape[-1]), strict=True
    )
    found = [np.searchsorted(row, wanted, side=side) for row, wanted in rows]
    return np.stack(found).reshape(values.shape).astype(out_dtype)


def matrix_set_diag(
    input_np: np.ndarray, diagonal: np.ndarray, k: int | Sequence[int] = 0, align: str = "RIGHT_LEFT"
) -> np.ndarray:
    """A copy of ``input: [*, R, C]`` whose diagonals *k* (one, or from the lowest to the highest) are *diagonal*.

    Several diagonals are rows, the highest first, shorter ones aligned for super- and subdiagonals as *align* says.
    """
    low, high = (k, k) if isinstance(k, int) else (k[0], k[-1])
    rows, columns = input_np.shape[-2:]
    band = diagonal if low != high else np.expand_dims(diagonal, -2)
    upper, lower = align.split("_")
    result = input_np.copy()
    for index, offset in enumerate(range(high, low - 1, -1)):
        length = min(rows + min(offset, 0), columns - max(offset, 0))
        start = band.shape[-1] - length if (upper if offset >= 0 else lower) == "RIGHT" else 0
        i = np.arange(length)
        result[..., i + max(-offset, 0), i + max(offset, 0)] = band[..., index, start : start + length]
    return result
