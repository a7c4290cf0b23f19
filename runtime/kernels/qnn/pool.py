"""The numpy kernel of the quantized average pool: means of the numbers that are meant, in float32."""

from __future__ import annotations

import numpy as np

from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.nn.pool import AvgPoolAttributes, avg_pool
from byoc.runtime.kernels.qnn.quantize import dequantized, quantized


@kernel("qnn.avg_pool2d")
def avg_pool2d(
    data: np.ndarray,
    input_scale: np.ndarray,
    input_zero_point: np.ndarray,
    output_scale: np.ndarray,
    output_zero_point: np.ndarray,
    *,
    attrs: AvgPoolAttributes,
) -> np.ndarray:
    """data: i[N, C, H, W] in any order of axes -> the same dtype."""
    mean = avg_pool(dequantized(data, input_scale, input_zero_point, -1), attrs=attrs)
    return quantized(mean, output_scale, output_zero_point, -1, data.dtype)
