"""Numpy kernels that look at the bounds which inputs hold: of slices, pads and parts, and single numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.run_time.axes import chosen_axes

LARGEST = 2**62


def _numbers(array: np.ndarray) -> list[int]:
    return [int(v) for v in array.reshape(-1)]


def _equally_many(lists: Mapping[str, Sequence[int]], check: str) -> None:
    if len({len(values) for values in lists.values()}) > 1:
        listed = ", ".join(f"{name} {list(values)}" for name, values in lists.items())
        raise KernelError(f"{check}: {listed} must be equally many")


@kernel("dyn.slice_bounds")
def slice_bounds(
    data: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    axes: np.ndarray,
    steps: np.ndarray,
    *,
    check: str = "",
) -> np.ndarray:
    """``int64[3, rank]``: begin, end and stride for every axis, as a slice of Python takes them.

    A start before the data is its first element for a negative step too, as ONNX has it. Raises KernelError for a step
    of 0, for lists of different lengths, for an axis that is outside and for one that is given twice.
    """
    where = check or "slice"
    given = {n: _numbers(v) for n, v in (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps))}
    _equally_many(given, where)
    if 0 in given["steps"]:
        raise KernelError(f"{where}: a step of 0 does not move; give steps {given['steps']} without it")
    chosen_axes(axes, data.ndim, check=where, unique=True)
    bounds = np.zeros((3, data.ndim), "int64")
    bounds[1], bounds[2] = data.shape, 1
    for start, end, axis, step in zip(*given.values(), strict=True):
        size = data.shape[axis]
        first, last, _ = slice(start, end, step).indices(size)
        if step < 0:
            first, last = max(first, 0), last if last >= 0 else -size - 1
        bounds[:, axis % data.ndim] = first, last, max(min(step, LARGEST), -LARGEST)
    return bounds


@kernel("dyn.pad_bounds")
def pad_bounds(
    data: np.ndarray, pads: np.ndarray, axes: np.ndarray, *, mode: str = "constant", check: str = ""
) -> np.ndarray:
    """``int64[4, rank]``: begin and end of what stays of each axis, then how much is put before and behind.

    A side that cuts more than there is takes of the other's padding, where a constant is put. Raises KernelError for
    more than that, for a mode that lacks elements, and for axes as above.
    """
    where = check or "pad"
    given, places = _numbers(pads), _numbers(axes)
    if len(given) != 2 * len(places):
        raise KernelError(f"{where}: pads needs {2 * len(places)} numbers for {len(places)} axes, got {given}")
    chosen_axes(axes, data.ndim, check=where, unique=True)
    bounds = np.zeros((4, data.ndim), "int64")
    bounds[1] = data.shape
    for k, axis in enumerate(places):
        size, before, after = data.shape[axis], given[k], given[len(places) + k]
        if mode == "constant":
            lacking = max(-before - size, 0), max(-after - size, 0)
            before, after = before + lacking[0] - lacking[1], after + lacking[1] - lacking[0]
        kept = size + min(before, 0) + min(after, 0)
        if kept < 0 or size + before + after < 0:
            raise KernelError(f"{where}: pads cut {-before - after} elements of the {size} of dimension {axis}")
        most = max(before, after)
        if most > 0 and (kept < 1 if mode in ("edge", "wrap") else mode == "reflect" and most >= kept):
            raise KernelError(f"{where}: padding by {mode} needs more than the {kept} elements of dimension {axis}")
        bounds[:, axis % data.ndim] = max(-before, 0), size - max(-after, 0), max(before, 0), max(after, 0)
    return bounds


@kernel("dyn.split_bounds")
def split_bounds(data: np.ndarray, sizes: np.ndarray, *, axis: int = 0, check: str = "") -> np.ndarray:
    """Where the parts begin, and at last the size of the axis. Raises KernelError for parts that do not make it up."""
    parts, size = _numbers(sizes), data.shape[axis]
    if min(parts, default=0) < 0 or sum(parts) != size:
        raise KernelError(f"{check or 'split'}: the parts {parts} do not add up to the size {size} of axis {axis}")
    return np.cumsum([0, *parts]).astype("int64")


@kernel("dyn.check_numbers")
def check_numbers(value: np.ndarray, *, least: int = 0, check: str = "") -> np.ndarray:
    """The numbers as int64. Raises KernelError for one that is not whole, or less than *least*."""
    for number in value.reshape(-1).tolist():
        if not np.isfinite(number) or int(number) != number or number < least:
            raise KernelError(f"{check or 'a number'} is a whole number from {least} on, got {number}")
    return value.astype("int64")
