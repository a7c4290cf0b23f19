"""Sequences: lists of arrays, which are read and never changed. Source: ONNX's Sequence operators (opset 11).

The machine moves elements by the functions of lists here, which ask nothing of what an element is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from byoc.runtime.core.container import object_vector
from byoc.runtime.core.errors import InputError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.kernels.core.registry import kernel

T = TypeVar("T")


def inserted(sequence: Sequence[T], element: T, position: int | None = None) -> list[T]:
    """*sequence* with *element* before *position*. Raises InputError for a position outside."""
    place = len(sequence) if position is None else _place(position, len(sequence), len(sequence) + 1)
    return [*sequence[:place], element, *sequence[place:]]


def erased(sequence: Sequence[T], position: int | None = None) -> list[T]:
    """*sequence* without the element at *position*, the last where it is None. Raises InputError for one outside."""
    place = _place(-1 if position is None else position, len(sequence), len(sequence))
    return [*sequence[:place], *sequence[place + 1 :]]


def element_at(sequence: Sequence[T], position: int) -> T:
    """The element at *position*. Raises InputError for a position outside."""
    return sequence[_place(position, len(sequence), len(sequence))]


def _place(position: int, length: int, end: int) -> int:
    if not -length <= position < end:
        raise InputError(f"position {position} is outside of a sequence of {length} elements")
    return position + length if position < 0 else position


def joined(elements: Sequence[np.ndarray], axis: int, new_axis: bool, empty: Sequence[str]) -> np.ndarray:
    """*elements* along an axis, or a new one; *empty* is the dtype and the sizes where there is none.

    Raises InputError for elements that do not fit each other, and for none where nothing is known of them.
    """
    if not elements:
        if not empty:
            raise InputError("an empty sequence is joined, and the type of its elements is not known")
        shape = [int(d) for d in empty[1:]]
        whole = len(shape) + new_axis
        place = axis + whole if axis < 0 else axis
        shape = [*shape[:place], 0, *shape[place:]] if new_axis else [*shape[:place], 0, *shape[place + 1 :]]
        return np.zeros(shape, numpy_dtype(empty[0]))
    try:
        return np.stack(elements, axis) if new_axis else np.concatenate(elements, axis)
    except ValueError as error:
        shapes = ", ".join(str(list(e.shape)) for e in elements[:4])
        raise InputError(f"the elements do not join along axis {axis}: {shapes} ({error})") from error


def parts(data: np.ndarray, split: np.ndarray | None, axis: int, keepdims: bool) -> list[np.ndarray]:
    """*data* along *axis* in parts of size 1, of one size, or of sizes that are given.

    Raises InputError for sizes that do not fit.
    """
    size = data.shape[axis]
    if split is None:
        whole = np.split(data, size, axis) if size else []
        return [part if keepdims else np.squeeze(part, axis) for part in whole]
    if split.ndim == 0:
        if int(split) <= 0:
            raise InputError(f"parts of a split have a size above 0, got {int(split)}")
        return [data.take(range(k, min(k + int(split), size)), axis) for k in range(0, size, int(split))]
    sizes = [int(s) for s in split]
    if sum(sizes) != size or min(sizes, default=0) < 0:
        raise InputError(f"the parts {sizes} do not make up the {size} elements of axis {axis}")
    return np.split(data, np.cumsum(sizes)[:-1], axis) if sizes else []


def leading(data: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """The first elements of *data* as an array of *shape*, copied where that frees more than it takes.

    Raises InputError for a shape of more elements.
    """
    dims = tuple(map(int, shape))
    count = math.prod(dims)
    if min(dims, default=0) < 0 or count > data.size:
        raise InputError(f"a tensor of the shape {list(dims)} is asked for among {data.size} elements")
    found = data.reshape(-1)[:count].reshape(dims)
    return found.copy() if count < data.size // 2 else found


@kernel("sequence.leading")
def _leading(data: np.ndarray, shape: np.ndarray, *, axis: int = 0) -> np.ndarray:
    return leading(data, shape)


@kernel("sequence.unwrap")
def _unwrap(
    data: np.ndarray, *, shape: tuple[int, ...] = (), dtype: str = "float32", around: tuple[str, ...] = ()
) -> tuple[np.ndarray, ...]:
    return tuple(data)


@kernel("sequence.wrap")
def _wrap(sequence: Sequence[np.ndarray]) -> np.ndarray:
    return object_vector(sequence)


@kernel("sequence.any_rank")
def _any_rank(data: np.ndarray) -> tuple[np.ndarray, ...]:
    return (data,)


@kernel("sequence.empty")
def _empty() -> tuple[np.ndarray, ...]:
    return ()


@kernel("sequence.insert")
def _insert(sequence: Sequence[np.ndarray], element: np.ndarray, *position: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(inserted(sequence, element, *map(int, position)))


@kernel("sequence.erase")
def _erase(sequence: Sequence[np.ndarray], position: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(erased(sequence, int(position)))


@kernel("sequence.at")
def _at(sequence: Sequence[np.ndarray], position: np.ndarray) -> np.ndarray:
    return element_at(sequence, int(position))


@kernel("sequence.length")
def _length(sequence: Sequence[np.ndarray]) -> np.ndarray:
    return np.array(len(sequence), np.int64)


@kernel("sequence.concat")
def _concat(
    sequence: Sequence[np.ndarray], *, axis: int = 0, new_axis: bool = False, empty: tuple[str, ...] = ()
) -> np.ndarray:
    return joined(sequence, axis, new_axis, empty)


@kernel("sequence.split")
def _split(data: np.ndarray, *split: np.ndarray, axis: int = 0, keepdims: bool = True) -> tuple[np.ndarray, ...]:
    return tuple(parts(data, split[0] if split else None, axis, keepdims))
