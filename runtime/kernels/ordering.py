"""Numpy kernels that sort, rank, accumulate and find; equal elements keep their order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.runtime.core.errors import KernelError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.kernels.core.registry import Arrays, kernel


def _order(data: np.ndarray, axis: int, ascend: bool) -> np.ndarray:
    """The stable order, a NaN last; descending is the ascending order of the reversed array, read backwards."""
    if data.dtype.isbuiltin != 1:  # the order of ml_dtypes is none where there is a NaN
        data = data.astype("float32")
    if ascend:
        return np.argsort(data, axis, kind="stable")
    backwards = np.argsort(np.flip(data, axis), axis, kind="stable")
    return np.flip(data.shape[axis] - 1 - backwards, axis)


@kernel("argsort")
def argsort(data: np.ndarray, *, axis: int = -1, is_ascend: bool = True, dtype: str = "int32") -> np.ndarray:
    """The positions that sort the array along an axis."""
    return _order(data, axis, is_ascend).astype(numpy_dtype(dtype))


@kernel("sort")
def sort(data: np.ndarray, *, axis: int = -1, is_ascend: bool = True) -> np.ndarray:
    """The array sorted along an axis."""
    return np.take_along_axis(data, _order(data, axis, is_ascend), axis)


def _topk(data: np.ndarray, k: int, axis: int, ret_type: str, ascend: bool, dtype: str) -> Arrays:
    size = data.shape[axis]
    order = np.take(_order(data, axis, ascend), np.arange(min(k, size) if k >= 1 else size), axis)
    values, indices = np.take_along_axis(data, order, axis), order.astype(numpy_dtype(dtype))
    results: dict[str, Arrays] = {"both": (values, indices), "values": values, "indices": indices}
    return results[ret_type]


@kernel("topk")
def topk(
    data: np.ndarray,
    *,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Arrays:
    """The *k* greatest or least elements along an axis and their positions."""
    return _topk(data, k, axis, ret_type, is_ascend, dtype)


@kernel("dyn.topk")
def dyn_topk(
    data: np.ndarray,
    k: np.ndarray,
    *,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Arrays:
    """The greatest or least elements along an axis, as many as an input says; KernelError for more than there are."""
    if int(k.reshape(())) > data.shape[axis]:
        raise KernelError(f"topk: k is {int(k.reshape(()))}, axis {axis} has {data.shape[axis]} elements")
    return _topk(data, int(k.reshape(())), axis, ret_type, is_ascend, dtype)


def _register_scan(name: str, scan: Callable[..., np.ndarray], neutral: int) -> None:
    def run(data: np.ndarray, *, axis: int | None = None, dtype: str = "", exclusive: bool = False) -> np.ndarray:
        rows = data.reshape(-1) if axis is None else data
        place = 0 if axis is None else axis % data.ndim
        target = numpy_dtype(dtype) if dtype else data.dtype
        total = scan(rows, axis=place, dtype=target)
        if not exclusive:
            return total
        first = np.full_like(np.take(total, [0][: rows.shape[place]], place), neutral)
        return np.concatenate([first, np.take(total, np.arange(max(rows.shape[place] - 1, 0)), place)], place)

    kernel(name)(run)


_register_scan("cumsum", np.cumsum, 0)
_register_scan("cumprod", np.cumprod, 1)


def _distinct(data: np.ndarray, sorted: bool, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where each distinct slice stands first, which one each slice is, and how many are equal."""
    keys = data.astype(np.float32) if data.dtype.itemsize == 2 and data.dtype.kind not in "iu" else data
    _, first, inverse, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first, kind="stable")
        rank = np.argsort(order, kind="stable")
        first, inverse, counts = first[order], rank[inverse], counts[order]
    return first, inverse, counts


@kernel("unique")
def unique(data: np.ndarray, *, sorted: bool = True, return_counts: bool = False) -> tuple[np.ndarray, ...]:
    """Distinct elements, where each stands first, which one each element is, their number, and counts."""
    first, *others = (found.astype("int32") for found in _distinct(data, sorted, 0))
    found = (data[first], first, others[0], np.array([len(first)], "int32"))
    return (*found, others[1]) if return_counts else found


@kernel("unique_slices")
def unique_slices(data: np.ndarray, *, axis: int = 0, sorted: bool = True) -> tuple[np.ndarray, ...]:
    """Distinct slices, where each stands first, which one each slice is, and counts."""
    first, inverse, counts = (found.astype("int64") for found in _distinct(data, sorted, axis))
    return data.take(first, axis), first, inverse, counts


@kernel("argwhere")
def argwhere(condition: np.ndarray) -> np.ndarray:
    """The indices of the nonzero elements, one row each."""
    return np.argwhere(condition).astype("int32")


@kernel("trilu")
def trilu(data: np.ndarray, k: np.ndarray, *, upper: bool = True) -> np.ndarray:
    """A triangle of the last two axes, from diagonal *k*."""
    return (np.triu if upper else np.tril)(data, int(k.reshape(())))
