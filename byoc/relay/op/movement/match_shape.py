"""``match_shape``: what is known of a shape that the types do not say, checked when the graph runs.

An operator whose shape is an input gives unnamed dimensions, for which no code is generated. Where the reader of a
model knows better (the shape was computed from named dimensions), this operator says so, and all that follows has
names again. Source: ours; Relax's ``match_cast`` does the same for a binding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.dims import are_known
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.types import Dim, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.indexing import agreed, as_index
from byoc.relay.op.core.named_dims import dim_texts, named_dim
from byoc.relay.op.core.type_relations import tensor_arg, unify_dim


@dataclass(frozen=True)
class MatchShapeAttrs(Attrs):
    """Attributes of ``match_shape``: a number, ``?name`` or ``?`` for each dimension."""

    shape: tuple[str, ...]


def _match_shape_rel(types: Sequence[Type], attrs: MatchShapeAttrs) -> Type:
    data = tensor_arg(types, 0)
    if len(attrs.shape) != data.ndim:
        raise TypeInferenceError(f"{data} does not have the {len(attrs.shape)} dimensions of {attrs.shape}")
    dims = [unify_dim(named_dim(text), dim) for text, dim in zip(attrs.shape, data.shape, strict=True)]
    if not are_known(dims):
        raise TypeInferenceError(f"{data} cannot have the shape ({', '.join(attrs.shape)})")
    return TensorType(dims, data.dtype)


def _compute(attrs: MatchShapeAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    """The elements, where sizes that are to be the same are."""
    data, shape = inputs[0], te.shape_of(out_type)

    def place(index: te.PrimExpr, dim: te.Dimension, out: te.Dimension) -> te.PrimExpr:
        if dim == out:
            return index
        return te.minimum(index + agreed(dim, out), as_index(dim) - 1)

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        return data[tuple(place(*p) for p in zip(i, data.shape, shape, strict=True))]

    return [te.compute(shape, element, "match_shape")]


register_op(
    "match_shape",
    inputs=("data",),
    attrs=MatchShapeAttrs,
    rel=_match_shape_rel,
    pattern=OpPattern.INJECTIVE,
    compute=_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="The tensor itself, whose shape is checked against what is known of it.",
    samples=(
        Sample([(2, 3)], {"shape": ("?", "3")}),
        Sample([(2, 2)], {"shape": ("?N", "?N")}),
        Sample([(2, 3)], {"shape": ("?A", "?B")}),
        Sample([()], {"shape": ()}),
    ),
)


def match_shape(data: Operand, shape: Sequence[Dim]) -> Call:
    """*data*, which is known to have *shape*: numbers and named sizes, and ``Any()`` where nothing is known."""
    return make_call("match_shape", [as_expr(data)], MatchShapeAttrs(dim_texts(shape)))
