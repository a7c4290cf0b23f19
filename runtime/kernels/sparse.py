"""Numpy kernels of sparse tensors as coordinates and values."""

from __future__ import annotations

import numpy as np

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.attributes import resolve_newshape
from byoc.runtime.kernels.core.registry import kernel


@kernel("sparse_to_dense")
def sparse_to_dense(
    sparse_indices: np.ndarray,
    sparse_values: np.ndarray,
    default_value: np.ndarray,
    run_time_shape: np.ndarray | None = None,
    *,
    output_shape: tuple[int, ...] = (),
) -> np.ndarray:
    """A tensor of one number with values at coordinates; of coordinates given twice the last counts."""
    shape = output_shape if run_time_shape is None else tuple(int(d) for d in run_time_shape)
    out = np.full(shape, default_value.reshape(()), sparse_values.dtype)
    points = sparse_indices if sparse_indices.ndim == 2 else sparse_indices.reshape(-1, 1)
    out[tuple(points.T)] = sparse_values
    return out


@kernel("sparse_reshape")
def sparse_reshape(
    sparse_indices: np.ndarray, prev_shape: np.ndarray, new_shape: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates in another shape, and that shape."""
    old = tuple(int(d) for d in prev_shape)
    new = resolve_newshape(old, [int(d) for d in new_shape], allowzero=True)
    flat = np.zeros(len(sparse_indices), np.int64)
    for column, size in zip(sparse_indices.T, old, strict=True):
        flat = flat * size + column
    columns = []
    for size in reversed(new):
        columns.append(flat % max(size, 1))
        flat = flat // max(size, 1)
    indices = np.stack(columns[::-1], axis=1) if columns else np.zeros((len(sparse_indices), 0))
    return indices.astype(sparse_indices.dtype), np.array(new, new_shape.dtype)


@kernel("sparse_fill_empty_rows")
def sparse_fill_empty_rows(
    sparse_indices: np.ndarray, sparse_values: np.ndarray, dense_shape: np.ndarray, default_value: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The default value at the start of each empty row; values stay in the order of their rows.

    Raises KernelError for a row outside the shape.
    """
    rows, rank = int(dense_shape[0]), len(dense_shape)
    points = sparse_indices.reshape(-1, rank)
    if len(points) and not (points[:, 0].min() >= 0 and points[:, 0].max() < rows):
        raise KernelError(f"sparse_fill_empty_rows: a row is outside the {rows} rows of the shape")
    empty = np.ones(rows, bool)
    empty[points[:, 0]] = False
    added = np.zeros((int(empty.sum()), rank), sparse_indices.dtype)
    added[:, 0] = np.flatnonzero(empty)
    indices = np.concatenate([points, added])
    values = np.concatenate([sparse_values, np.full(len(added), default_value.reshape(()), sparse_values.dtype)])
    order = np.argsort(indices[:, 0], kind="stable")
    return indices[order], values[order], empty
