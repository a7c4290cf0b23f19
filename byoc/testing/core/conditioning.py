"""How far the true results move where the inputs are moved by a rounding of their own types.

A recurrent layer with large weights, or a difference of nearly equal sums, makes much of little: what two right
programs give, which sum in another order, parts by more than a tolerance. What the roundings of the inputs alone do to
the results (computed in float64) is no mistake of a backend. Results that jump (an index, a rounding to whole numbers)
are not excused: a move beyond ``MOST`` tolerances counts as none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.errors import ByocError
from byoc.relay.expr import Function
from byoc.testing.core.difference import is_float
from byoc.testing.core.reference import outputs_of

RUNS = 4
FACTOR = 4.0  # by which a result may be off more than the inputs' roundings move it: each operation rounds too
MOST = 50.0  # tolerances


def movements(function: Function, arrays: Sequence[np.ndarray], exact: Sequence[np.ndarray]) -> list[float]:
    """The largest change of each output of *function*, whose results in float64 are *exact*; 0 for other types."""
    largest = [0.0] * len(exact)
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        try:
            found = outputs_of(function, [_moved(a, rng) for a in arrays], True)
        except (ByocError, ValueError, FloatingPointError):
            return [0.0] * len(exact)
        for k, (one, other) in enumerate(zip(found, exact, strict=True)):
            if is_float(other.dtype) and one.shape == other.shape:
                with np.errstate(invalid="ignore"):
                    change = np.abs(one.astype("float64") - other.astype("float64"))
                largest[k] = max(largest[k], float(change[np.isfinite(change)].max(initial=0)))
    return largest


def _moved(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """*array* in float64 with each element half a unit in its last place up or down; others than floats as they are."""
    if not is_float(array.dtype):
        return array
    half = float(np.spacing(array.dtype.type(1))) / 2
    return array.astype("float64") * (1 + half * rng.choice([-1.0, 1.0], array.shape))


def allowed_scale(scale: float, movement: float, want: np.ndarray) -> float:
    """*scale*, a part of the largest magnitude of *want*, or more where *movement*, by roundings of inputs, is more."""
    finite = want[np.isfinite(want)] if is_float(want.dtype) else want
    span = float(np.abs(finite.astype("float64")).max(initial=0)) if is_float(want.dtype) else 0.0
    part = movement / span if span else 0.0
    return max(scale, FACTOR * part) if part <= MOST * scale else scale
