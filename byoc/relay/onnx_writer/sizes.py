"""Operators that read sizes, or make tensors of sizes that the run gives, as whole models have them.

A free size is read from a value before that has it (``GraphWriter.size``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from byoc.ir.types import Dim
from byoc.relay.onnx_writer import movement
from byoc.relay.onnx_writer.graph import element_type
from byoc.relay.onnx_writer.rules import Rule, Written, needs
from byoc.runtime.kernels.movement.transform import VIEWS


def shape_of(at: Written) -> str:
    """The sizes of a tensor."""
    return _whole(at, at.value("Shape", at.names[0]))


def ndarray_size(at: Written) -> str:
    """The number of a tensor's elements."""
    return _whole(at, at.value("Size", at.names[0]))


def _whole(at: Written, name: str) -> str:
    return name if at.result.dtype == "int64" else at.value("Cast", name, to=element_type(at.result.dtype))


def reshape(at: Written) -> str:
    """To the result's shape: sizes that a value before has, and one more that remains."""
    free = [d for d in at.result.shape if not isinstance(d, int)]
    if len(free) <= 1 and (not free or 0 not in at.result.shape):
        return movement.reshape(at)
    unknown = [d for d in free if at.graph.size(d) is None]
    needs(len(unknown) <= 1, f"a shape with several sizes that only the run knows, {at.result}")
    needs(not unknown or 0 not in at.result.shape, f"a shape with an unknown size beside 0, {at.result}")
    shape = _sizes(at, at.result.shape, -1)
    return at.value("Reshape", at.names[0], shape, allowzero=None if unknown else 1)


def _sizes(at: Written, dims: Sequence[Dim], unknown: int | None = None) -> str:
    """A vector of *dims*; one that no value before has is *unknown*. Raises UnwritableError without that."""
    if all(isinstance(d, int) for d in dims):
        return at.graph.constant([int(str(d)) for d in dims])
    parts = []
    for dim in dims:
        found = at.graph.constant([dim]) if isinstance(dim, int) else at.graph.size(dim)
        if found is None:
            needs(unknown is not None, f"the size {dim}, which no value before has")
            found = at.graph.constant([unknown or 0])
        parts.append(found)
    return at.value("Concat", *parts, axis=0)


def broadcast_to(at: Written) -> str:
    """To the result's shape."""
    return at.value("Expand", at.names[0], _sizes(at, at.result.shape))


def _int64(at: Written, number: int) -> str:
    """Argument *number*, a vector of sizes, as ONNX takes one."""
    name = at.names[number]
    return name if at.type(number).dtype == "int64" else at.value("Cast", name, to=element_type("int64"))


def reshape_of_run(at: Written) -> str:
    """To a shape that the run gives."""
    return at.value("Reshape", at.names[0], _int64(at, 1), allowzero=1 if at.attrs.allowzero else None)


def broadcast_of_run(at: Written) -> str:
    """To a shape that the run gives, which says of one that is smaller nothing else."""
    return at.value("Expand", at.names[0], _int64(at, 1))


def _of_result(at: Written) -> str:
    return _sizes(at, at.result.shape)


def _of_first(at: Written) -> str:
    return at.value("Shape", at.names[0])


def _of_last(at: Written) -> str:
    return _int64(at, len(at.names) - 1)


def filled(shape: Rule, number: float) -> Rule:
    """The rule that writes *number* in every element of *shape*."""
    return lambda at: at.value("Expand", at.graph.scalar(number, at.result.dtype), str(shape(at)))


def filled_with(place: int, shape: Rule) -> Rule:
    """The rule that writes the argument at *place*, a scalar, in every element of *shape*."""
    return lambda at: at.value(
        "Expand", at.value("Cast", at.names[place], to=element_type(at.result.dtype)), str(shape(at))
    )


def tile_of_run(at: Written) -> str:
    """As often along each axis as the run says."""
    needs(at.type(1).shape == (len(at.type(0).shape),), "tile with other repeats than one for each axis")
    return at.value("Tile", at.names[0], _int64(at, 1))


def slice_of_run(at: Written) -> str:
    """By begins, ends and steps that the run gives."""
    attrs, count = at.attrs, at.type(1).shape[0]
    needs(attrs.slice_mode == "end" and len(at.names) == 4, "a slice of other than begins, ends and steps")
    needs(isinstance(count, int), "a slice along a number of axes that the run gives")
    axes = list(map(int, attrs.axes)) if attrs.axes else list(range(int(str(count))))
    begins, ends, steps = (_int64(at, k) for k in (1, 2, 3))
    return at.value("Slice", at.names[0], begins, ends, at.graph.constant(axes), steps)


def arange(at: Written) -> str:
    """From a start by steps to before a stop."""
    needs(at.result.dtype in ("int32", "int64", "float32", "float64", "int16"), f"arange of {at.result.dtype}")
    scalars = [at.value("Reshape", name, at.graph.constant(np.zeros(0, "int64"))) for name in at.names[:3]]
    same = [
        name if at.type(k).dtype == at.result.dtype else at.value("Cast", name, to=element_type(at.result.dtype))
        for k, name in enumerate(scalars)
    ]
    return at.value("Range", *same)


def match_shape(at: Written) -> str:
    """The tensor itself: the names of its sizes are no operation."""
    return at.value("Identity", at.names[0])


def check_condition(at: Written) -> str:
    """The tensor itself in a branch in which the condition is what it has to be."""
    holds = at.graph.holds.get(at.graph.source(at.names[1]))
    needs(holds is bool(at.attrs.wanted), "a check of a condition that only the run knows")
    return at.names[0]


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(VIEWS, reshape),
    "zeros": filled(_of_result, 0),
    "ones": filled(_of_result, 1),
    "full": filled_with(0, _of_result),
    "zeros_like": filled(_of_first, 0),
    "ones_like": filled(_of_first, 1),
    "full_like": filled_with(1, _of_first),
    "dyn.zeros": filled(_of_last, 0),
    "dyn.ones": filled(_of_last, 1),
    "dyn.full": filled_with(0, _of_last),
    "dyn.reshape": reshape_of_run,
    "dyn.broadcast_to": broadcast_of_run,
    "dyn.tile": tile_of_run,
    "dyn.strided_slice": slice_of_run,
    "shape_of": shape_of,
    "ndarray_size": ndarray_size,
    "strided_slice": movement.sliced,
    "broadcast_to": broadcast_to,
    "arange": arange,
    "match_shape": match_shape,
    "check_condition": check_condition,
    "sequence.any_rank": match_shape,
}
