"""Axes, paddings and dtypes as the numpy kernels of windows, products and norms need them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.runtime.core.errors import KernelError


def spatial_letters(n: int) -> str:
    """The letters of *n* spatial axes: ``W``, ``HW`` or ``DHW``."""
    return "DHW"[3 - n :]


def to_letters(array: np.ndarray, layout: str, letters: str) -> np.ndarray:
    """*array*, whose axes are named by *layout*, with its axes in the order of *letters* (a view).

    Raises KernelError when *layout* is not an order of these letters.
    """
    if sorted(layout) != sorted(letters) or array.ndim != len(letters):
        raise KernelError(f"an array of {array.ndim} axes has no layout {layout!r} with the letters of {letters}")
    return array.transpose([layout.index(letter) for letter in letters])


def merged_groups(kernel: np.ndarray, layout: str, along: str) -> tuple[np.ndarray, str]:
    """*kernel* whose first axis is that of the groups (``GOIHW``) with these in the axis *along*, and its layout then.

    Both as they are without such an axis.
    """
    if not layout.startswith("G"):
        return kernel, layout
    place = layout.index(along) - 1
    beside = np.moveaxis(kernel, 0, place)
    shape = beside.shape
    return beside.reshape(*shape[:place], shape[place] * shape[place + 1], *shape[place + 2 :]), layout[1:]


def from_letters(array: np.ndarray, letters: str, layout: str) -> np.ndarray:
    """The inverse of :func:`to_letters`, contiguous."""
    return np.asarray(array.transpose([letters.index(letter) for letter in layout]), order="C")


def per_axis(value: int | Sequence[int], n: int) -> tuple[int, ...]:
    """One number for each of *n* axes; a single number stands for all."""
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * n if len(numbers) == 1 else numbers


def pad_pairs(padding: int | Sequence[int], n: int) -> tuple[tuple[int, int], ...]:
    """``(before, after)`` of each axis, from 1, *n* or ``2 n`` numbers (all before, then all after)."""
    numbers = (padding,) if isinstance(padding, int) else tuple(padding)
    if len(numbers) == 1:
        numbers = numbers * n
    if len(numbers) == n:
        numbers = numbers * 2
    return tuple(zip(numbers[:n], numbers[n:], strict=True))


def lowest(dtype: np.dtype) -> float | int:
    """The least value of *dtype*."""
    return int(np.iinfo(dtype).min) if dtype.kind in "iu" else -np.inf


def wide(array: np.ndarray) -> np.ndarray:
    """*array* in the dtype in which sums over it are made: float32 for float16, itself otherwise."""
    return array.astype(np.float32) if array.dtype == np.float16 else array


def along(vector: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    """*vector* of shape ``[C]`` shaped to broadcast along *axis* of an array of *ndim* axes."""
    return vector.reshape([-1 if k == axis % ndim else 1 for k in range(ndim)])
