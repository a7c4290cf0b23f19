"""Memory for measurements: where it begins, and how often weights lie in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from byoc.runtime.core.ndarray import ALIGNMENT

MOST_COPIES = 16
ROTATED_BYTES = 2  # times the second cache: what copies of weights fill at least


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeros that begin at a cache line."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def copies_of(constants: Sequence[np.ndarray], caches: Mapping[int, int]) -> list[list[np.ndarray]]:
    """The constants as often as is needed for none to be in the near cache when its turn comes.

    Between two runs of a layer the weights of all the others pass through the caches. *caches* are bytes by level.
    """
    size = sum(a.nbytes for a in constants)
    near, far = caches.get(2, 1 << 20), caches.get(3, 0)
    target = ROTATED_BYTES * near if size <= near else max(far, ROTATED_BYTES * near)
    count = min(max(math.ceil(target / size), 1) + (size > near), MOST_COPIES) if size else 1
    return [list(constants), *([copy_of(a) for a in constants] for _ in range(count - 1))]


def copy_of(source: np.ndarray) -> np.ndarray:
    """The same numbers in memory of their own, which begins at a cache line."""
    copy = aligned(source.shape, source.dtype)
    copy[...] = source
    return copy
