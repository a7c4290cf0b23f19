"""Operators on positions: ``unravel_index``, ``searchsorted``, ``adv_index``, ``sliding_window`` and others.

Source: ``relay/op/tensor/transform.cc`` and ``relay/op/algorithm/searchsorted.cc``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import move
from byoc.ir.types import Any, Dim, TensorType, Type
from byoc.relay.expr import Call, constant
from byoc.relay.op.core.builder import Operand, as_expr, as_tuple_expr, make_call
from byoc.relay.op.core.indexing import broadcast_load, wrap_negative
from byoc.relay.op.core.type_relations import (
    broadcast_shape,
    identity,
    is_integer,
    normalize_axis,
    same_dtype,
    tensor_arg,
    tuple_arg,
    unify_dim,
)


@dataclass(frozen=True)
class SearchSortedAttrs(Attrs):
    """Attributes of ``searchsorted``: *right* puts a value after those that equal it."""

    right: bool = False
    dtype: str = "int32"


@dataclass(frozen=True)
class SlidingWindowAttrs(Attrs):
    """Attributes of ``sliding_window``: windows over the axes from *axis* on."""

    axis: int = 0
    window_shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


def _unravel_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    indices, shape = tensor_arg(types, 0, "indices"), tensor_arg(types, 1, "shape")
    if not is_integer(indices.dtype) or not is_integer(shape.dtype) or shape.ndim != 1 or indices.ndim > 1:
        raise TypeInferenceError(f"takes a scalar or vector of integers and a shape, got {indices} and {shape}")
    return TensorType((shape.shape[0], *indices.shape), indices.dtype)


register_op(
    "unravel_index",
    inputs=("indices", "shape"),
    rel=_unravel_rel,
    doc="The coordinates of row-major positions in a shape, one row an axis.",
    samples=(
        Sample([np.array([22, 41, 37], "int32"), np.array([7, 6], "int32")]),
        Sample([np.array(1621, "int64"), np.array([6, 7, 8, 9], "int64")]),
    ),
).set_support_level(3)


def unravel_index(indices: Operand, shape: Operand | Sequence[int]) -> Call:
    """The coordinates of *indices* in *shape*: ``int[n], int[rank] -> int[rank, n]``.

    Source: ``relay.unravel_index``.
    """
    dims = constant(list(shape), "int32") if isinstance(shape, Sequence) else as_expr(shape)
    return make_call("unravel_index", [as_expr(indices), dims])


def _searchsorted_rel(types: Sequence[Type], attrs: SearchSortedAttrs) -> Type:
    sequence, values = tensor_arg(types, 0, "sorted_sequence"), tensor_arg(types, 1, "values")
    rows = sequence.shape[:-1]
    if sequence.ndim == 0:
        raise TypeInferenceError(f"sorted_sequence must have an axis, got {sequence}")
    if rows and (
        len(rows) != values.ndim - 1 or any(unify_dim(a, b) is None for a, b in zip(rows, values.shape, strict=False))
    ):
        raise TypeInferenceError(f"values must have a row for each of {sequence}, got {values}")
    if attrs.dtype not in ("int32", "int64"):
        raise TypeInferenceError(f"dtype is int32 or int64, got {attrs.dtype}")
    return TensorType(values.shape, attrs.dtype)


_SORTED = np.array([[1.0, 3.0, 3.0, 7.0], [-2.0, 0.0, 4.0, 4.0]], "float32")
register_op(
    "searchsorted",
    inputs=("sorted_sequence", "values"),
    attrs=SearchSortedAttrs,
    rel=_searchsorted_rel,
    doc="Where each value would stand in a sorted sequence.",
    samples=(
        Sample([_SORTED, np.array([[3.0, 8.0, 0.0], [4.0, 0.0, -3.0]], "float32")]),
        Sample([_SORTED[0], np.array([[3.0, 8.0], [4.0, 0.0]], "float32")], {"right": True, "dtype": "int64"}),
    ),
).set_support_level(6)


def searchsorted(sorted_sequence: Operand, values: Operand, right: bool = False, dtype: str = "int32") -> Call:
    """The places of *values* in *sorted_sequence*, row by row. Source: ``relay.searchsorted``.

    ``T[..., n], T[..., m] -> int[..., m]``; a sequence of one axis serves all values.
    """
    return make_call("searchsorted", [as_expr(sorted_sequence), as_expr(values)], SearchSortedAttrs(right, dtype))


def _adv_index_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    data, *indices = tuple_arg(types)
    if not 0 < len(indices) <= data.ndim:
        raise TypeInferenceError(f"takes 1 to {data.ndim} indices of {data}, got {len(indices)}")
    same_dtype(indices)
    if not is_integer(indices[0].dtype):
        raise TypeInferenceError(f"indices must be integers, got {indices[0].dtype}")
    shape: tuple[Dim, ...] = ()
    for index in indices:
        shape = broadcast_shape(shape, index.shape)
    return TensorType((*shape, *data.shape[len(indices) :]), data.dtype)


def _adv_index_compute(attrs: Attrs | None, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data, *indices = inputs
    shape = te.shape_of(out_type)
    rank = len(shape) - (data.ndim - len(indices))

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        places = [
            wrap_negative(broadcast_load(index, i[:rank], shape[:rank]), data.shape[k])
            for k, index in enumerate(indices)
        ]
        return data[(*places, *i[rank:])]

    return [te.compute(shape, element, "adv_index")]


_ROWS, _COLUMNS = np.array([[0, 2], [1, -1]], "int64"), np.array([3, 0], "int64")
register_op(
    "adv_index",
    inputs=("inputs",),
    rel=_adv_index_rel,
    pattern=OpPattern.INJECTIVE,
    compute=_adv_index_compute,
    doc="The elements at positions along the first axes, which are broadcast together as in numpy.",
    samples=(Sample([[(3, 4, 2), _ROWS, _COLUMNS]]), Sample([[(3, 4), _ROWS]])),
)


def adv_index(inputs: Iterable[RelayExpr]) -> Call:
    """``data[indices]`` of ``[data, *indices]``, as numpy's advanced indexing. Source: ``relay.adv_index``."""
    return make_call("adv_index", [as_tuple_expr(inputs, "adv_index")])


def _permutation_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    data = tensor_arg(types, 0)
    if data.ndim != 1 or not is_integer(data.dtype):
        raise TypeInferenceError(f"takes a vector of integers, got {data}")
    return identity(types, attrs)


register_op(
    "invert_permutation",
    inputs=("data",),
    rel=_permutation_rel,
    doc="The permutation that undoes another: ``y[x[i]] = i``.",
    samples=(Sample([np.array([3, 4, 0, 2, 1], "int32")]),),
)


def invert_permutation(data: Operand) -> Call:
    """The inverse of the permutation *data*: ``int[n] -> int[n]``. Source: ``relay.invert_permutation``."""
    return make_call("invert_permutation", [as_expr(data)])


def _sliding_window_rel(types: Sequence[Type], attrs: SlidingWindowAttrs) -> Type:
    data = tensor_arg(types, 0)
    axis, window, strides = normalize_axis(attrs.axis, data.ndim), attrs.window_shape, attrs.strides
    if not window or len(window) != data.ndim - axis or len(strides) != len(window):
        raise TypeInferenceError(
            f"window_shape and strides must have a number for each of the {data.ndim - axis} axes from {attrs.axis} on,"
            f" got {window} and {strides}"
        )
    counts: list[Dim] = []
    for size, extent, stride in zip(data.shape[axis:], window, strides, strict=True):
        if min(extent, stride) < 1 or (isinstance(size, int) and extent > size):
            raise TypeInferenceError(f"a window of {extent} by steps of {stride} does not fit in an axis of {size}")
        counts.append(Any() if isinstance(size, Any) else (size - extent) // stride + 1)
    return TensorType((*data.shape[:axis], *counts, *window), data.dtype)


def _sliding_window_compute(
    attrs: SlidingWindowAttrs, inputs: Sequence[te.Tensor], out_type: TensorType
) -> list[te.Tensor]:
    data, m = inputs[0], len(attrs.window_shape)
    first = data.ndim - m

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        starts = [i[first + k] * stride for k, stride in enumerate(attrs.strides)]
        return data[(*i[:first], *(start + i[first + m + k] for k, start in enumerate(starts)))]

    return [te.compute(te.shape_of(out_type), element, "sliding_window")]


register_op(
    "sliding_window",
    inputs=("data",),
    attrs=SlidingWindowAttrs,
    rel=_sliding_window_rel,
    pattern=OpPattern.INJECTIVE,
    traits=move(),
    compute=_sliding_window_compute,
    operations=lambda attrs, types, out: 0,
    doc="Every window over the last axes, one beside the other.",
    samples=(
        Sample([(2, 6, 5)], {"axis": 1, "window_shape": (3, 2), "strides": (2, 1)}),
        Sample([(5,)], {"window_shape": (3,), "strides": (1,)}, "int32", -9, 9),
    ),
).set_support_level(3)


def sliding_window(data: Operand, axis: int, window_shape: Sequence[int], strides: Sequence[int]) -> Call:
    """Windows over the axes from *axis* on: ``T[..., *S] -> T[..., *counts, *window]``.

    Source: ``relay.sliding_window``.
    """
    attrs = SlidingWindowAttrs(axis, tuple(window_shape), tuple(strides))
    return make_call("sliding_window", [as_expr(data)], attrs)
