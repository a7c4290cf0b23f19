"""Operators that take elements by their positions, as whole models have them.

ONNX's own operators look at indices, so that the checks that byoc makes of them (``check_indices``) are not written
where a gather behind them takes the indices as they were.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

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
    size = at.value("Gather", at.value("Shape", data), at.graph.constant(_scalar(axis)), axis=0)
    whole = indices if at.type(1).dtype == "int64" else at.value("Cast", indices, to=element_type("int64"))
    if attrs.mode == "wrap":
        return at.value("Gather", data, at.value("Mod", whole, size), axis=axis)
    last = at.value("Sub", size, at.graph.constant(_scalar(1)))
    inside = at.value("Min", at.value("Max", whole, at.graph.constant(_scalar(0))), last)
    return at.value("Gather", data, inside, axis=axis)


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


RULES: Mapping[str, Rule] = {
    "take": take,
    "check_indices": checked_indices,
    "check_indices_like": checked_indices,
    "argwhere": argwhere,
}
