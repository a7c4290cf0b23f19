"""Numpy kernels that put what they find at the front of tensors of a size that is known before."""

from __future__ import annotations

import numpy as np

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.registry import get_kernel, kernel


def _at_front(shape: tuple[int, ...], found: np.ndarray) -> np.ndarray:
    whole = np.zeros(shape, found.dtype)
    whole.reshape(-1)[: found.size] = found.reshape(-1)
    return whole


@kernel("dyn.leading_places")
def leading_places(condition: np.ndarray) -> tuple[np.ndarray, ...]:
    """The indices of the nonzero elements, one row each, and how many rows of what length there are."""
    found = np.argwhere(condition).astype("int32")
    return _at_front((condition.size, condition.ndim), found), np.array(found.shape, "int64")


@kernel("dyn.leading_order")
def leading_order(
    data: np.ndarray,
    k: np.ndarray,
    *,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
    every: bool = True,
) -> tuple[np.ndarray, ...]:
    """The first *k* in order along an axis, with *every* all for a *k* below 1, and the shape that they have.

    Raises KernelError for more than there are.
    """
    count, size = int(k.reshape(())), data.shape[axis]
    count = size if every and count < 1 else count
    if not 0 <= count <= size:
        raise KernelError(f"topk: k is {count}, axis {axis} has {size} elements")
    whole = get_kernel("topk")(data, k=size, axis=axis, ret_type=ret_type, is_ascend=is_ascend, dtype=dtype)
    first = np.arange(count)
    parts = [np.take(part, first, axis) for part in (whole if isinstance(whole, tuple) else (whole,))]
    return (*(_at_front(data.shape, part) for part in parts), np.array(parts[0].shape, "int64"))
