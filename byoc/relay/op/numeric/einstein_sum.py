"""Einstein sums. Source: ``relay.einsum``."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from byoc import te
from byoc.errors import TypeInferenceError, UserError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import OpKind, ProductForm, Traits
from byoc.ir.types import Dim, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import as_tuple_expr, make_call
from byoc.relay.op.core.indexing import broadcast_index
from byoc.relay.op.core.type_relations import (
    broadcast_dim,
    same_dtype,
    tuple_arg,
)
from byoc.runtime.kernels.einsum import parse_equation


@dataclass(frozen=True)
class EinsumAttrs(Attrs):
    """Attributes of ``einsum``."""

    equation: str = ""


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
        factors = []
        for letters, tensor in zip(terms, inputs, strict=True):
            own = zip(letters, tensor.shape, strict=True)
            factors.append(tensor[tuple(broadcast_index(at[c], dim, extents[c]) for c, dim in own)])
        product = functools.reduce(operator.mul, factors)
        return te.sum(product, over) if over else product

    return [te.compute(te.shape_of(out_type), element, "einsum")]


def is_matrix_product(attrs: EinsumAttrs, ranks: Sequence[int]) -> bool:
    """Whether operands of such *ranks* are multiplied as batches of matrices: ``[..., i, j]`` by ``[..., j, k]``."""
    if len(ranks) != 2:
        return False
    (left, right), output = parse_equation(attrs.equation, ranks)
    if min(len(left), len(right)) < 2 or len(output) != len(left) or len({*left}) != len(left):
        return False
    row, inner, column = left[-2], left[-1], right[-1]
    same_batch = left[:-2] == right[:-2] == output[:-2]
    return same_batch and right[-2] == inner and output[-2:] == row + column and len({row, inner, column}) == 3


def _einsum_operations(attrs: EinsumAttrs, in_types: Sequence[Type], out_type: Type) -> int:
    fields = tuple_arg(in_types)
    points = 1
    for dim in _sizes(attrs, fields)[0].values():
        points *= dim if isinstance(dim, int) else 1
    return points * max(len(fields), 1)


register_op(
    "einsum",
    inputs=("data",),
    attrs=EinsumAttrs,
    rel=_einsum_rel,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.PRODUCT, product=ProductForm.OTHER),
    compute=_einsum_compute,
    operations=_einsum_operations,
    doc="The Einstein sum of the tensors of a tuple: products, summed over the letters that the result lacks.",
    samples=(
        Sample([[(2, 3), (3, 4)]], {"equation": "ij,jk->ik"}),
        Sample([[(3, 3)]], {"equation": "ii"}),
        Sample([[(2, 5, 3), (2, 3, 4)]], {"equation": "...ij,...jk->...ik"}),
        Sample([[(2, 3)]], {"equation": "ij->ji"}),
        Sample([[(3,), (3,), (2,)]], {"equation": "i,i,k"}),
        Sample([[(1, 5, 3), (2, 3, 4)]], {"equation": "...ij,...jk"}),
    ),
)


def einsum(data: RelayExpr | Iterable[RelayExpr], equation: str) -> Call:
    """The Einstein sum of the tensors in *data*. Source: ``relay.einsum``."""
    return make_call("einsum", [as_tuple_expr(data, "einsum")], EinsumAttrs(equation))
