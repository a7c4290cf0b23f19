"""In which order of its elements one array agrees with another: hosts choose layouts, and flatten in them.

A value of channels innermost, or in blocks of channels, that is flattened (and whose reader's weights are permuted
alike) has the shape that the model says and another order. Such orders exchange two neighbouring groups of axes:
``[A, B, C, D] -> [A, C, B, D]`` is NCHW to NHWC (``D`` = 1), NCHW to NCHWc, NHWC to NCHWc, NCHW8c to NCHW16c. All
factorings of the size are tried, on a sample of the elements first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from byoc.testing.core.difference import errors

Leaves = Callable[[np.ndarray, np.ndarray], str | None]
SAMPLE = 64
TRIED = 8
UNLIKE_DB = 6.0  # below that two arrays have little in common place by place


def exchanged(array: np.ndarray, like: np.ndarray, leaves: Leaves) -> np.ndarray | None:
    """*array* with two groups of axes exchanged, so that it agrees with *like* by *leaves*; None where none does.

    Both have as many elements; what is given has the shape of *like*.
    """
    flat, wanted = array.reshape(-1), like.reshape(-1)
    if not _same_numbers(flat, wanted, leaves):
        return None
    factors = _factorings(flat.size)
    at = np.unique(np.linspace(0, flat.size - 1, SAMPLE).astype(np.int64))
    at = np.union1d(at, np.argsort(wanted.astype("float64"), kind="stable")[-SAMPLE:])
    _, b, c, d = (column[:, None] for column in factors.T)
    rest, last = np.divmod(at[None, :], d)
    rest, second = np.divmod(rest, b)
    first, third = np.divmod(rest, c)
    source = ((first * b + second) * c + third) * d + last
    noise = np.square(flat[source].astype("float64") - wanted[at].astype("float64")[None, :]).sum(axis=1)
    for k in np.argsort(noise, kind="stable")[:TRIED]:
        found = flat.reshape(tuple(factors[k])).swapaxes(1, 2).reshape(like.shape)
        if leaves(found, like) is None:
            return found
    return None


def is_reordered(array: np.ndarray, like: np.ndarray, leaves: Leaves) -> bool:
    """Whether two arrays have the same numbers, and little in common place by place: another order, whichever it is."""
    return _same_numbers(array.reshape(-1), like.reshape(-1), leaves) and (
        array.shape != like.shape or errors(array, like).snr_db < UNLIKE_DB
    )


def _same_numbers(flat: np.ndarray, wanted: np.ndarray, leaves: Leaves) -> bool:
    """Whether the sorted numbers agree: if an order of them does, these do too, for sorting brings none further off."""
    if flat.size != wanted.size or flat.dtype != wanted.dtype or flat.dtype.kind not in "fiu" or not flat.size:
        return False
    return leaves(np.sort(flat), np.sort(wanted)) is None


@functools.lru_cache(maxsize=64)
def _factorings(size: int) -> np.ndarray:
    """Rows ``A, B, C, D`` whose product is *size*, where neither B nor C is 1: ``i64[count, 4]``."""
    divisors = [k for k in range(1, int(size**0.5) + 1) if size % k == 0]
    divisors = sorted({*divisors, *(size // k for k in divisors)})
    rows = [
        (a, b, c, size // (a * b * c))
        for a in divisors
        for b in divisors
        if b > 1 and (size // a) % b == 0 and size % a == 0
        for c in divisors
        if c > 1 and (size // a // b) % c == 0
    ]
    return np.array(rows, np.int64).reshape(-1, 4)
