"""Numpy kernels of matrix products: dense, matmul, batch_matmul.

Small integers are multiplied as float64, whose sums of their products are exact below 2**53, because numpy
multiplies integer matrices without BLAS.
"""

from __future__ import annotations

import math

import numpy as np

from byoc.runtime.kernels.core.registry import kernel


def result_dtype(data: np.ndarray, out_dtype: str) -> np.dtype:
    """The dtype of a product: *out_dtype*, or that of *data* where it is empty."""
    return np.dtype(out_dtype) if out_dtype else data.dtype


def working_dtype(data: np.ndarray, weight: np.ndarray, out: np.dtype) -> np.dtype:
    """The dtype in which products of *data* and *weight* are summed before they become *out*."""
    if data.dtype.kind in "iub" and weight.dtype.kind in "iub":
        small = max(data.dtype.itemsize, weight.dtype.itemsize) <= 2
        if small:
            return np.dtype(np.float64)
        return out if out.kind == "u" else np.promote_types(out, np.int32)  # with int32 a uint64 would be a float
    return np.promote_types(np.promote_types(data.dtype, weight.dtype), np.promote_types(out, np.float32))


def finish(value: np.ndarray, out: np.dtype) -> np.ndarray:
    """A sum as *out*; a float sum of integers wraps around as integers do."""
    if value.dtype.kind == "f" and out.kind in "iu":
        return value.astype(np.int64).astype(out)
    return value.astype(out, copy=False)


def product(a: np.ndarray, b: np.ndarray, out_dtype: str) -> np.ndarray:
    """``a @ b`` as *out_dtype* (that of *a* where empty)."""
    out = result_dtype(a, out_dtype)
    work = working_dtype(a, b, out)
    return finish(np.matmul(a.astype(work, copy=False), b.astype(work, copy=False)), out)


@kernel("nn.dense")
def dense(data: np.ndarray, weight: np.ndarray, *, out_dtype: str = "") -> np.ndarray:
    """data: [..., K], weight: [N, K] -> [..., N]."""
    count = math.prod(data.shape[:-1])  # not -1, which numpy cannot find for data without an element
    rows = product(data.reshape(count, data.shape[-1]), weight.T, out_dtype)
    return rows.reshape(*data.shape[:-1], weight.shape[0])


@kernel("nn.matmul")
def matmul(
    a: np.ndarray, b: np.ndarray, *, out_dtype: str = "", transpose_a: bool = False, transpose_b: bool = False
) -> np.ndarray:
    """a: [..., M, K] (or [..., K, M]), b: [K, N] (or [N, K]) -> [..., M, N]."""
    return product(np.swapaxes(a, -1, -2) if transpose_a else a, b.T if transpose_b else b, out_dtype)


@kernel("nn.batch_matmul")
def batch_matmul(
    a: np.ndarray, b: np.ndarray, *, out_dtype: str = "", transpose_a: bool = False, transpose_b: bool = False
) -> np.ndarray:
    """a: [B, M, K], b: [B, N, K] by default -> [B, M, N]; a batch of 1 is repeated."""
    left = np.swapaxes(a, 1, 2) if transpose_a else a
    return product(left, np.swapaxes(b, 1, 2) if transpose_b else b, out_dtype)


@kernel("nn.contrib_dense_pack")
def dense_pack(data: np.ndarray, weight: np.ndarray, *, out_dtype: str = "") -> np.ndarray:
    """data: [M, K], weight: [N, K], or [N / b, K, b] in blocks -> [M, N]."""
    rows = weight
    if weight.ndim == 3:
        rows = weight.transpose(0, 2, 1).reshape(weight.shape[0] * weight.shape[2], weight.shape[1])
    return product(data, rows.T, out_dtype)
