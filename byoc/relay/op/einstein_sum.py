"""Einstein sums, and sequences in reverse. Source: ``relay.einsum``, ``relay.reverse_sequence``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from byoc import te
from byoc.errors import TypeInferenceError, UserError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.types import Dim, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.builder import Operand, as_expr, as_tuple_expr, make_call
from byoc.relay.op.indexing import broadcast_index
from byoc.relay.op.type_relations import (
    broadcast_dim,
    is_integer,
    normalize_axis,
    same_dtype,
    tensor_arg,
    tuple_arg,
    unify_dim,
)
from byoc.runtime.kernels.einsum import parse_equation


@dataclass(frozen=True)
class EinsumAttrs(Attrs):
    """Attributes of ``einsum``."""

    equation: str = ""


@dataclass(frozen=True)
class ReverseSequenceAttrs(Attrs):
    """Attributes of ``reverse_sequence``."""

    seq_axis: int = 1
    batch_axis: int = 0


def _sizes(attrs: EinsumAttrs, fields: Sequence[TensorType]) -> tuple[dict[str, Dim], str]:
    """The size of each letter, and the letters of the result."""
    try:
        inputs, output = parse_equation(attrs.equation, [f.ndim for f in fields])
    except UserError as error:
        raise TypeInferenceError(str(error)) from error
    sizes: dict[str, Dim] = {}
    for letters, field in zip(inputs, fields, strict=True):
        for letter, dim in zip(letters, field.shape, strict=True):
            sizes[letter] = broadcast_dim(sizes.get(letter, 1), dim)
    return sizes, output


def _einsum_rel(types: Sequence[Type], attrs: EinsumAttrs) -> Type:
    fields = tuple_arg(types)
    sizes, output = _sizes(attrs, fields)
    return TensorType([sizes[c] for c in output], same_dtype(fields))


def _einsum_compute(attrs: EinsumAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    terms, output = parse_equation(attrs.equation, [t.ndim for t in inputs])
    extents: dict[str, te.Dimension] = {}
    for letters, tensor in zip(terms, inputs, strict=True):
        for letter, dim in zip(letters, tensor.shape, strict=True):
            known = extents.get(letter, 1)
            extents[letter] = dim if known == 1 or (isinstance(dim, int) and dim != 1) else known

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        at: dict[str, te.PrimExpr] = dict(zip(output, i, strict=True))
        over = [te.reduce_axis(extents[c], c) for c in extents if c not in output]
        at.update((axis.name, axis) for axis in over)
        product: te.PrimExpr | None = None
        for letters, tensor in zip(terms, inputs, strict=True):
            own = zip(letters, tensor.shape, strict=True)
            value = tensor[tuple(broadcast_index(at[c], dim, extents[c]) for c, dim in own)]
            product = value if product is None else product * value
        return te.sum(product, over) if over else product  # type: ignore[return-value, arg-type]

    return [te.compute(te.shape_of(out_type), element, "einsum")]


def _einsum_operations(attrs: EinsumAttrs, in_types: Sequence[Type], out_type: Type) -> int:
    fields = tuple_arg(in_types)
    points = 1
    for dim in _sizes(attrs, fields)[0].values():
        points *= dim if isinstance(dim, int) else 1
    return points * max(len(fields), 1)


register_op(
    "einsum", inputs=("data",), attrs=EinsumAttrs, rel=_einsum_rel, pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    compute=_einsum_compute, operations=_einsum_operations,
    doc="The Einstein sum of the tensors of a tuple: products, summed over the letters that the result lacks.",
    samples=(
        Sample([[(2, 3), (3, 4)]], {"equation": "ij,jk->ik"}), Sample([[(3, 3)]], {"equation": "ii"}),
        Sample([[(2, 5, 3), (2, 3, 4)]], {"equation": "...ij,...jk->...ik"}),
        Sample([[(2, 3)]], {"equation": "ij->ji"}), Sample([[(3,), (3,), (2,)]], {"equation": "i,i,k"}),
        Sample([[(1, 5, 3), (2, 3, 4)]], {"equation": "...ij,...jk"}),
    ),
)


def einsum(data: RelayExpr | Iterable[RelayExpr], equation: str) -> Call:
    """The Einstein sum of the tensors in *data*. Source: ``relay.einsum``."""
    return make_call("einsum", [as_tuple_expr(data, "einsum")], EinsumAttrs(equation))


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
    "reverse_sequence", inputs=("data", "seq_lengths"), attrs=ReverseSequenceAttrs, rel=_reverse_sequence_rel,
    pattern=OpPattern.INJECTIVE, compute=_reverse_sequence_compute, operations=lambda attrs, in_types, out_type: 0,
    doc="Each sequence of a batch in reverse order up to its own length.",
    samples=(
        Sample([(3, 4), np.array([2, 4, 0], "int64")]),
        Sample([(4, 2, 3), np.array([9, 1], "int32")], {"seq_axis": 0, "batch_axis": 1}),
    ),
)


def reverse_sequence(data: Operand, seq_lengths: Operand, seq_axis: int = 1, batch_axis: int = 0) -> Call:
    """The sequences of *data* in reverse order up to *seq_lengths*. Source: ``relay.reverse_sequence``."""
    args = [as_expr(data), as_expr(seq_lengths)]
    return make_call("reverse_sequence", args, ReverseSequenceAttrs(seq_axis, batch_axis))
