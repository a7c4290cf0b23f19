"""Numpy kernels that make arrays from shapes, broadcast them, and ask for shapes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.runtime.core.errors import KernelError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.kernels.core.broadcasting import broadcasting
from byoc.runtime.kernels.core.registry import kernel


def _ints(vector: np.ndarray) -> tuple[int, ...]:
    return tuple(int(v) for v in vector.reshape(-1))


def _register_filled(name: str, value: int) -> None:
    def filled(*, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return np.full(shape, value, numpy_dtype(dtype))

    def dyn_filled(shape: np.ndarray, *, dtype: str) -> np.ndarray:
        return np.full(_ints(shape), value, numpy_dtype(dtype))

    kernel(name)(filled)
    kernel(f"dyn.{name}")(dyn_filled)
    kernel(f"{name}_like")(_filler(value))


def _filler(value: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda data: np.full(data.shape, value, data.dtype)


_register_filled("zeros", 0)
_register_filled("ones", 1)


def _fill(shape: tuple[int, ...], value: np.ndarray, dtype: str) -> np.ndarray:
    scalar = value.reshape(())
    return np.full(shape, scalar.astype(numpy_dtype(dtype)) if dtype else scalar)


@kernel("full")
def full(fill_value: np.ndarray, *, shape: tuple[int, ...], dtype: str = "") -> np.ndarray:
    """An array whose every element is one scalar."""
    return _fill(shape, fill_value, dtype)


@kernel("dyn.full")
def dyn_full(fill_value: np.ndarray, shape: np.ndarray, *, dtype: str = "", known: tuple[str, ...] = ()) -> np.ndarray:
    """An array of a shape that an input holds, whose every element is one scalar."""
    return _fill(_ints(shape), fill_value, dtype)


@kernel("full_like")
def full_like(data: np.ndarray, fill_value: np.ndarray) -> np.ndarray:
    """An array like another, whose every element is one scalar."""
    return np.full(data.shape, fill_value.reshape(()).astype(data.dtype))


@kernel("arange")
def arange(
    start: np.ndarray, stop: np.ndarray, step: np.ndarray, *, dtype: str, known: tuple[str, ...] = ()
) -> np.ndarray:
    """Evenly spaced numbers in [start, stop)."""
    first, last, by = (x.reshape(()).item() for x in (start, stop, step))
    span = (last - first) / by if by else np.nan
    if not np.isfinite(span):
        raise KernelError(f"arange: from {first} to {last} by {by} are not finitely many numbers")
    count = max(0, int(np.ceil(span)))
    target = numpy_dtype(dtype)
    result: np.ndarray = target.type(first) + np.arange(count).astype(target) * target.type(by)
    return result


def _one_hot(
    indices: np.ndarray, on_value: np.ndarray, off_value: np.ndarray, depth: int, axis: int, dtype: str
) -> np.ndarray:
    place = axis % (indices.ndim + 1)
    steps = np.arange(depth).reshape([-1 if k == place else 1 for k in range(indices.ndim + 1)])
    hit = np.expand_dims(indices, place) == steps
    return np.where(hit, on_value.reshape(()), off_value.reshape(())).astype(numpy_dtype(dtype))


@kernel("one_hot")
def one_hot(
    indices: np.ndarray, on_value: np.ndarray, off_value: np.ndarray, *, depth: int, axis: int, dtype: str
) -> np.ndarray:
    """For each index a vector of *off_value* with *on_value* at that place."""
    return _one_hot(indices, on_value, off_value, depth, axis, dtype)


@kernel("dyn.one_hot")
def dyn_one_hot(
    indices: np.ndarray, on_value: np.ndarray, off_value: np.ndarray, depth: np.ndarray, *, axis: int, dtype: str
) -> np.ndarray:
    """One-hot vectors of a depth that an input holds."""
    return _one_hot(indices, on_value, off_value, _ints(depth)[0], axis, dtype)


@kernel("shape_of")
def shape_of(data: np.ndarray, *, dtype: str) -> np.ndarray:
    """The shape as a vector."""
    return np.array(data.shape, numpy_dtype(dtype))


@kernel("ndarray_size")
def ndarray_size(data: np.ndarray, *, dtype: str) -> np.ndarray:
    """The number of elements as a scalar."""
    return np.array(data.size, numpy_dtype(dtype))


@kernel("where")
def where(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Elements of *x* where the condition holds, else of *y*."""
    with broadcasting("where", {"condition": condition, "x": x, "y": y}):
        return np.where(condition, x, y)


@kernel("broadcast_to")
def broadcast_to(data: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    """The array repeated along its dimensions of 1."""
    return np.broadcast_to(data, shape).copy()


@kernel("dyn.broadcast_to")
def dyn_broadcast_to(data: np.ndarray, shape: np.ndarray, *, known: tuple[str, ...] = ()) -> np.ndarray:
    """The array broadcast to a shape that an input holds."""
    return np.broadcast_to(data, _ints(shape)).copy()


@kernel("broadcast_to_like")
def broadcast_to_like(data: np.ndarray, broadcast_type: np.ndarray) -> np.ndarray:
    """The array broadcast to the shape of another."""
    return np.broadcast_to(data, broadcast_type.shape).copy()


@kernel("collapse_sum_to")
def collapse_sum_to(data: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    """The sum over the dimensions along which an array of *shape* would be broadcast."""
    lead = data.ndim - len(shape)
    axes = tuple(k for k in range(data.ndim) if k < lead or (shape[k - lead] == 1 and data.shape[k] != 1))
    result: np.ndarray = np.sum(data, axis=axes, dtype=data.dtype).reshape(shape)
    return result


@kernel("collapse_sum_like")
def collapse_sum_like(data: np.ndarray, collapse_type: np.ndarray) -> np.ndarray:
    """The array summed to the shape of another."""
    return collapse_sum_to(data, shape=collapse_type.shape)
