"""Cases with special inputs: NaN, infinity and negative infinity among the numbers of a sample, and denormal numbers.

What an operator makes of them is what its numpy kernel makes of them. Tried is each operator of floats, with every one
of them that the kernel treats alike in the sample's type and in float64, and of what is not finite only where something
of it reaches a result; what an operator does with others is nobody's promise. A device may take a denormal number for
zero, so that these are tried where the result is the same with a zero there.
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
DENORMAL = (np.dtype("float32"), np.dtype("float64"))  # of which a quarter of the least normal number is tried
EVERY = 7  # of so many elements one is special, at places that are no row and no column alone
MOST_INPUTS = 3  # that have NaN in turn


def special_cases(samples: Sequence[Case]) -> Iterator[Case]:
    """Two cases of each operator of *samples* at most: the first that carries what is not finite, and the first that
    takes denormal numbers.
    """
    met: set[str] = set()
    tiny: set[str] = set()
    for case in samples:
        if case.operator not in met:
            feeds = [feed for feed in _special(case.feeds[0]) if _is_defined(case, feed)]
            if any(_carries(case, feed) for feed in feeds):
                met.add(case.operator)
                yield replace(case, name=f"{case.name}, special values", kind=SPECIAL, feeds=tuple(feeds))
        if case.operator not in tiny:
            feeds = [feed for feed, zeros in _denormal(case.feeds[0]) if _is_alike(case, feed, zeros)]
            if feeds:
                tiny.add(case.operator)
                yield replace(case, name=f"{case.name}, denormal numbers", kind=SPECIAL, feeds=tuple(feeds))


def _special(feed: Arrays) -> Iterator[Arrays]:
    """*feed* with NaN in each float input in turn, and with the infinities in the first."""
    floats = [k for k, a in enumerate(feed) if is_float(a.dtype) and a.size][:MOST_INPUTS]
    for k in floats:
        for value in VALUES if k == floats[0] else VALUES[:1]:
            yield tuple(_changed(a, value) if n == k else a for n, a in enumerate(feed))


def _denormal(feed: Arrays) -> Iterator[tuple[Arrays, Arrays]]:
    """*feed* with a denormal number among each float input in turn, and with a zero there."""
    for k in [k for k, a in enumerate(feed) if a.dtype in DENORMAL and a.size][:MOST_INPUTS]:
        value = float(np.finfo(feed[k].dtype).tiny) / 4
        pair = [tuple(_changed(a, v) if n == k else a for n, a in enumerate(feed)) for v in (value, 0.0)]
        yield pair[0], pair[1]


def _is_alike(case: Case, feed: Arrays, zeros: Arrays) -> bool:
    """Whether *feed* gives what it gives in float64, and with *zeros* in the place of its denormal numbers."""
    if not _is_defined(case, feed):
        return False
    try:
        given, cleared = (outputs_of(case.function, arrays, False) for arrays in (feed, zeros))
    except Exception:  # kernels raise what they please: a scale of zero
        return False
    return _is_same(cleared, given)


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
    return _is_same(own, wide)


def _is_same(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> bool:
    allowed = tolerances(None)
    return all(difference(a, b, allowed.get(str(a.dtype), 0.0)) is None for a, b in zip(found, wanted, strict=True))


def _carries(case: Case, feed: Arrays) -> bool:
    """Whether something in the result is not finite."""
    found = outputs_of(case.function, feed, False)
    return any(is_float(a.dtype) and not np.isfinite(a.astype("float64")).all() for a in found)
