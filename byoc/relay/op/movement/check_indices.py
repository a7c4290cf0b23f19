"""``check_indices``: positions from indices as ONNX has them, an index outside its dimension being an error of the run.

Relay's operators that take elements by their positions move an index that is outside (``take`` by its mode) or leave
it undefined. Where a model's language calls that an error, this operator stands before them: it counts negative indices
from the end and gives positions that are inside. One name is enough for all who gather and scatter, on every backend;
one that does not know it is handed positions that the host has checked. Source: ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.indexing import as_index
from byoc.relay.op.core.type_relations import is_integer, normalize_axis, tensor_arg
from byoc.te.expr import INDEX, Checked, Dimension, PrimExpr


@dataclass(frozen=True)
class CheckIndicesAttrs(Attrs):
    """Attributes of ``check_indices``: the *sizes* of the dimensions, and what the *check* is called in an error.

    One size is for all indices, several for the coordinates along the last axis of the indices. *axes* number the
    dimensions in the tensor that they are of.
    """

    sizes: tuple[int, ...]
    axes: tuple[int, ...]
    check: str = ""


@dataclass(frozen=True)
class CheckIndicesLikeAttrs(Attrs):
    """Attributes of ``check_indices_like``: the dimensions are *axes* of the second input."""

    axes: tuple[int, ...]
    check: str = ""


def _indices(types: Sequence[Type], count: int) -> TensorType:
    """The type of the indices, into *count* dimensions."""
    indices = tensor_arg(types, 0, "indices")
    if not is_integer(indices.dtype):
        raise TypeInferenceError(f"indices must be integers, got {indices.dtype}")
    if count < 1 or (count > 1 and (not indices.shape or indices.shape[-1] != count)):
        raise TypeInferenceError(f"the last axis of {indices} must hold a coordinate for each of {count} dimensions")
    return indices


def _check_rel(types: Sequence[Type], attrs: CheckIndicesAttrs) -> Type:
    if len(attrs.sizes) != len(attrs.axes):
        raise TypeInferenceError(f"{len(attrs.sizes)} sizes are given for {len(attrs.axes)} axes")
    return _indices(types, len(attrs.sizes))


def _check_like_rel(types: Sequence[Type], attrs: CheckIndicesLikeAttrs) -> Type:
    data = tensor_arg(types, 1, "data")
    for axis in attrs.axes:
        normalize_axis(axis, data.ndim)
    return _indices(types, len(attrs.axes))


def _positions(
    indices: te.Tensor, sizes: Sequence[Dimension], axes: Sequence[int], check: str, out_type: TensorType
) -> list[te.Tensor]:
    def element(*i: PrimExpr) -> PrimExpr:
        index = te.cast(INDEX, indices[i])
        found = [
            Checked(index, as_index(size), f"{check} along axis {axis}" if check else f"axis {axis}")
            for size, axis in zip(sizes, axes, strict=True)
        ]
        value: PrimExpr = found[-1]
        for k in range(len(found) - 2, -1, -1):
            value = te.if_then_else(i[-1].equal(k), found[k], value)
        return te.cast(indices.dtype, value)

    return [te.compute(te.shape_of(out_type), element, "positions")]


def _check_compute(attrs: CheckIndicesAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    return _positions(inputs[0], attrs.sizes, attrs.axes, attrs.check, out_type)


def _check_like_compute(
    attrs: CheckIndicesLikeAttrs, inputs: Sequence[te.Tensor], out_type: TensorType
) -> list[te.Tensor]:
    indices, data = inputs
    axes = [axis % data.ndim for axis in attrs.axes]
    return _positions(indices, [data.shape[axis] for axis in axes], axes, attrs.check, out_type)


_NONE = lambda attrs, in_types, out_type: 0  # noqa: E731 - no arithmetic of the model's
_INDICES = np.array([[0, 3], [-4, -1]], "int64")
register_op(
    "check_indices",
    inputs=("indices",),
    attrs=CheckIndicesAttrs,
    rel=_check_rel,
    pattern=OpPattern.INJECTIVE,
    compute=_check_compute,
    operations=_NONE,
    doc="Indices as positions from the beginning of dimensions of known sizes; one that is outside is an error.",
    samples=(
        Sample([_INDICES], {"sizes": (4,), "axes": (1,)}),
        Sample([_INDICES.astype("int32")], {"sizes": (5, 4), "axes": (0, 1), "check": "node g (GatherND)"}),
    ),
)
register_op(
    "check_indices_like",
    inputs=("indices", "data"),
    attrs=CheckIndicesLikeAttrs,
    rel=_check_like_rel,
    pattern=OpPattern.INJECTIVE,
    compute=_check_like_compute,
    operations=_NONE,
    doc="Indices as positions from the beginning of dimensions of a tensor; one that is outside is an error.",
    samples=(Sample([_INDICES, (2, 4)], {"axes": (1,)}), Sample([_INDICES, (5, 3, 4)], {"axes": (0, 2)})),
)


def check_indices(indices: Operand, sizes: Sequence[int], axes: Sequence[int], check: str = "") -> Call:
    """The positions of *indices*, which may be negative: ``int[...] -> int[...]``.

    Args:
        indices: any integers; where there are several sizes, coordinates along the last axis.
        sizes: those of the dimensions that the indices are for.
        axes: which dimensions these are, for the error.
        check: what the error begins with: the node of the model.
    """
    return make_call("check_indices", [as_expr(indices)], CheckIndicesAttrs(tuple(sizes), tuple(axes), check))


def check_indices_like(indices: Operand, data: Operand, axes: Sequence[int], check: str = "") -> Call:
    """As :func:`check_indices` for the dimensions *axes* of *data*, of which only the shape is asked for."""
    attrs = CheckIndicesLikeAttrs(tuple(axes), check)
    return make_call("check_indices_like", [as_expr(indices), as_expr(data)], attrs)
