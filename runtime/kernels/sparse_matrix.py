"""Numpy kernels of matrices in compressed sparse rows."""

from __future__ import annotations

import numpy as np

from byoc.runtime.kernels.core.registry import kernel


def _row_of_each(indptr: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


@kernel("nn.sparse_dense")
def sparse_dense(
    dense_mat: np.ndarray, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, *, sparse_lhs: bool = False
) -> np.ndarray:
    """``D @ S.T``, or ``S @ D.T``: each row of blocks takes the columns of D that its blocks stand in."""
    blocks = data.reshape(len(data), *(data.shape[1:] or (1, 1)))
    height, width = blocks.shape[1:]
    out = np.zeros((len(indptr) - 1, height, len(dense_mat)), dense_mat.dtype)
    columns = dense_mat.reshape(len(dense_mat), dense_mat.shape[1] // width, width)
    for row, block, column in zip(_row_of_each(indptr), blocks, indices, strict=True):
        out[row] += block @ columns[:, column].T
    product = out.reshape(out.shape[0] * height, len(dense_mat))
    return product if sparse_lhs else np.asarray(product.T, order="C")


@kernel("nn.sparse_add")
def sparse_add(dense_mat: np.ndarray, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """``D + S``."""
    out = dense_mat.copy()
    np.add.at(out, (_row_of_each(indptr), indices), data.astype(out.dtype))
    return out


@kernel("nn.sparse_transpose")
def sparse_transpose(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The transpose of a square matrix, each row's columns in order."""
    rows = _row_of_each(indptr)
    order = np.lexsort((rows, indices))
    counts = np.bincount(indices, minlength=len(indptr) - 1)
    starts = np.concatenate([[0], np.cumsum(counts)])
    return data[order], rows[order].astype(indices.dtype), starts.astype(indptr.dtype)
