"""Blocks of space moved to channels or batch and back, and products, in numpy. Source: ``tvm.topi.testing``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.errors import UserError


def depth_to_space_python(data: np.ndarray, block_size: int, mode: str = "DCR") -> np.ndarray:
    """``data: [N, C*b*b, H, W] -> [N, C, H*b, W*b]``; in *mode* DCR blocks are the outer part of the channels."""
    if mode not in ("DCR", "CDR", "CRD"):
        raise UserError(f"mode is DCR or CRD, got {mode!r}")
    n, c, h, w = data.shape
    b, kept = block_size, c // block_size**2
    if mode == "DCR":
        parts = data.reshape(n, b, b, kept, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = data.reshape(n, kept, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, kept, h * b, w * b)


def space_to_depth_python(data: np.ndarray, block_size: int) -> np.ndarray:
    """``data: [N, C, H, W] -> [N, C*b*b, H/b, W/b]``, blocks the outer part of the channels."""
    n, c, h, w = data.shape
    b = block_size
    parts = data.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * b * b, h // b, w // b)


def space_to_batch_nd_python(
    data: np.ndarray,
    block_shape: Sequence[int],
    pad_before: Sequence[int],
    pad_after: Sequence[int],
    pad_value: float = 0,
) -> np.ndarray:
    """``data: [N, *S, ...] -> [N * prod(b), *(S+pads)/b, ...]``: the places within a block become the outer batch."""
    m, n = len(block_shape), data.shape[0]
    pads = [(0, 0), *zip(pad_before, pad_after, strict=True), *[(0, 0)] * (data.ndim - m - 1)]
    padded = np.pad(data, pads, constant_values=pad_value)
    split = [part for size, b in zip(padded.shape[1:], block_shape, strict=False) for part in (size // b, b)]
    parts = padded.reshape(n, *split, *padded.shape[m + 1 :])
    within, across = [2 * i + 2 for i in range(m)], [2 * i + 1 for i in range(m)]
    parts = parts.transpose(*within, 0, *across, *range(2 * m + 1, parts.ndim))
    return parts.reshape(n * int(np.prod(block_shape)), *split[::2], *padded.shape[m + 1 :])


def batch_to_space_nd_python(
    data: np.ndarray, block_shape: Sequence[int], crop_begin_list: Sequence[int], crop_end_list: Sequence[int]
) -> np.ndarray:
    """``data: [N * prod(b), *S, ...] -> [N, *(S*b - crops), ...]``: the inverse of ``space_to_batch_nd_python``."""
    m = len(block_shape)
    n = data.shape[0] // int(np.prod(block_shape))
    parts = data.reshape(*block_shape, n, *data.shape[1:])
    pairs = [axis for i in range(m) for axis in (m + 1 + i, i)]
    parts = parts.transpose(m, *pairs, *range(2 * m + 1, parts.ndim))
    sizes = [size * b for size, b in zip(data.shape[1:], block_shape, strict=False)]
    whole = parts.reshape(n, *sizes, *data.shape[m + 1 :])
    cut = [slice(a, size - z) for a, z, size in zip(crop_begin_list, crop_end_list, sizes, strict=True)]
    return whole[(slice(None), *cut)]


def reorg_python(a_np: np.ndarray, stride: int) -> np.ndarray:
    """Darknet's reorganisation: ``a: [N, C, H, W] -> [N, C*s*s, H/s, W/s]``, with the indices of Darknet's loop.

    The input is read as if it were of shape [N, C/(s*s), H*s, W*s].
    """
    n, c, h, w = a_np.shape
    out_c = c // stride**2
    flat = a_np.reshape(n, -1)
    result = np.zeros_like(flat)
    for k, j, i in np.ndindex(c, h, w):
        block, channel = divmod(k, out_c)
        x, y = i * stride + block % stride, j * stride + block // stride
        result[:, i + w * (j + h * k)] = flat[:, x + w * stride * (y + h * stride * channel)]
    return result.reshape(n, c * stride**2, h // stride, w // stride)


def batch_matmul(
    x: np.ndarray, y: np.ndarray, out_dtype: str | None = None, trans_x: bool = False, trans_y: bool = True
) -> np.ndarray:
    """A product for each batch item; a batch of 1 serves all. *y* is transposed unless stated otherwise."""
    left = x.swapaxes(1, 2) if trans_x else x
    right = y.swapaxes(1, 2) if trans_y else y
    dtype = out_dtype or x.dtype
    result: np.ndarray = np.matmul(left.astype(dtype), right.astype(dtype))
    return result


def dense(
    x: np.ndarray,
    y: np.ndarray,
    bias: np.ndarray | None = None,
    use_bias: bool = False,
    use_relu: bool = False,
    out_dtype: str | None = None,
) -> np.ndarray:
    """``x @ y.T``, plus a bias and under relu where asked for."""
    dtype = out_dtype or x.dtype
    result = x.astype(dtype) @ y.T.astype(dtype)
    if use_bias and bias is not None:
        result = result + bias.astype(dtype)
    found: np.ndarray = np.maximum(result, 0) if use_relu else result
    return found
