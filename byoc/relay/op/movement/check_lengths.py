"""``check_lengths``: numbers of elements along an axis, one outside of what the axis has being an error of the run.

The lengths of sequences (ONNX ReverseSequence, and ``sequence_lens`` of LSTM, GRU and RNN) go from 0 to the size of
their axis. Relay's ``reverse_sequence`` takes what it is given; this operator stands before it, as ``check_indices``
does before gathers. Source: ours.
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
from byoc.runtime.core.errors import OF_LENGTHS
from byoc.te.expr import INDEX, Checked, PrimExpr


@dataclass(frozen=True)
class CheckLengthsAttrs(Attrs):
    """Attributes of ``check_lengths``: the *axis* of the second input, and what the *check* is called in an error."""

    axis: int
    check: str = ""


def _rel(types: Sequence[Type], attrs: CheckLengthsAttrs) -> Type:
    lengths = tensor_arg(types, 0, "lengths")
    if not is_integer(lengths.dtype):
        raise TypeInferenceError(f"lengths must be integers, got {lengths.dtype}")
    normalize_axis(attrs.axis, tensor_arg(types, 1, "data").ndim)
    return lengths


def _compute(attrs: CheckLengthsAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    """A length is a position among one more than there are elements; a negative one does not count from the end."""
    lengths, data = inputs
    axis = attrs.axis % data.ndim
    count = as_index(data.shape[axis]) + 1

    def element(*i: PrimExpr) -> PrimExpr:
        length = te.cast(INDEX, lengths[i])
        place = te.if_then_else(length < 0, length - count, length)
        return te.cast(lengths.dtype, Checked(place, count, f"{attrs.check}{OF_LENGTHS}{axis}"))

    return [te.compute(te.shape_of(out_type), element, "lengths")]


register_op(
    "check_lengths",
    inputs=("lengths", "data"),
    attrs=CheckLengthsAttrs,
    rel=_rel,
    pattern=OpPattern.INJECTIVE,
    compute=_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="Numbers of elements along an axis of a tensor; one that is below 0 or above its size is an error.",
    samples=(
        Sample([np.array([0, 4, 3], "int64"), (4, 3)], {"axis": 0}),
        Sample([np.array([2, 1], "int32"), (2, 5)], {"axis": -1, "check": "node r (LSTM)"}),
    ),
)


def check_lengths(lengths: Operand, data: Operand, axis: int, check: str = "") -> Call:
    """*lengths* as they are: ``int[...] -> int[...]``.

    Args:
        lengths: any integers.
        data: the tensor that they are of, of which only the shape is asked for.
        axis: which of its dimensions they count.
        check: what the error begins with: the node of the model.
    """
    return make_call("check_lengths", [as_expr(lengths), as_expr(data)], CheckLengthsAttrs(axis, check))
