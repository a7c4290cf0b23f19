"""The sizes of slices, of numbers and of named sizes."""

from __future__ import annotations

import numpy as np

from byoc.ir.size_var import greater, lesser, parted, plus
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
    """The size of a slice of a named size, for which it is not negative; unknown for steps to the front."""
    first, step = cut.start or 0, cut.step or 1
    if step < 0:
        return Any()
    last = END if cut.stop is None else cut.stop
    end: Dim = dim if last >= END else plus(dim, last) if last < 0 else lesser(dim, last)
    if first < 0:
        begin: Dim = plus(dim, first)
        whole = lesser(dim, -first) if end == dim else Any()
    else:
        begin = first
        whole = plus(end, -begin)
        if last < END and begin:
            whole = greater(whole, 0)
    return whole if step == 1 else parted(plus(whole, step - 1), step)
