"""The numpy kernel of determinants."""

from __future__ import annotations

import numpy as np

from byoc.runtime.kernels.core.registry import kernel


@kernel("det")
def det(data: np.ndarray) -> np.ndarray:
    """The determinants of the matrices in the last two axes, in float64."""
    return np.asarray(np.linalg.det(data.astype(np.float64))).astype(data.dtype)
