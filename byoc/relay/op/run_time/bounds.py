"""Bounds that inputs hold, looked at once and made what the dynamic operators take: slices, pads, parts, numbers.

Each of these gives small tensors of integers, whose meaning is that of Python's slices and of numpy's pads: a bound for
every axis, counted from the front and inside. Source: ours; the rules are those of ONNX Slice-13, Pad-19 and Split-18.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OPS, Sample, register_op
from byoc.ir.traits import OpKind, Traits
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.known_shapes import FKNOWN_ELEMENTS, FPLAIN_FORM, Known, pad_elements, parts_elements
from byoc.relay.op.core.type_relations import is_integer, is_number, normalize_axis, tensor_arg
from byoc.relay.op.core.window import differ
from byoc.relay.op.movement.create import shape_of
from byoc.relay.op.movement.join import concatenate
from byoc.relay.op.movement.shape import reshape
from byoc.relay.op.pointwise.elementwise import cast


@dataclass(frozen=True)
class BoundsAttrs(Attrs):
    """Attributes of ``dyn.slice_bounds``: what an error begins with."""

    check: str = ""


@dataclass(frozen=True)
class PadBoundsAttrs(Attrs):
    """Attributes of ``dyn.pad_bounds``: the *mode* of the padding, and what an error begins with."""

    mode: str = "constant"
    check: str = ""


@dataclass(frozen=True)
class SplitBoundsAttrs(Attrs):
    """Attributes of ``dyn.split_bounds``: the axis that is split, and what an error begins with."""

    axis: int = 0
    check: str = ""


@dataclass(frozen=True)
class CheckNumbersAttrs(Attrs):
    """Attributes of ``dyn.check_numbers``: the *least* that a number may be, and what an error calls it."""

    least: int = 0
    check: str = ""


def _integers(types: Sequence[Type], names: Sequence[str]) -> list[TensorType]:
    found = [tensor_arg(types, k + 1, name) for k, name in enumerate(names)]
    for name, ty in zip(names, found, strict=True):
        if not is_integer(ty.dtype) or ty.ndim > 1:
            raise TypeInferenceError(f"{name} must be a vector of integers, got {ty}")
    return found


def _slice_rel(types: Sequence[Type], attrs: BoundsAttrs) -> Type:
    given = _integers(types, ("starts", "ends", "axes", "steps"))
    if any(differ(a, b) for ty in given for a, b in zip(ty.shape, given[0].shape, strict=False)):
        raise TypeInferenceError(f"starts, ends, axes and steps must be equally many, got {', '.join(map(str, given))}")
    return TensorType([3, tensor_arg(types, 0).ndim], "int64")


def _pad_rel(types: Sequence[Type], attrs: PadBoundsAttrs) -> Type:
    pads, axes = _integers(types, ("pads", "axes"))
    length, count = (*pads.shape, None)[0], (*axes.shape, None)[0]
    if isinstance(length, int) and isinstance(count, int) and length != 2 * count:
        raise TypeInferenceError(f"pads must be two numbers for each of {count} axes, got {pads}")
    return TensorType([4, tensor_arg(types, 0).ndim], "int64")


def _plain_pad_bounds(call: Call, known: Known) -> Call | None:
    """The bounds of pads that cut nothing, of every axis in its place."""
    rank = tensor_arg([call.args[0].checked_type], 0).ndim
    if known(2) != [*range(rank)] or pad_elements(call, known) is None:
        return None
    rows = [as_expr(np.zeros(rank, "int64")), shape_of(call.args[0], "int64"), cast(call.args[1], "int64")]
    return reshape(concatenate(rows, axis=0), [4, rank])


def _split_rel(types: Sequence[Type], attrs: SplitBoundsAttrs) -> Type:
    normalize_axis(attrs.axis, tensor_arg(types, 0).ndim)
    (sizes,) = _integers(types, ("sizes",))
    if sizes.ndim != 1 or not isinstance(sizes.shape[0], int):
        raise TypeInferenceError(f"the number of parts must be known when compiling, got {sizes}")
    return TensorType([sizes.shape[0] + 1], "int64")


def _numbers_rel(types: Sequence[Type], attrs: CheckNumbersAttrs) -> Type:
    value = tensor_arg(types, 0, "value")
    if not is_number(value.dtype):
        raise TypeInferenceError(f"takes numbers, got {value}")
    return TensorType(value.shape, "int64")


def _ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, "int64")


_BOUNDS = Traits(OpKind.OTHER, finds_sizes=True)
register_op(
    "dyn.slice_bounds",
    inputs=("data", "starts", "ends", "axes", "steps"),
    attrs=BoundsAttrs,
    rel=_slice_rel,
    traits=_BOUNDS,
    doc="Begin, end and stride of a slice for every axis, from numbers for some axes: int64[3, rank].",
    samples=(
        Sample([(4, 5), _ints(1), _ints(99), _ints(-1), _ints(2)]),
        Sample([(4, 5), _ints(-9, 3), _ints(-9, 0), _ints(1, 0), _ints(-1, -2)]),
    ),
)
register_op(
    "dyn.pad_bounds",
    inputs=("data", "pads", "axes"),
    attrs=PadBoundsAttrs,
    rel=_pad_rel,
    traits=_BOUNDS,
    doc="Where each axis begins and ends, and how many elements are put before and behind: int64[4, rank].",
    samples=(
        Sample([(4, 5), _ints(1, -2, 0, 3), _ints(0, 1)]),
        Sample([(4, 5), _ints(1, 2), _ints(-1)], {"mode": "reflect"}),
    ),
)
OPS["dyn.pad_bounds"].set_attr(FKNOWN_ELEMENTS, pad_elements)
OPS["dyn.pad_bounds"].set_attr(FPLAIN_FORM, _plain_pad_bounds)
register_op(
    "dyn.split_bounds",
    inputs=("data", "sizes"),
    attrs=SplitBoundsAttrs,
    rel=_split_rel,
    traits=_BOUNDS,
    doc="Where the parts of given sizes begin along an axis, and at last its size: int64[count + 1].",
    samples=(Sample([(4, 5), _ints(2, 0, 3)], {"axis": 1}),),
)
OPS["dyn.split_bounds"].set_attr(FKNOWN_ELEMENTS, parts_elements)
register_op(
    "dyn.check_numbers",
    inputs=("value",),
    attrs=CheckNumbersAttrs,
    rel=_numbers_rel,
    traits=_BOUNDS,
    doc="Whole numbers as int64; one that is less than it may be is an error.",
    samples=(Sample([_ints(3)], {"least": 1}), Sample([np.array(2.0, "float32")])),
)


def slice_bounds(data: Operand, starts: Operand, ends: Operand, axes: Operand, steps: Operand, check: str = "") -> Call:
    """``int64[3, rank]``: begin, end and stride for every axis of *data*, as ``dyn.strided_slice`` takes them.

    Args:
        data: a tensor of which only the shape is asked for.
        starts: as ONNX's Slice has them; *ends*, *axes* and *steps* likewise, equally many.
        ends: beyond the data they are moved to its edge, as *starts* are.
        axes: which axes are cut; the others are whole.
        steps: no 0; a negative one walks to the front.
        check: what an error begins with: the node of the model.
    """
    args = [as_expr(v) for v in (data, starts, ends, axes, steps)]
    return make_call("dyn.slice_bounds", args, BoundsAttrs(check))


def pad_bounds(data: Operand, pads: Operand, axes: Operand, mode: str = "constant", check: str = "") -> Call:
    """``int64[4, rank]``: where to cut every axis of *data*, begin and end, and how much to put before and behind.

    Args:
        data: a tensor of which only the shape is asked for.
        pads: as ONNX's Pad has them: before each of *axes*, then behind each; negative ones cut.
        axes: which axes are padded.
        mode: constant, edge, reflect or wrap, of which the last three need elements to take.
        check: what an error begins with: the node of the model.
    """
    return make_call("dyn.pad_bounds", [as_expr(v) for v in (data, pads, axes)], PadBoundsAttrs(mode, check))


def split_bounds(data: Operand, sizes: Operand, axis: int, check: str = "") -> Call:
    """``T[...], int[count] -> int64[count + 1]``: the places between parts of *sizes*, which make up the *axis*."""
    return make_call("dyn.split_bounds", [as_expr(data), as_expr(sizes)], SplitBoundsAttrs(axis, check))


def check_numbers(value: Operand, least: int, check: str = "") -> Call:
    """``T[...] -> int64[...]``: *value*, which must be whole numbers from *least* on; an error begins with *check*."""
    return make_call("dyn.check_numbers", [as_expr(value)], CheckNumbersAttrs(least, check))
