"""Operators whose results have sizes that elements say, as operators whose results have sizes that operands say.

What they find stands at the front of a tensor that is large enough for all that there may be, in the order of memory,
and behind the results comes the shape that they have: ``sequence.leading`` gives a tensor of it without a copy. So code
can be generated for them. What is behind the front of a tensor is not defined. Source: ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import Sample, register_op
from byoc.ir.size_var import times
from byoc.ir.traits import Conversion, OpKind, Traits
from byoc.ir.types import Dim, TensorType, TupleType, Type
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_integer, normalize_axis, tensor_arg
from byoc.relay.op.numeric.ordering import RET_TYPES, TopKAttrs
from byoc.relay.tuple_wrapper import TupleWrapper


@dataclass(frozen=True)
class LeadingOrderAttrs(TopKAttrs):
    """Attributes of ``dyn.leading_order``: a *k* below 1 means *every* element, or none."""

    every: bool = True


def _places_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    condition = tensor_arg(types, 0, "condition")
    count: Dim = 1
    for dim in condition.shape:
        count = times(count, dim)
    return TupleType([TensorType([count, condition.ndim], "int32"), TensorType([2], "int64")])


def _order_rel(types: Sequence[Type], attrs: LeadingOrderAttrs) -> Type:
    data, k = tensor_arg(types, 0), tensor_arg(types, 1, "k")
    normalize_axis(attrs.axis, data.ndim)
    if not is_integer(k.dtype) or k.shape not in ((), (1,)):
        raise TypeInferenceError(f"k must be one integer, got {k}")
    if attrs.ret_type not in RET_TYPES:
        raise TypeInferenceError(f"ret_type is one of {', '.join(RET_TYPES)}, got {attrs.ret_type!r}")
    values, indices = data, TensorType(data.shape, attrs.dtype)
    found = {"both": [values, indices], "values": [values], "indices": [indices]}[attrs.ret_type]
    return TupleType([*found, TensorType([data.ndim], "int64")])


# what is behind the front is not defined, so that samples find all
_ALL = np.array([[3, 1, 3, 2, 1], [4, 9, 5, 5, -1]], "int32")
register_op(
    "dyn.leading_places",
    inputs=("condition",),
    rel=_places_rel,
    traits=Traits(OpKind.OTHER, precision=Conversion.FOLLOW),
    doc="The indices of the nonzero elements at the front of int32[size, rank], and their shape: int64[2].",
    samples=(Sample([_ALL]), Sample([_ALL.astype("float32").reshape(5, 1, 2)])),
)
register_op(
    "dyn.leading_order",
    inputs=("data", "k"),
    attrs=LeadingOrderAttrs,
    rel=_order_rel,
    traits=Traits(OpKind.OTHER, precision=Conversion.FOLLOW),
    doc="The greatest (or least) elements along an axis, as many as an input says, at the front, and their shape.",
    samples=(
        Sample([_ALL, np.array([5], "int64")]),
        Sample([_ALL, np.array(2, "int32")], {"axis": 0, "ret_type": "indices", "is_ascend": True}),
        Sample([_ALL, np.array(0, "int32")], {"ret_type": "values"}),
    ),
)


def leading_order(data: Operand, k: Operand, attrs: LeadingOrderAttrs) -> TupleWrapper:
    """``T[...], int[1] -> (T[...], int[...], int64[rank])``: the first *k* in order, and their shape."""
    count = 3 if attrs.ret_type == "both" else 2
    return TupleWrapper(make_call("dyn.leading_order", [as_expr(data), as_expr(k)], attrs), count)
