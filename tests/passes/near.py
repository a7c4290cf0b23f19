"""How near two arrays are, by the law of a pass or a rule."""

from __future__ import annotations

import numpy as np

from byoc.ir.passes.pass_info import Law, Numbers

NEAR = {Numbers.ROUNDING: 1e-5, Numbers.NEAR: 1e-2}  # of the largest number


def holds(law: Law, before: np.ndarray, after: np.ndarray) -> bool:
    """Whether *after* is as near to *before* as the law promises."""
    if before.dtype != after.dtype or before.shape != after.shape:
        return False
    if law.numbers is Numbers.BITS:
        return np.array_equal(before, after, equal_nan=before.dtype.kind == "f")
    if before.dtype.kind != "f":
        return bool(np.all(np.abs(before.astype("int64") - after.astype("int64")) <= (before.dtype.kind != "b")))
    near = NEAR[law.numbers]
    finite = np.abs(before[np.isfinite(before)])
    return np.allclose(after, before, rtol=near, atol=near * max(1.0, float(finite.max(initial=0))), equal_nan=True)
