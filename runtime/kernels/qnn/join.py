"""The numpy kernel of the quantized concatenation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.qnn.parameters import scalar
from byoc.runtime.kernels.qnn.requantize import RequantizeAttributes, requantized


@kernel("qnn.concatenate")
def concatenate(
    data: Sequence[np.ndarray],
    input_scales: Sequence[np.ndarray],
    input_zero_points: Sequence[np.ndarray],
    output_scale: np.ndarray,
    output_zero_point: np.ndarray,
    *,
    axis: int = 0,
) -> np.ndarray:
    """Tensors under one scale and zero point, one after another along *axis*."""
    parts = []
    for part, scale, zero in zip(data, input_scales, input_zero_points, strict=True):
        same = scale.size == zero.size == 1 and scalar(scale) == scalar(output_scale)
        if not (same and scalar(zero) == scalar(output_zero_point)):
            how = RequantizeAttributes(axis=axis)
            part = requantized(part, scale, zero, output_scale, output_zero_point, part.dtype, how)
        parts.append(part)
    return np.concatenate(parts, axis)
