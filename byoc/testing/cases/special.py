"""Cases with inputs that are not finite: NaN, infinity and negative infinity among the numbers of a sample.

What an operator makes of them is what its numpy kernel makes of them. Tried is each operator of floats that carries at
least one of them into its result, with every one of them that the kernel treats alike in the sample's type and in
float64; what an operator does with others is nobody's promise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from byoc.testing.core.case import Arrays, Case
from byoc.testing.core.difference import difference, is_float, tolerances
from byoc.testing.core.reference import outputs_of

SPECIAL = "special values"
VALUES = (np.nan, np.inf, -np.inf)
EVERY = 7  # of so many elements one is special, at places that are no row and no column alone
MOST_INPUTS = 3  # that have NaN in turn


def special_cases(samples: Sequence[Case]) -> Iterator[Case]:
    """A case of each operator of *samples*, the first whose operator carries special values."""
    met: set[str] = set()
    for case in samples:
        if case.operator not in met:
            feeds = [feed for feed in _special(case.feeds[0]) if _is_defined(case, feed)]
            if any(_carries(case, feed) for feed in feeds):
                met.add(case.operator)
                yield replace(case, name=f"{case.name}, special values", kind=SPECIAL, feeds=tuple(feeds))


def _special(feed: Arrays) -> Iterator[Arrays]:
    """*feed* with NaN in each float input in turn, and with the infinities in the first."""
    floats = [k for k, a in enumerate(feed) if is_float(a.dtype) and a.size][:MOST_INPUTS]
    for k in floats:
        for value in VALUES if k == floats[0] else VALUES[:1]:
            yield tuple(_changed(a, value) if n == k else a for n, a in enumerate(feed))


def _changed(array: np.ndarray, value: float) -> np.ndarray:
    flat = array.ravel().copy()
    flat[:: EVERY if flat.size > EVERY else max(flat.size, 1)] = value
    return flat.reshape(array.shape)


def _is_defined(case: Case, feed: Arrays) -> bool:
    """Whether the reference gives the same in the case's own types as in float64."""
    try:
        own, wide = (outputs_of(case.function, feed, is_wide) for is_wide in (False, True))
    except Exception:  # kernels raise what they please
        return False
    allowed = tolerances(None)
    return all(difference(a, b, allowed.get(str(a.dtype), 0.0)) is None for a, b in zip(own, wide, strict=True))


def _carries(case: Case, feed: Arrays) -> bool:
    """Whether something in the result is not finite."""
    found = outputs_of(case.function, feed, False)
    return any(is_float(a.dtype) and not np.isfinite(a.astype("float64")).all() for a in found)
