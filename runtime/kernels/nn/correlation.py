"""The numpy kernel of ``nn.correlation``: one shifted product of the images for each displacement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.layout import pad_pairs
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.nn.conv import padded


@dataclass(frozen=True, kw_only=True)
class CorrelationAttributes(KernelAttributes):
    """Attributes of the correlation."""

    kernel_size: int
    max_displacement: int
    stride1: int
    stride2: int
    padding: tuple[int, ...]
    is_multiply: bool = True


@kernel("nn.correlation")
def correlation(data1: np.ndarray, data2: np.ndarray, *, attrs: CorrelationAttributes) -> np.ndarray:
    """data1, data2: T[N, C, H, W] -> T[N, displacements, OH, OW], the mean over channels and patch."""
    pads, start, stride = pad_pairs(attrs.padding, 2), attrs.max_displacement, attrs.stride1
    first, second = padded(data1, pads), padded(data2, pads)
    border, radius = start + (attrs.kernel_size - 1) // 2, start // attrs.stride2
    outs = [-(-(size - 2 * border) // stride) for size in first.shape[2:]]
    moves = range(-radius * attrs.stride2, radius * attrs.stride2 + 1, attrs.stride2)
    channels = []
    for down in moves:
        for right in moves:
            total = np.zeros((data1.shape[0], *outs), np.float64)
            for row in range(attrs.kernel_size):
                for column in range(attrs.kernel_size):
                    a = _patch(first, start + row, start + column, outs, stride)
                    b = _patch(second, start + row + down, start + column + right, outs, stride)
                    total += (a * b if attrs.is_multiply else np.abs(a - b)).sum(1)
            channels.append(total)
    result: np.ndarray = (np.stack(channels, 1) / (attrs.kernel_size**2 * data1.shape[1])).astype(data1.dtype)
    return result


def _patch(image: np.ndarray, top: int, left: int, outs: list[int], stride: int) -> np.ndarray:
    rows, columns = (slice(s, s + (n - 1) * stride + 1, stride) for s, n in zip((top, left), outs, strict=True))
    return image[:, :, rows, columns]
