"""Sparse tensors as coordinates and values: to dense, in another shape, with no empty row; and sums of segments.

The shapes of results that depend on the numbers are dynamic. Source: ``relay/op/tensor/transform.cc``
(``sparse_to_dense``, ``sparse_reshape``, ``sparse_fill_empty_rows``) and ``relay.segment_sum``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import Sample, register_op
from byoc.ir.op_parts import Implementation
from byoc.ir.traits import OpKind, Traits
from byoc.ir.types import Any, TensorType, TupleType, Type
from byoc.relay.expr import Call, Tuple, check_expr, constant
from byoc.relay.op.core.builder import Operand, as_expr, constant_ints, known_dtype, make_call
from byoc.relay.op.core.type_relations import is_integer, tensor_arg, unify_dim
from byoc.relay.op.dynamic import vector_length
from byoc.relay.op.movement.create import shape_of, zeros
from byoc.relay.op.movement.join import concatenate
from byoc.relay.op.movement.scatter import scatter_nd
from byoc.relay.op.movement.shape import expand_dims, reshape
from byoc.relay.op.movement.slice import strided_slice
from byoc.relay.op.numeric.reduce import max as maximum_of
from byoc.relay.op.pointwise.elementwise import cast, cast_like
from byoc.relay.tuple_wrapper import TupleWrapper


@dataclass(frozen=True)
class SparseToDenseAttrs(Attrs):
    """Attributes of ``sparse_to_dense``; the shape is an input where it is known only at run time."""

    output_shape: tuple[int, ...] = ()


def _coordinates(types: Sequence[Type], rank: int) -> tuple[TensorType, TensorType]:
    """The types of coordinates and values of a sparse tensor of *rank*."""
    indices, values = tensor_arg(types, 0, "sparse_indices"), tensor_arg(types, 1, "sparse_values")
    if not is_integer(indices.dtype) or indices.ndim > 2 or values.ndim > 1:
        raise TypeInferenceError(f"takes coordinates [n, rank] and values [n], got {indices} and {values}")
    width = indices.shape[1] if indices.ndim == 2 else 1
    if isinstance(width, int) and width != rank:
        raise TypeInferenceError(f"sparse_indices have {width} coordinates where the result has {rank} dimensions")
    return indices, values


def _sparse_to_dense_rel(types: Sequence[Type], attrs: SparseToDenseAttrs) -> Type:
    if any(d < 0 for d in attrs.output_shape):
        raise TypeInferenceError(f"output_shape has no negative dimension, got {attrs.output_shape}")
    return TensorType(attrs.output_shape, _coordinates(types, len(attrs.output_shape))[1].dtype)


def _dyn_sparse_to_dense_rel(types: Sequence[Type], attrs: SparseToDenseAttrs) -> Type:
    rank = vector_length(types, 3, "output_shape")
    return TensorType([Any()] * rank, _coordinates(types, rank)[1].dtype)


_POINTS = np.array([[0, 0], [1, 2], [2, 1]], "int32")
_VALUES = np.array([3.0, 1.0, -2.0], "float32")
_ZERO = np.array(0.0, "float32")
register_op(
    "sparse_to_dense",
    inputs=("sparse_indices", "sparse_values", "default_value"),
    attrs=SparseToDenseAttrs,
    rel=_sparse_to_dense_rel,
    doc="A dense tensor of one number, with values at coordinates.",
    samples=(
        Sample([_POINTS, _VALUES, _ZERO], {"output_shape": (3, 4)}),
        Sample([np.array([1, 4], "int64"), np.array(3.1, "float32"), np.array(1.5, "float32")], {"output_shape": (5,)}),
        Sample([np.array(1, "int32"), np.array(3, "int32"), np.array(0, "int32")], {"output_shape": (5,)}),
    ),
).set_support_level(3)
register_op(
    "dyn.sparse_to_dense",
    inputs=("sparse_indices", "sparse_values", "default_value", "output_shape"),
    attrs=SparseToDenseAttrs,
    rel=_dyn_sparse_to_dense_rel,
    traits=Traits(OpKind.OTHER).static("sparse_to_dense", {3: "output_shape"}),
    compute=Implementation(kernel="sparse_to_dense"),
    doc="A dense tensor whose shape an input holds, with values at coordinates.",
    samples=(Sample([_POINTS, _VALUES, _ZERO, np.array([3, 4], "int64")]),),
)


def sparse_to_dense(
    sparse_indices: Operand, output_shape: object, sparse_values: Operand, default_value: Operand = 0
) -> Call:
    """A dense tensor of *output_shape* (which may be a tensor) with values at coordinates.

    ``int[n, rank], T[n] -> T[output_shape]``. Source: ``relay.sparse_to_dense``.
    """
    numbers = constant_ints(output_shape)
    args = [as_expr(sparse_indices), as_expr(sparse_values), as_expr(default_value, known_dtype(sparse_values))]
    if numbers is None:
        return make_call("dyn.sparse_to_dense", [*args, check_expr(output_shape, "a shape")], SparseToDenseAttrs())
    return make_call("sparse_to_dense", args, SparseToDenseAttrs(numbers))


def _sparse_reshape_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    indices = tensor_arg(types, 0, "sparse_indices")
    previous, new = tensor_arg(types, 1, "prev_shape"), vector_length(types, 2, "new_shape")
    old = (
        previous.shape[0]
        if previous.ndim == 1 and isinstance(previous.shape[0], Any)
        else (vector_length(types, 1, "prev_shape"))
    )
    if indices.ndim != 2 or not is_integer(indices.dtype) or unify_dim(indices.shape[1], old) is None:
        raise TypeInferenceError(f"sparse_indices must be integers [n, {old}], got {indices}")
    shape = tensor_arg(types, 2, "new_shape")
    return TupleType([TensorType((indices.shape[0], new), indices.dtype), TensorType((new,), shape.dtype)])


_SHAPE = np.array([2, 3, 4], "int64")
register_op(
    "sparse_reshape",
    inputs=("sparse_indices", "prev_shape", "new_shape"),
    rel=_sparse_reshape_rel,
    doc="Coordinates in one shape as coordinates in another of as many elements, and that shape with -1 resolved.",
    samples=(
        Sample([np.array([[0, 0, 1], [1, 2, 3]], "int64"), _SHAPE, np.array([6, -1], "int64")]),
        Sample([np.array([[1, 0, 2]], "int32"), _SHAPE.astype("int32"), np.array([24], "int32")]),
    ),
)


def sparse_reshape(sparse_indices: Operand, prev_shape: Operand, new_shape: Operand) -> TupleWrapper:
    """``int[n, r], int[r], int[q] -> (int[n, q], int[q])``. Source: ``relay.sparse_reshape``."""
    call = make_call("sparse_reshape", [as_expr(v) for v in (sparse_indices, prev_shape, new_shape)])
    return TupleWrapper(call, 2)


def _fill_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    rank = vector_length(types, 2, "dense_shape")
    indices, values = _coordinates(types, rank)
    return TupleType(
        [TensorType([Any(), rank], indices.dtype), TensorType([Any()], values.dtype), TensorType([Any()], "bool")]
    )


register_op(
    "sparse_fill_empty_rows",
    inputs=("sparse_indices", "sparse_values", "dense_shape", "default_value"),
    rel=_fill_rel,
    doc="A sparse tensor with one value put in each empty row, and which rows those were.",
    samples=(
        Sample(
            [
                np.array([[0, 1], [0, 3], [2, 0], [3, 1]], "int64"),
                np.array([1, 2, 3, 4], "int64"),
                np.array([5, 6], "int64"),
                np.array([10], "int64"),
            ]
        ),
        Sample(
            [
                np.zeros((0, 3), "int32"),
                np.zeros((0,), "float32"),
                np.array([2, 6, 2], "int32"),
                np.array([2.5], "float32"),
            ]
        ),
    ),
)


def sparse_fill_empty_rows(
    sparse_indices: Operand, sparse_values: Operand, dense_shape: Operand, default_value: Operand
) -> Tuple:
    """Coordinates, values, and for each row whether it was empty. Source: ``relay.sparse_fill_empty_rows``.

    ``int[n, r], T[n], int[r], T[1] -> (int[?, r], T[?], bool[rows])``.
    """
    args = [as_expr(v) for v in (sparse_indices, sparse_values, dense_shape, default_value)]
    return Tuple(list(TupleWrapper(make_call("sparse_fill_empty_rows", args), 3)))


def segment_sum(data: Operand, segment_ids: Operand, num_segments: int | Operand | None = None) -> Call:
    """The sums of the rows of *data* that have the same number in *segment_ids*. Source: ``relay.segment_sum``.

    ``T[n, ...], int[n] -> T[num_segments, ...]``; without *num_segments* there are as many as the greatest id says.
    """
    rows, ids = as_expr(data), as_expr(segment_ids)
    if num_segments is None:
        count = reshape(maximum_of(cast(ids, "int64"), axis=[0]), [1]) + constant([1], "int64")
    elif isinstance(num_segments, int):
        count = constant([num_segments], "int64")
    else:
        count = reshape(cast(num_segments, "int64"), [1])
    rest = strided_slice(shape_of(rows, "int64"), begin=[1], end=[-1], slice_mode="size")
    start = cast_like(zeros(concatenate([count, rest], 0), "float32"), rows)
    return scatter_nd(start, expand_dims(ids, 0), rows, "add")
