"""Windows over images: their sizes for each axis, and the padding before and behind it."""

from __future__ import annotations

from typing import Any

CANONICAL = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def per_axis(numbers: Any, n: int) -> list[int]:
    """One number for each of *n* axes, of one or *n*."""
    found = [int(v) for v in (numbers if isinstance(numbers, (list, tuple)) else [numbers])]
    return found * n if len(found) == 1 else found


def pads_of(padding: Any, n: int) -> list[tuple[int, int]]:
    """Before and behind each axis, of 1, *n* or 2 *n* numbers."""
    found = per_axis(padding, n)
    found = found * 2 if len(found) == n else found
    return list(zip(found[:n], found[n:], strict=True))
