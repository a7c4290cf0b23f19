"""Numpy kernels that move elements of images: padding, depth to space and back, batches to space and back."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np

from byoc.runtime.kernels.core.layout import from_letters, to_letters
from byoc.runtime.kernels.core.registry import kernel

PadMode = Literal["edge", "reflect", "symmetric"]


@kernel("nn.pad")
def pad(
    data: np.ndarray, pad_value: np.ndarray, *, pad_width: tuple[tuple[int, ...], ...], pad_mode: str = "constant"
) -> np.ndarray:
    """Pad each axis before and after by a value, by its edge, by its reflection without the edge, or by itself again.

    A negative width cuts elements off; what is reflected is the array as it was.
    """
    cut = [(max(-a, 0), max(-b, 0)) for a, b in pad_width]
    added = [(max(a, 0), max(b, 0)) for a, b in pad_width]
    if pad_mode == "constant":
        kept = tuple(slice(a, n - b) for n, (a, b) in zip(data.shape, cut, strict=True))
        return np.pad(data[kept], added, constant_values=np.asarray(pad_value).astype(data.dtype).reshape(()))
    if pad_mode == "wrap":
        whole = data
        for axis, ((before, after), size) in enumerate(zip(added, data.shape, strict=True)):
            whole = np.take(whole, np.arange(-before, size + after) % max(size, 1), axis) if before or after else whole
    else:
        whole = np.pad(data, added, mode=cast(PadMode, pad_mode))
    result: np.ndarray = whole[tuple(slice(a, n - b) for n, (a, b) in zip(whole.shape, cut, strict=True))]
    return result


@kernel("nn.dilate")
def dilate(data: np.ndarray, *, strides: tuple[int, ...], dilation_value: float = 0.0) -> np.ndarray:
    """T[n, ...] -> T[(n - 1) stride + 1, ...], with the value between neighbours."""
    shape = [max((n - 1) * s + 1, 0) for n, s in zip(data.shape, strides, strict=True)]
    result = np.full(shape, np.float32(dilation_value).astype(data.dtype), data.dtype)
    result[tuple(slice(None, None, s) for s in strides)] = data
    return result


@kernel("nn.mirror_pad")
def mirror_pad(data: np.ndarray, *, pad_width: tuple[tuple[int, ...], ...], mode: str = "SYMMETRIC") -> np.ndarray:
    """Pad by reflection: with the edge repeated (SYMMETRIC) or not (REFLECT)."""
    result: np.ndarray = np.pad(data, pad_width, mode=cast(PadMode, mode.lower()))
    return result


@kernel("nn.depth_to_space")
def depth_to_space(data: np.ndarray, *, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> np.ndarray:
    """T[N, C b b, H, W] -> T[N, C, H b, W b]; the block's axes come before (DCR) or after (CRD) the depth."""
    n, c, h, w = to_letters(data, layout, "NCHW").shape
    b = block_size
    x = to_letters(data, layout, "NCHW")
    if mode == "DCR":
        x = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return from_letters(x.reshape(n, c // (b * b), h * b, w * b), "NCHW", layout)


@kernel("nn.space_to_depth")
def space_to_depth(data: np.ndarray, *, block_size: int, layout: str = "NCHW") -> np.ndarray:
    """T[N, C, H b, W b] -> T[N, b b C, H, W], the block's axes before the channels."""
    x = to_letters(data, layout, "NCHW")
    (n, c, h, w), b = x.shape, block_size
    x = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return from_letters(x.reshape(n, c * b * b, h // b, w // b), "NCHW", layout)
