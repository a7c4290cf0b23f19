"""Remainders of floats (``Mod`` with ``fmod``), which follow their dividend and step back to 0 at each multiple.

A remainder is no discrete value: between two multiples it has its dividend's noise. Near a multiple rounding may take
it from one end of its range to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np

WAYS = 4  # up, down, and to both sides of the multiple


def unbroken(base: Sequence[np.ndarray], moved: Sequence[np.ndarray]) -> np.ndarray:
    """The remainder of *moved* (dividend, divisor) by as many multiples as in *base*: what it is but for a step."""
    x, m = (v.astype("float64") for v in moved)
    with np.errstate(all="ignore"):
        multiples = np.trunc(base[0].astype("float64") / base[1].astype("float64"))
        found = x - multiples * m
        return np.where(np.isfinite(found), found, np.fmod(x, m)).astype(moved[0].dtype)


def moved_dividend(x: np.ndarray, m: np.ndarray, noise: float, name: str, turn: int) -> np.ndarray:
    """*x* moved by *noise* up or down, or to either side of a multiple of *m* that is as near.

    In as many turns as there are ways each element is moved in each.
    """
    wide, step = np.broadcast_arrays(x.astype("float64"), m.astype("float64"))
    first = np.random.default_rng(crc32(name.encode())).integers(0, WAYS, wide.shape)
    way = (first + turn) % WAYS
    with np.errstate(all="ignore"):
        edge = np.rint(wide / step) * step
        is_near = np.abs(wide - edge) <= noise
    far = wide + np.where(way % 2 == 0, noise, -noise)
    beside = edge + np.where(way == 2, 1e-3, -1e-3) * noise
    return np.where((way >= 2) & is_near, beside, far).astype(x.dtype)
