"""Products with matrices in compressed sparse rows (CSR), or rows of blocks (BSR). Source: ``relay/op/nn/sparse.cc``.

A sparse matrix is three tensors: values ``[n]`` (blocks ``[n, rows, columns]``), the column of each, and for each row
where its values begin. Their kernels are numpy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError, UserError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Sample, register_op
from byoc.ir.traits import OpKind, ProductForm, Traits
from byoc.ir.types import Any, Dim, TensorType, TupleType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_integer, tensor_arg
from byoc.relay.tuple_wrapper import TupleWrapper

_PARTS = ("data", "indices", "indptr")


@dataclass(frozen=True)
class SparseDenseAttrs(Attrs):
    """Attributes of ``nn.sparse_dense``: whether the sparse matrix is the left one."""

    sparse_lhs: bool = False


@dataclass(frozen=True)
class SparseTransposeAttrs(Attrs):
    """``nn.sparse_transpose`` has no attributes of its own."""


def _sparse_rows(types: Sequence[Type], first: int, blocks: bool) -> Dim:
    """The number of rows of the sparse matrix whose parts start at input *first*."""
    values, indices, indptr = (tensor_arg(types, first + k, f"sparse {name}") for k, name in enumerate(_PARTS))
    if values.ndim not in ((1, 3) if blocks else (1,)):
        raise TypeInferenceError(f"sparse data must have 1 axis{' or 3' if blocks else ''}, got {values}")
    for part in (indices, indptr):
        if part.ndim != 1 or not is_integer(part.dtype):
            raise TypeInferenceError(f"indices and indptr must be vectors of integers, got {part}")
    rows, height = indptr.shape[0], values.shape[1] if values.ndim == 3 else 1
    return Any() if isinstance(rows, Any) or isinstance(height, Any) else (rows - 1) * height


def _dense_matrix(types: Sequence[Type]) -> TensorType:
    data = tensor_arg(types, 0, "dense_mat")
    if data.ndim != 2:
        raise TypeInferenceError(f"dense_mat must be a matrix, got {data}")
    return data


def _sparse_dense_rel(types: Sequence[Type], attrs: SparseDenseAttrs) -> Type:
    data, rows = _dense_matrix(types), _sparse_rows(types, 1, True)
    shape = (rows, data.shape[0]) if attrs.sparse_lhs else (data.shape[0], rows)
    return TensorType(shape, data.dtype)


_VALUES = np.array([1.0, -2.0, 3.0, 0.5], "float32")
_COLUMNS, _STARTS = np.array([0, 3, 1, 2], "int32"), np.array([0, 2, 2, 4], "int32")
_BLOCKS = np.arange(12, dtype="float32").reshape(3, 2, 2)
_BLOCK_COLUMNS, _BLOCK_STARTS = np.array([1, 0, 1], "int32"), np.array([0, 1, 3], "int32")
register_op(
    "nn.sparse_dense",
    inputs=("dense_mat", *(f"sparse_{p}" for p in _PARTS)),
    attrs=SparseDenseAttrs,
    rel=_sparse_dense_rel,
    traits=Traits(OpKind.PRODUCT, product=ProductForm.OTHER),
    doc="The product of a dense matrix with the transpose of a sparse one, or the reverse.",
    samples=(
        Sample([(2, 4), _VALUES, _COLUMNS, _STARTS]),
        Sample([(5, 4), _VALUES, _COLUMNS, _STARTS], {"sparse_lhs": True}),
        Sample([(3, 4), _BLOCKS, _BLOCK_COLUMNS, _BLOCK_STARTS]),
    ),
)


def _parts(sparse_mat: object) -> list[RelayExpr]:
    """The three tensors of a sparse matrix: a tuple, or an object with ``data``, ``indices`` and ``indptr``."""
    if hasattr(sparse_mat, "indices"):
        return [as_expr(getattr(sparse_mat, part)) for part in _PARTS]
    if isinstance(sparse_mat, (tuple, list)) and len(sparse_mat) == 3:
        return [as_expr(part) for part in sparse_mat]
    raise UserError(f"a sparse matrix is (data, indices, indptr), got {type(sparse_mat).__name__}")


def sparse_dense(dense_mat: Operand, sparse_mat: object, sparse_lhs: bool = False) -> Call:
    """``D @ S.T``, or ``S @ D.T`` with *sparse_lhs*. Source: ``relay.nn.sparse_dense``.

    Raises UserError for a *sparse_mat* that is not three tensors.
    """
    return make_call("nn.sparse_dense", [as_expr(dense_mat), *_parts(sparse_mat)], SparseDenseAttrs(bool(sparse_lhs)))


def _sparse_add_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    _sparse_rows(types, 1, False)
    return _dense_matrix(types)


register_op(
    "nn.sparse_add",
    inputs=("dense_mat", *(f"sparse_{p}" for p in _PARTS)),
    rel=_sparse_add_rel,
    doc="The sum of a dense matrix and a sparse one.",
    samples=(Sample([(3, 4), _VALUES, _COLUMNS, _STARTS]),),
)


def sparse_add(dense_mat: Operand, sparse_mat: object) -> Call:
    """``D + S``. Source: ``relay.nn.sparse_add``. Raises UserError for a *sparse_mat* that is not three tensors."""
    return make_call("nn.sparse_add", [as_expr(dense_mat), *_parts(sparse_mat)])


def _sparse_transpose_rel(types: Sequence[Type], attrs: SparseTransposeAttrs) -> Type:
    _sparse_rows(types, 0, False)
    return TupleType(types)


_SQUARE_STARTS = np.array([0, 2, 2, 3, 4], "int32")
register_op(
    "nn.sparse_transpose",
    inputs=tuple(f"sparse_{p}" for p in _PARTS),
    attrs=SparseTransposeAttrs,
    rel=_sparse_transpose_rel,
    doc="The transpose of a square sparse matrix, as values, columns and starts of rows.",
    samples=(Sample([_VALUES, _COLUMNS, _SQUARE_STARTS]),),
)


def sparse_transpose(x: object) -> TupleWrapper:
    """The transpose of the square sparse matrix *x*. Source: ``relay.nn.sparse_transpose``.

    Raises UserError for an *x* that is not three tensors.
    """
    return TupleWrapper(make_call("nn.sparse_transpose", _parts(x), SparseTransposeAttrs()), 3)
