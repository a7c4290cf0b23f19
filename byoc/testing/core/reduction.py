"""Delta debugging: something that fails, made smaller as long as it fails. Source: Zeller and Hildebrandt, 2002.

What a case is, how it gets smaller and what failing means are the caller's: cases of ``byoc.testing`` are functions of
the graph language, those of the fuzzer are ONNX models.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from byoc.testing.core.difference import is_float

T = TypeVar("T")
Shrink = Callable[[T], Iterator[T]]
SMALL = 4  # elements below which numbers are made simple one by one


def reduce(
    case: T,
    shrinks: Sequence[Shrink[T]],
    fails: Callable[[T], bool],
    deadline: float,
    ends: type[Exception] | tuple[type[Exception], ...] = (),
) -> T:
    """The smallest case that is found before *deadline*, and of which *fails* is true, as it is of *case*.

    Args:
        case: what fails.
        shrinks: functions that propose smaller cases from one, the ones that save most first.
        fails: whether a candidate still fails in the same way.
        deadline: of ``time.monotonic()``.
        ends: errors of a function in *shrinks* after which it has nothing more to propose.
    """
    changed = True
    while changed and time.monotonic() < deadline:
        changed = False
        for shrink in shrinks:
            again = True
            while again and time.monotonic() < deadline:
                again = False
                for candidate in _candidates(shrink, case, ends):
                    if fails(candidate):
                        case, again, changed = candidate, True, True
                        break
                    if time.monotonic() > deadline:
                        break
    return case


def _candidates(shrink: Shrink[T], case: T, ends: type[Exception] | tuple[type[Exception], ...]) -> Iterator[T]:
    found = shrink(case)
    while True:
        try:
            yield next(found)
        except StopIteration:
            return
        except ends:
            return


def smaller_sizes(size: int) -> Sequence[int]:
    """The sizes below *size* that are worth trying, the smallest first."""
    return [s for s in dict.fromkeys((1, 2, size // 2, size - 1)) if 0 < s < size]


def simple_arrays(value: np.ndarray) -> Iterator[np.ndarray]:
    """Arrays like *value* with simpler numbers, the simplest first."""
    yield np.zeros_like(value)
    yield np.ones_like(value)
    if value.dtype.kind == "b":
        return
    with np.errstate(all="ignore"):
        yield np.arange(value.size).astype(value.dtype).reshape(value.shape)
        if is_float(value.dtype):
            yield np.round(value.astype("float64")).astype(value.dtype)
            yield np.where(np.isfinite(value.astype("float64")), 0, value.astype("float64")).astype(value.dtype)
    for k in np.flatnonzero(value) if value.size <= SMALL else ():
        flat = value.ravel().copy()
        flat[k] = 0
        yield flat.reshape(value.shape)
