"""Operators that take elements by their positions, as whole models have them.

ONNX's own operators look at indices, so that the checks that byoc makes of them (``check_indices``) are not written
where a gather behind them takes the indices as they were.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from byoc.ir.types import tensor_types
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.expr import Constant
from byoc.relay.onnx_writer.graph import element_type
from byoc.relay.onnx_writer.rules import Rule, Written, needs

_WHOLE = ("int32", "int64")  # what ONNX takes as indices


def take(at: Written) -> str:
    """Along one axis, or of all elements in a row; indices that nothing has looked at are moved inside."""
    attrs, (data, indices), ty = at.attrs, at.names, at.type(0)
    needs(not attrs.batch_dims, "take in batches")
    axis = 0 if attrs.axis is None else int(attrs.axis) % len(ty.shape)
    if attrs.axis is None:
        data = at.value("Reshape", data, at.graph.constant([-1]))
    checked = at.graph.unchecked.get(indices)
    if checked is not None and attrs.axis is not None:
        return at.value("Gather", data, checked, axis=axis)
    if _is_inside(at, axis):
        return at.value("Gather", data, indices, axis=axis)
    size = at.value("Gather", at.value("Shape", data), at.graph.constant(_scalar(axis)), axis=0)
    whole = indices if at.type(1).dtype == "int64" else at.value("Cast", indices, to=element_type("int64"))
    if attrs.mode == "wrap":
        return at.value("Gather", data, at.value("Mod", whole, size), axis=axis)
    last = at.value("Sub", size, at.graph.constant(_scalar(1)))
    inside = at.value("Min", at.value("Max", whole, at.graph.constant(_scalar(0))), last)
    return at.value("Gather", data, inside, axis=axis)


def _is_inside(at: Written, axis: int) -> bool:
    """Whether indices are constants that the data have, which none of them has to be moved."""
    indices, size = at.call.args[1], at.type(0).shape[axis]
    if not isinstance(indices, Constant) or not isinstance(size, int) or at.attrs.axis is None:
        return False
    places = indices.data.numpy()
    return str(places.dtype) in _WHOLE and bool(((places >= 0) & (places < size)).all())


def _scalar(value: int) -> np.ndarray:
    return np.asarray(value, "int64")


def checked_indices(at: Written) -> str:
    """Positions from the beginning; who takes elements by them gets the indices themselves, which ONNX looks at."""
    indices, dtype = at.names[0], at.type(0).dtype
    needs(dtype in _WHOLE, f"indices of {dtype}")
    if at.operator == "check_indices":
        sizes = at.graph.constant(np.asarray(at.attrs.sizes, dtype))
    else:
        shape = at.value("Shape", at.names[1])
        sizes = at.value("Gather", shape, at.graph.constant(list(map(int, at.attrs.axes))), axis=0)
        sizes = sizes if dtype == "int64" else at.value("Cast", sizes, to=element_type(dtype))
    negative = at.value("Less", indices, at.graph.scalar(0, dtype))
    if len(at.attrs.axes) == 1 and not at.type(0).shape:
        sizes = at.value("Squeeze", sizes)
    made = at.value("Where", negative, at.value("Add", indices, sizes), indices)
    at.graph.unchecked[made] = indices
    return made


def argwhere(at: Written) -> str:
    """A row for each element that is not 0, by its coordinates."""
    needs(at.type(0).shape, "argwhere of a scalar")
    found = at.value("Transpose", at.value("NonZero", at.names[0]), perm=[1, 0])
    return found if at.result.dtype == "int64" else at.value("Cast", found, to=element_type(at.result.dtype))


def _looked_at(at: Written, name: str, dtype: str) -> str:
    """Indices that were looked at, before they were: ONNX looks at them itself, and refuses what Relay moves inside."""
    found = at.graph.unchecked.get(name)
    needs(found is not None, f"{at.operator} at positions that nothing has looked at")
    assert found is not None
    return found if dtype in _WHOLE else at.value("Cast", found, to=element_type("int64"))


def gather(at: Written) -> str:
    """Along one axis, an index for each element."""
    indices = _looked_at(at, at.names[1], at.type(1).dtype)
    return at.value("GatherElements", at.names[0], indices, axis=int(at.attrs.axis))


def scatter_elements(at: Written) -> str:
    """Along one axis, an index for each update."""
    indices = _looked_at(at, at.names[1], at.type(1).dtype)
    reduction = _reduction(str(at.attrs.reduction))
    return at.value("ScatterElements", at.names[0], indices, at.names[2], axis=int(at.attrs.axis), reduction=reduction)


def _reduction(name: str) -> str | None:
    needs(name != "mean", "a mean of updates, which ONNX does not have")
    return None if name == "update" else name


def _coordinates(at: Written) -> str:
    """Indices whose coordinates stand along the last axis, where Relay has them along the first one."""
    name, ty = at.names[1], at.type(1)
    rank, axes = len(ty.shape), [*range(1, len(ty.shape)), 0]
    call, names = at.graph.made.get(name, (None, ()))
    inverse = [axes.index(k) for k in range(rank)]
    if call is not None and calls(call, "transpose") and list(call.attrs.axes or range(rank)[::-1]) == inverse:
        found = _looked_at(at, names[0], "int64")
    else:
        found = at.value("Transpose", _looked_at(at, name, "int64"), perm=axes)
    return found if ty.dtype == "int64" else at.value("Cast", found, to=element_type("int64"))


def gather_nd(at: Written) -> str:
    """Parts of a tensor, each by its coordinates."""
    batch = int(at.attrs.batch_dims)
    needs(not batch, "gather_nd in batches")
    return at.value("GatherND", at.names[0], _coordinates(at))


def scatter_nd(at: Written) -> str:
    """Parts of a tensor written, each at its coordinates."""
    reduction = _reduction(str(at.attrs.mode))
    return at.value("ScatterND", at.names[0], _coordinates(at), at.names[2], reduction=reduction)


def topk(at: Written) -> list[str]:
    """The first so many along an axis, in order, and where they are."""
    attrs, types = at.attrs, tensor_types(at.call.checked_type)
    needs(attrs.k >= 1, "topk of all elements")
    found = at.graph.node(
        "TopK",
        [at.names[0], at.graph.constant([int(attrs.k)])],
        2,
        axis=int(attrs.axis),
        largest=int(not attrs.is_ascend),
    )
    places = types[-1].dtype
    if attrs.ret_type != "values" and places != "int64":
        found[1] = at.value("Cast", found[1], to=element_type(places))
    return {"values": found[:1], "indices": found[1:]}.get(str(attrs.ret_type), found)


def suppressed(at: Written) -> list[str]:
    """Boxes that others do not suppress, and how many: ONNX gives no rows behind these, which nothing reads."""
    needs(
        at.attrs.output_format == "onnx" and at.result.dtype == "int64", f"boxes as {at.attrs.output_format} has them"
    )
    needs({at.type(0).dtype, at.type(1).dtype} == {"float32"}, f"boxes of {at.type(0).dtype}")
    limit = at.value("Cast", at.names[2], to=element_type("int64"))
    found = at.value("NonMaxSuppression", *at.names[:2], limit, *at.names[3:])
    return [found, at.value("Shape", found, start=0, end=1)]


RULES: Mapping[str, Rule] = {
    "vision.all_class_non_max_suppression": suppressed,
    "gather": gather,
    "gather_nd": gather_nd,
    "scatter_elements": scatter_elements,
    "scatter_nd": scatter_nd,
    "topk": topk,
    "take": take,
    "check_indices": checked_indices,
    "check_indices_like": checked_indices,
    "argwhere": argwhere,
}
