"""The numpy kernel of ``nn.correlation``: one shifted product of the images for each displacement."""

from __future__ import annotations

import numpy as np

from byoc.runtime.kernels.core.layout import pad_pairs
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.nn.conv import padded


@kernel("nn.correlation")
def correlation(
    data1: np.ndarray,
    data2: np.ndarray,
    *,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: tuple[int, ...],
    is_multiply: bool = True,
) -> np.ndarray:
    """data1, data2: T[N, C, H, W] -> T[N, displacements, OH, OW], the mean over channels and patch."""
    pads = pad_pairs(padding, 2)
    first, second = padded(data1, pads), padded(data2, pads)
    border, radius = max_displacement + (kernel_size - 1) // 2, max_displacement // stride2
    outs = [-(-(size - 2 * border) // stride1) for size in first.shape[2:]]
    moves = range(-radius * stride2, radius * stride2 + 1, stride2)
    channels = []
    for down in moves:
        for right in moves:
            total = np.zeros((data1.shape[0], *outs), np.float64)
            for row in range(kernel_size):
                for column in range(kernel_size):
                    a = _patch(first, max_displacement + row, max_displacement + column, outs, stride1)
                    b = _patch(second, max_displacement + row + down, max_displacement + column + right, outs, stride1)
                    total += (a * b if is_multiply else np.abs(a - b)).sum(1)
            channels.append(total)
    result: np.ndarray = (np.stack(channels, 1) / (kernel_size**2 * data1.shape[1])).astype(data1.dtype)
    return result


def _patch(image: np.ndarray, top: int, left: int, outs: list[int], stride: int) -> np.ndarray:
    rows, columns = (slice(s, s + (n - 1) * stride + 1, stride) for s, n in zip((top, left), outs, strict=True))
    return image[:, :, rows, columns]
