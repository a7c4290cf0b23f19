"""Elements in reverse order, of an axis or of each sequence. Source: ``relay.reverse``, ``relay.reverse_sequence``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs, written
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import move
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_integer, normalize_axis, tensor_arg, unify_dim


@dataclass(frozen=True)
class ReverseAttrs(Attrs):
    """Attributes of ``reverse``."""

    axis: int = written(0)


@dataclass(frozen=True)
class ReverseSequenceAttrs(Attrs):
    """Attributes of ``reverse_sequence``."""

    seq_axis: int = 1
    batch_axis: int = 0


def _reverse_compute(attrs: ReverseAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data = inputs[0]
    axis = attrs.axis % data.ndim

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        return data[(*i[:axis], te.as_expr(data.shape[axis], "int64") - 1 - i[axis], *i[axis + 1 :])]

    return [te.compute(data.shape, element, "reverse")]


def _reverse_rel(types: Sequence[Type], attrs: ReverseAttrs) -> Type:
    data = tensor_arg(types, 0)
    normalize_axis(attrs.axis, data.ndim)
    return data


register_op(
    "reverse",
    inputs=("data",),
    attrs=ReverseAttrs,
    rel=_reverse_rel,
    pattern=OpPattern.INJECTIVE,
    traits=move(),
    compute=_reverse_compute,
    doc="The elements in reverse order along an axis.",
    operations=lambda attrs, in_types, out_type: 0,
    samples=(Sample([(2, 3)], {"axis": 1}), Sample([(2, 3)], {"axis": -2})),
).set_support_level(3)


def reverse(data: Operand, axis: int) -> Call:
    """*data* in reverse order along *axis*. Source: ``relay.reverse``."""
    return make_call("reverse", [as_expr(data)], ReverseAttrs(axis))


def _reverse_sequence_rel(types: Sequence[Type], attrs: ReverseSequenceAttrs) -> Type:
    data, lengths = tensor_arg(types, 0), tensor_arg(types, 1, "seq_lengths")
    batch, steps = normalize_axis(attrs.batch_axis, data.ndim), normalize_axis(attrs.seq_axis, data.ndim)
    if batch == steps:
        raise TypeInferenceError(f"seq_axis and batch_axis are both {batch}")
    if lengths.ndim != 1 or not is_integer(lengths.dtype):
        raise TypeInferenceError(f"seq_lengths must be one integer for each of {data.shape[batch]}, got {lengths}")
    if unify_dim(lengths.shape[0], data.shape[batch]) is None:
        raise TypeInferenceError(  # the sentence of Relay, spelled as there
            "For reverse_sequnece seq_lengths size should match with dimension of batch axis, but got dimension of "
            f"batch_axis = {data.shape[batch]}, and seq_length size = {lengths.shape[0]}"
        )
    return data


def _reverse_sequence_compute(
    attrs: ReverseSequenceAttrs, inputs: Sequence[te.Tensor], out_type: TensorType
) -> list[te.Tensor]:
    data, lengths = inputs
    batch, axis = attrs.batch_axis % data.ndim, attrs.seq_axis % data.ndim

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        wanted = te.cast("int64", lengths[i[batch]])
        length = te.maximum(te.minimum(wanted, te.as_expr(data.shape[axis], "int64")), 0)
        step = te.if_then_else(i[axis] < length, length - 1 - i[axis], i[axis])
        return data[(*i[:axis], step, *i[axis + 1 :])]

    return [te.compute(te.shape_of(out_type), element, "reverse_sequence")]


register_op(
    "reverse_sequence",
    inputs=("data", "seq_lengths"),
    attrs=ReverseSequenceAttrs,
    rel=_reverse_sequence_rel,
    pattern=OpPattern.INJECTIVE,
    traits=move(),
    compute=_reverse_sequence_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="Each sequence of a batch in reverse order up to its own length.",
    samples=(
        Sample([(3, 4), np.array([2, 4, 0], "int64")]),
        Sample([(4, 2, 3), np.array([9, 1], "int32")], {"seq_axis": 0, "batch_axis": 1}),
    ),
).set_support_level(3)


def reverse_sequence(data: Operand, seq_lengths: Operand, seq_axis: int = 1, batch_axis: int = 0) -> Call:
    """The sequences of *data* in reverse order up to *seq_lengths*. Source: ``relay.reverse_sequence``."""
    args = [as_expr(data), as_expr(seq_lengths)]
    return make_call("reverse_sequence", args, ReverseSequenceAttrs(seq_axis, batch_axis))
