"""Axes that an input holds: what computes along them does so along the last axis of a matrix.

``dyn.group_axes`` moves the axes behind the others and makes a matrix of both groups, ``dyn.ungroup_axes`` puts its
columns back, and ``dyn.axes_shape`` says the shape of what has lost, or gained, these axes. A reduction, a scan or a
transform between them is the one along axis 1, which need not know that the axes were not. Source: ours; Relay has
static axes alone, but in ``dyn.squeeze`` and ``dyn.expand_dims``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.dims import MAX_RANK
from byoc.ir.op import Sample, register_op
from byoc.ir.traits import OpKind, Traits
from byoc.ir.types import Any, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_integer, tensor_arg

ONES, DROPPED, SQUEEZED, ALONE, INSERTED = SHAPE_FORMS = ("ones", "dropped", "squeezed", "alone", "inserted")


@dataclass(frozen=True)
class GroupAxesAttrs(Attrs):
    """Attributes of ``dyn.group_axes``: whether no axis at all means *every* axis; what an error begins with."""

    every: bool = False
    check: str = ""


@dataclass(frozen=True)
class UngroupAxesAttrs(Attrs):
    """Attributes of ``dyn.ungroup_axes``: whether the one axis has got another size, that of the matrix."""

    resized: bool = False
    check: str = ""


@dataclass(frozen=True)
class AxesShapeAttrs(Attrs):
    """Attributes of ``dyn.axes_shape``: the *form* is one of ``SHAPE_FORMS``; else as ``dyn.group_axes`` has them."""

    form: str = ONES
    every: bool = False
    check: str = ""


def _axes_arg(types: Sequence[Type], index: int) -> TensorType:
    axes = tensor_arg(types, index, "axes")
    if not is_integer(axes.dtype) or axes.ndim > 1:
        raise TypeInferenceError(f"axes must be integers, one or a vector, got {axes}")
    return axes


def _group_rel(types: Sequence[Type], attrs: GroupAxesAttrs) -> Type:
    _axes_arg(types, 1)
    return TensorType([Any(), Any()], tensor_arg(types, 0).dtype)


def _ungroup_rel(types: Sequence[Type], attrs: UngroupAxesAttrs) -> Type:
    matrix, like = tensor_arg(types, 0, "matrix"), tensor_arg(types, 1, "like")
    axes = _axes_arg(types, 2)
    if matrix.ndim != 2 or (attrs.resized and axes.shape not in ((), (1,))):
        raise TypeInferenceError(f"takes a matrix, and one axis where its size changes, got {matrix} and {axes}")
    return TensorType([Any()] * like.ndim if attrs.resized else like.shape, matrix.dtype)


def _shape_rel(types: Sequence[Type], attrs: AxesShapeAttrs) -> Type:
    rank, axes = tensor_arg(types, 0).ndim, _axes_arg(types, 1)
    if attrs.form not in SHAPE_FORMS:
        raise TypeInferenceError(f"form is one of {', '.join(SHAPE_FORMS)}, got {attrs.form!r}")
    if attrs.form == ONES:
        return TensorType([rank], "int64")
    count = axes.shape[0] if axes.ndim else 1
    if not isinstance(count, int):
        raise TypeInferenceError(
            f"how many dimensions remain must be known when compiling, and depends on the number of axes, {axes}"
        )
    count = rank if not count and attrs.every else count
    left = rank + count if attrs.form == INSERTED else rank - count
    if not 0 <= left <= MAX_RANK:
        raise TypeInferenceError(f"{count} axes for a tensor of rank {rank}")
    return TensorType([left], "int64")


_AXES = np.array([0, -1], "int64")
register_op(
    "dyn.group_axes",
    inputs=("data", "axes"),
    attrs=GroupAxesAttrs,
    rel=_group_rel,
    traits=Traits(OpKind.OTHER, finds_sizes=True),
    doc="A matrix of the axes that are not in a list of the run, and those that are: T[kept, chosen].",
    samples=(
        Sample([(2, 3, 4), _AXES]),
        Sample([(2, 3), np.array(1, "int32")]),
        Sample([(2, 3), np.zeros(0, "int64")], {"every": True}),
    ),
)
register_op(
    "dyn.ungroup_axes",
    inputs=("matrix", "like", "axes"),
    attrs=UngroupAxesAttrs,
    rel=_ungroup_rel,
    traits=Traits(OpKind.OTHER, finds_sizes=True),
    doc="What dyn.group_axes made a matrix of, with the axes in their places again.",
    samples=(
        Sample([(3, 8), (2, 3, 4), _AXES]),
        Sample([(8, 5), (2, 3, 4), np.array([1], "int64")], {"resized": True}),
    ),
)
register_op(
    "dyn.axes_shape",
    inputs=("data", "axes"),
    attrs=AxesShapeAttrs,
    rel=_shape_rel,
    traits=Traits(OpKind.OTHER, finds_sizes=True),
    doc="The shape of a tensor with 1 at the axes that an input holds, without them, or with them between the others.",
    samples=(
        Sample([(2, 3, 4), _AXES]),
        Sample([(2, 3, 4), _AXES], {"form": DROPPED}),
        Sample([(1, 3, 1), _AXES], {"form": SQUEEZED}),
        Sample([(1, 3, 1), _AXES], {"form": ALONE}),
        Sample([(2, 3), _AXES], {"form": INSERTED}),
    ),
)


def group_axes(data: Operand, axes: Operand, every: bool = False, check: str = "") -> Call:
    """``T[...], int[count] -> T[kept, chosen]``: the elements with *axes* behind the other axes, as a matrix.

    Args:
        data: any tensor.
        axes: which axes become the columns; negative ones count from the end. They are looked at by the run.
        every: whether no axis at all means every one.
        check: what an error begins with: the node of the model.
    """
    return make_call("dyn.group_axes", [as_expr(data), as_expr(axes)], GroupAxesAttrs(every, check))


def ungroup_axes(matrix: Operand, like: Operand, axes: Operand, resized: bool = False, check: str = "") -> Call:
    """``T[kept, chosen], U[...], int[count] -> T[...]``: what :func:`group_axes` made of a tensor of *like*'s shape.

    Args:
        matrix: its rows are the axes that were kept.
        like: a tensor of the shape that is wanted.
        axes: as they were given to :func:`group_axes`.
        resized: whether the one axis has the size of a row of *matrix*, not that of *like*.
        check: what an error begins with: the node of the model.
    """
    attrs = UngroupAxesAttrs(resized, check)
    return make_call("dyn.ungroup_axes", [as_expr(v) for v in (matrix, like, axes)], attrs)


def axes_shape(data: Operand, axes: Operand, form: str = ONES, every: bool = False, check: str = "") -> Call:
    """``T[...], int[count] -> int64[rank]``: the shape of *data* with 1 at *axes* (``ones``), or without them.

    Args:
        data: a tensor of which only the shape is asked for.
        axes: negative ones count from the end. They are looked at by the run.
        form: ``ones``; ``dropped`` without the axes; ``squeezed`` likewise, and they must have the size 1, with
            ``alone`` no other may; ``inserted`` with sizes of 1 at *axes* of the result.
        every: whether no axis at all means every one.
        check: what an error begins with: the node of the model.
    """
    return make_call("dyn.axes_shape", [as_expr(data), as_expr(axes)], AxesShapeAttrs(form, every, check))
