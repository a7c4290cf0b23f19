"""The sizes of slices, of numbers and of named sizes.

Bounds are clamped as Python does it, so that a slice outside of its axis is empty: ``x[1:]`` of N elements has
``max(0,N-1)``, and ``x[-3:]`` has ``min(3,N)``.
"""

from __future__ import annotations

import numpy as np

from byoc import te
from byoc.ir.size_var import greater, lesser, minus, parted, plus
from byoc.ir.types import Any, Dim

END = np.iinfo("int32").max  # an end from here on means: to the end of a dimension of any size


def covers(cut: slice) -> bool:
    """Whether *cut* takes all of a dimension of any size."""
    return cut.start == 0 and cut.step in (None, 1) and (cut.stop is None or cut.stop >= END)


def cut_dim(dim: Dim, cut: slice) -> Dim:
    """The size of a slice of *dim*."""
    if isinstance(dim, int):
        return len(range(*cut.indices(dim)))
    return dim if covers(cut) else _cut_size(dim, cut)


def _cut_size(dim: Any, cut: slice) -> Dim:
    """The size of a slice of a named size."""
    step = cut.step or 1
    begin, end = _bounds(dim, cut, step)
    whole = minus(end, begin) if step > 0 else minus(begin, end)
    return greater(parted(plus(whole, abs(step) - 1), abs(step)), 0)


def _bounds(dim: Any, cut: slice, step: int) -> tuple[Dim, Dim]:
    """Where a slice begins and ends, but for what is outside of the axis and makes it empty."""
    first, last = cut.start, cut.stop
    if step > 0:
        end = dim if last is None or last >= END else plus(dim, last) if last < 0 else lesser(dim, last)
        begin: Dim = 0 if first is None else first if first >= 0 else greater(plus(dim, first), 0)
        return begin, end
    top = plus(dim, -1)
    begin = top if first is None or first >= END else plus(dim, first) if first < 0 else lesser(top, first)
    before: Dim = -1 if last is None or last <= -END else last if last >= 0 else greater(plus(dim, last), -1)
    return begin, before


def first_place(size: te.PrimExpr, cut: slice) -> int | te.PrimExpr:
    """The first position of a slice of a size that is not known when compiling."""
    if (cut.step or 1) > 0:
        first = cut.start or 0
        return te.maximum(size + first, 0) if first < 0 else first
    if cut.start is None or cut.start >= END:
        return size - 1
    return size + cut.start if cut.start < 0 else te.minimum(size - 1, cut.start)
