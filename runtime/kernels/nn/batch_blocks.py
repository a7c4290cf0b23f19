"""Numpy kernels that move blocks of space into the batch and back."""

from __future__ import annotations

import math

import numpy as np

from byoc.runtime.kernels.core.registry import kernel


@kernel("nn.space_to_batch_nd")
def space_to_batch_nd(
    data: np.ndarray, *, block_shape: tuple[int, ...], paddings: tuple[tuple[int, ...], ...], pad_value: float = 0.0
) -> np.ndarray:
    """The spatial axes padded and cut in blocks, whose offsets become the slower part of the batch."""
    m = len(block_shape)
    rest = [(0, 0)] * (data.ndim - m - 1)
    padded = np.pad(data, [(0, 0), *paddings, *rest], constant_values=np.asarray(pad_value).astype(data.dtype))
    sizes = [s // b for s, b in zip(padded.shape[1 : m + 1], block_shape, strict=True)]
    cut = [n for pair in zip(sizes, block_shape, strict=True) for n in pair]
    blocks = padded.reshape(data.shape[0], *cut, *data.shape[m + 1 :])
    order = [*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, blocks.ndim)]
    return blocks.transpose(order).reshape(data.shape[0] * math.prod(block_shape), *sizes, *data.shape[m + 1 :])


@kernel("nn.batch_to_space_nd")
def batch_to_space_nd(
    data: np.ndarray, *, block_shape: tuple[int, ...], crops: tuple[tuple[int, ...], ...]
) -> np.ndarray:
    """The slower part of the batch as offsets in blocks of the spatial axes, which are then cropped."""
    m, batch = len(block_shape), data.shape[0] // math.prod(block_shape)
    parts = data.reshape(*block_shape, batch, *data.shape[1:])
    woven = [k for pair in zip(range(m + 1, 2 * m + 1), range(m), strict=True) for k in pair]
    whole = parts.transpose([m, *woven, *range(2 * m + 1, parts.ndim)])
    sizes = [s * b for s, b in zip(data.shape[1 : m + 1], block_shape, strict=True)]
    space = whole.reshape(batch, *sizes, *data.shape[m + 1 :])
    kept = [slice(before, size - after) for size, (before, after) in zip(sizes, crops, strict=True)]
    return np.asarray(space[(slice(None), *kept)], order="C")
