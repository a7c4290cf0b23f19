"""``nn.fifo_buffer``: the last elements seen along an axis, of which each call adds some. Source: ``relay.nn``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.indexing import as_index
from byoc.relay.op.core.type_relations import normalize_axis, same_dtype, tensor_arg, unify_dim
from byoc.te import Index, PrimExpr, Tensor


@dataclass(frozen=True)
class FIFOBufferAttrs(Attrs):
    """Attributes of ``nn.fifo_buffer``."""

    axis: int = 0


def _relation(types: Sequence[Type], attrs: FIFOBufferAttrs) -> Type:
    data, buffer = tensor_arg(types, 0), tensor_arg(types, 1, "buffer")
    same_dtype([data, buffer])
    axis = normalize_axis(attrs.axis, buffer.ndim)
    if data.ndim != buffer.ndim or any(
        k != axis and unify_dim(a, b) is None for k, (a, b) in enumerate(zip(data.shape, buffer.shape, strict=True))
    ):
        raise TypeInferenceError(f"data and buffer may differ along axis {axis} alone, got {data} and {buffer}")
    new, kept = data.shape[axis], buffer.shape[axis]
    if isinstance(new, int) and isinstance(kept, int) and new > kept:
        raise TypeInferenceError(f"a buffer of {kept} cannot take {new} elements along axis {axis}")
    return buffer


def _compute(attrs: FIFOBufferAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    data, buffer = inputs
    axis = attrs.axis % buffer.ndim
    new, kept = as_index(data.shape[axis]), as_index(buffer.shape[axis])

    def element(*i: Index) -> PrimExpr:
        place = i[axis] + new
        old = buffer[(*i[:axis], place, *i[axis + 1 :])]
        return te.if_then_else(place < kept, old, data[(*i[:axis], place - kept, *i[axis + 1 :])])

    return [te.compute(buffer.shape, element, "fifo_buffer")]


register_op(
    "nn.fifo_buffer",
    inputs=("data", "buffer"),
    attrs=FIFOBufferAttrs,
    rel=_relation,
    pattern=OpPattern.OPAQUE,
    compute=_compute,
    doc="The buffer without its oldest elements, and then the data.",
    samples=(Sample([(2, 1, 3), (2, 4, 3)], {"axis": 1}), Sample([(2,), (3,)]), Sample([(2, 2), (2, 5)], {"axis": -1})),
)


def fifo_buffer(data: Operand, buffer: Operand, axis: int) -> Call:
    """*buffer* moved on by *data* along *axis*. Source: ``relay.nn.fifo_buffer``."""
    return make_call("nn.fifo_buffer", [as_expr(data), as_expr(buffer)], FIFOBufferAttrs(int(axis)))
