"""Operators that sort, rank and find: no tensor expression, they run on numpy kernels.

Ties keep their order: the smaller position comes first, ascending or descending. Source: ``relay/op/algorithm``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs, written
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Sample, register_op
from byoc.ir.traits import Conversion, LeadingForm, OpKind, Traits
from byoc.ir.types import Any, Dim, TensorType, TupleType, Type
from byoc.relay.expr import Call, check_expr
from byoc.relay.op.core.builder import Operand, as_expr, constant_ints, make_call
from byoc.relay.op.core.type_relations import identity, normalize_axis, tensor_arg
from byoc.relay.tuple_wrapper import TupleWrapper


@dataclass(frozen=True)
class ArgsortAttrs(Attrs):
    """Attributes of ``argsort`` and ``sort``; *dtype* is that of the positions."""

    axis: int = -1
    is_ascend: bool = True
    dtype: str = written("int32", left_out="")


@dataclass(frozen=True)
class TopKAttrs(Attrs):
    """Attributes of ``topk``: *ret_type* is ``both``, ``values`` or ``indices``; a *k* below 1 means all."""

    k: int = 1
    axis: int = -1
    ret_type: str = "both"
    is_ascend: bool = False
    dtype: str = written("int32", left_out="")


@dataclass(frozen=True)
class UniqueAttrs(Attrs):
    """Attributes of ``unique``."""

    sorted: bool = True
    return_counts: bool = False


def _sort_rel(types: Sequence[Type], attrs: ArgsortAttrs) -> TensorType:
    data = tensor_arg(types, 0)
    normalize_axis(attrs.axis, data.ndim)
    return data


def _argsort_rel(types: Sequence[Type], attrs: ArgsortAttrs) -> Type:
    return TensorType(_sort_rel(types, attrs).shape, attrs.dtype)


_TIES = np.array([[3, 1, 3, 2, 1], [0, 0, 5, 5, -1]], "int32")
_SORTS = (
    Sample([(3, 5)]),
    Sample([_TIES], {"is_ascend": False}),
    Sample([_TIES], {"axis": 0, "dtype": "int64"}),
)
register_op(
    "argsort",
    inputs=("data",),
    attrs=ArgsortAttrs,
    rel=_argsort_rel,
    traits=Traits(OpKind.OTHER, ranks=True),
    samples=_SORTS,
    doc="The positions that sort the data along an axis; equal elements keep their order.",
).set_support_level(6)
register_op(
    "sort",
    inputs=("data",),
    attrs=ArgsortAttrs,
    rel=_sort_rel,
    traits=Traits(OpKind.OTHER, carries=(0,), chooses=True),
    samples=_SORTS,
    doc="The data sorted along an axis.",
).set_support_level(6)


def argsort(data: Operand, axis: int = -1, is_ascend: bool = True, dtype: str = "int32") -> Call:
    """The positions that sort *data* along *axis*. Source: ``relay.argsort``."""
    return make_call("argsort", [as_expr(data)], ArgsortAttrs(axis, bool(is_ascend), dtype))


def sort(data: Operand, axis: int = -1, is_ascend: bool = True) -> Call:
    """*data* sorted along *axis*. Source: ``relay.sort``."""
    return make_call("sort", [as_expr(data)], ArgsortAttrs(axis, bool(is_ascend)))


RET_TYPES = ("both", "values", "indices")


def _topk_type(types: Sequence[Type], attrs: TopKAttrs, size: Dim | None) -> Type:
    data = tensor_arg(types, 0)
    axis = normalize_axis(attrs.axis, data.ndim)
    if attrs.ret_type not in RET_TYPES:
        raise TypeInferenceError(f"ret_type is one of {', '.join(RET_TYPES)}, got {attrs.ret_type!r}")
    dim = data.shape[axis]
    kept = size if size is not None else dim
    if isinstance(kept, int) and isinstance(dim, int) and kept > dim:
        raise TypeInferenceError(f"k is {kept}, more than the {dim} elements along axis {axis}")
    shape = (*data.shape[:axis], kept, *data.shape[axis + 1 :])
    values, indices = TensorType(shape, data.dtype), TensorType(shape, attrs.dtype)
    return {"both": TupleType([values, indices]), "values": values, "indices": indices}[attrs.ret_type]


def _topk_rel(types: Sequence[Type], attrs: TopKAttrs) -> Type:
    return _topk_type(types, attrs, attrs.k if attrs.k >= 1 else None)


def _dyn_topk_rel(types: Sequence[Type], attrs: TopKAttrs) -> Type:
    return _topk_type(types, attrs, Any())


register_op(
    "topk",
    inputs=("data",),
    attrs=TopKAttrs,
    rel=_topk_rel,
    traits=Traits(OpKind.OTHER, precision=Conversion.FOLLOW),
    doc="The *k* greatest (or least) elements along an axis and their positions, in order.",
    samples=(
        Sample([(3, 5)], {"k": 2}),
        Sample([_TIES], {"k": 3, "is_ascend": True, "dtype": "int64"}),
        Sample([_TIES], {"k": 0, "axis": 0, "ret_type": "values"}),
        Sample([_TIES], {"k": 4, "ret_type": "indices"}),
    ),
).set_support_level(6)
register_op(
    "dyn.topk",
    inputs=("data", "k"),
    attrs=TopKAttrs,
    rel=_dyn_topk_rel,
    traits=Traits(
        OpKind.OTHER, precision=Conversion.FOLLOW, leading_form=LeadingForm("dyn.leading_order", "axis")
    ).static("topk", {1: "k"}, ("k",)),
    doc="The greatest (or least) elements along an axis, as many as an input says.",
    samples=(Sample([_TIES, np.array([2], "int64")]), Sample([_TIES, np.array(1, "int32")], {"ret_type": "indices"})),
)


def topk(
    data: Operand,
    k: int | RelayExpr = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Call | TupleWrapper:
    """The *k* greatest elements of *data* along *axis*; *k* may be a tensor. Source: ``relay.topk``."""
    number = constant_ints(k)
    if number is not None:
        call = make_call("topk", [as_expr(data)], TopKAttrs(number[0], axis, ret_type, is_ascend, dtype))
    else:
        call = make_call(
            "dyn.topk", [as_expr(data), check_expr(k, "k")], TopKAttrs(0, axis, ret_type, is_ascend, dtype)
        )
    return TupleWrapper(call, 2) if ret_type == "both" else call


def _unique_rel(types: Sequence[Type], attrs: UniqueAttrs) -> Type:
    data = tensor_arg(types, 0)
    if data.ndim != 1:
        raise TypeInferenceError(f"unique takes a vector, got {data}")
    found = [TensorType([Any()], data.dtype), TensorType([Any()], "int32"), TensorType(data.shape, "int32")]
    counts = [TensorType([Any()], "int32")] if attrs.return_counts else []
    return TupleType([*found, TensorType([1], "int32"), *counts])


register_op(
    "unique",
    inputs=("data",),
    attrs=UniqueAttrs,
    rel=_unique_rel,
    doc="The distinct elements of a vector, where each stands first, which one each element is, and their number.",
    samples=(Sample([_TIES[0]]), Sample([_TIES[0]], {"sorted": False, "return_counts": True})),
)


def unique(data: Operand, is_sorted: bool = True, return_counts: bool = False) -> TupleWrapper:
    """Distinct elements, first positions, inverse positions, their number, and counts. Source: ``relay.unique``."""
    call = make_call("unique", [as_expr(data)], UniqueAttrs(is_sorted, return_counts))
    return TupleWrapper(call, 5 if return_counts else 4)


@dataclass(frozen=True)
class UniqueSlicesAttrs(Attrs):
    """Attributes of ``unique_slices``: the axis along which slices are compared, sorted or in the order found."""

    axis: int = 0
    sorted: bool = True


def _unique_slices_rel(types: Sequence[Type], attrs: UniqueSlicesAttrs) -> Type:
    data = tensor_arg(types, 0)
    axis = normalize_axis(attrs.axis, data.ndim)
    kept = TensorType((*data.shape[:axis], Any(), *data.shape[axis + 1 :]), data.dtype)
    places = TensorType([Any()], "int64")
    return TupleType([kept, places, TensorType([data.shape[axis]], "int64"), places])


register_op(
    "unique_slices",
    inputs=("data",),
    attrs=UniqueSlicesAttrs,
    rel=_unique_slices_rel,
    doc="The distinct slices along an axis, where each stands first, which one each slice is, and how many are equal.",
    samples=(Sample([_TIES]), Sample([_TIES % 2], {"axis": 1, "sorted": False})),
)


def unique_slices(data: Operand, axis: int = 0, is_sorted: bool = True) -> TupleWrapper:
    """``T[.., n, ..] -> (T[.., ?, ..], int64[?], int64[n], int64[?])``. Source: ONNX Unique-11 with an axis."""
    return TupleWrapper(make_call("unique_slices", [as_expr(data)], UniqueSlicesAttrs(axis, bool(is_sorted))), 4)


def _argwhere_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    return TensorType([Any(), tensor_arg(types, 0, "condition").ndim], "int32")


register_op(
    "argwhere",
    inputs=("condition",),
    rel=_argwhere_rel,
    traits=Traits(OpKind.OTHER, precision=Conversion.FOLLOW, leading_form=LeadingForm("dyn.leading_places")),
    doc="The indices of the nonzero elements, one row each.",
    samples=(Sample([_TIES]), Sample([(3,)], dtype="bool")),
)


def argwhere(condition: Operand) -> Call:
    """The indices of the nonzero elements of *condition*, int32[?, rank]. Source: ``relay.argwhere``."""
    return make_call("argwhere", [as_expr(condition)])


@dataclass(frozen=True)
class TriluAttrs(Attrs):
    """Attributes of ``trilu``: the upper triangle, or the lower one."""

    upper: bool = True


register_op(
    "trilu",
    inputs=("data", "k"),
    attrs=TriluAttrs,
    rel=identity,
    doc="The upper or lower triangle of the last two axes, from diagonal *k*; the rest is 0.",
    samples=(
        Sample([(2, 3, 4), np.array(1, "int64")]),
        Sample([(4, 3), np.array(-1, "int32")], {"upper": False}),
    ),
)


def trilu(data: Operand, k: Operand, upper: bool = True) -> Call:
    """A triangle of *data* from diagonal *k*. Source: ``relay.trilu``."""
    return make_call("trilu", [as_expr(data), as_expr(k, "int32")], TriluAttrs(upper))
