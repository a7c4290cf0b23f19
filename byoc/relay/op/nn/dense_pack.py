"""``nn.contrib_dense_pack``: a dense layer whose weight stands in blocks of rows. Source: ``relay.nn``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from byoc import te
from byoc.errors import TypeInferenceError, UserError
from byoc.ir.attrs import Attrs, written
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import OpKind, ProductForm, Traits
from byoc.ir.types import Any, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.relay.op.core.window import differ, tensor_of
from byoc.runtime.kernels.movement.layouts import parse_layout
from byoc.te import Index, PrimExpr, Tensor


@dataclass(frozen=True)
class DensePackAttrs(Attrs):
    """Attributes of ``nn.contrib_dense_pack``: the layout of the weight is ``NC`` or ``NC16n``."""

    units: int | None = written(None)
    out_dtype: str = ""
    weight_layout: str = "NC"


def _block(attrs: DensePackAttrs) -> int:
    """The rows of a block of the weight; 0 where it has none."""
    try:
        axes = parse_layout(attrs.weight_layout)
    except UserError as error:
        raise TypeInferenceError(str(error)) from error
    if [a.letter for a in axes] not in (["N", "C"], ["N", "C", "N"]):
        raise TypeInferenceError(f"weight_layout is NC, or NC and a block of n, got {attrs.weight_layout!r}")
    return axes[-1].block


def _relation(types: Sequence[Type], attrs: DensePackAttrs) -> Type:
    block = _block(attrs)
    data, weight = tensor_of(types[0], 2, "data"), tensor_of(types[1], 3 if block else 2, "weight")
    if differ(data.shape[1], weight.shape[1]) or (block and differ(weight.shape[2], block)):
        raise TypeInferenceError(f"weight {weight} in layout {attrs.weight_layout} does not fit {data}")
    if not attrs.out_dtype and data.dtype != weight.dtype:
        raise TypeInferenceError(f"data is {data.dtype} and weight {weight.dtype}: cast one, or give out_dtype")
    rows = weight.shape[0]
    units = rows if not block else Any() if isinstance(rows, Any) else rows * block
    if attrs.units is not None and differ(units, attrs.units):
        raise TypeInferenceError(f"units is {attrs.units}, the weight gives {units}")
    return TensorType((data.shape[0], units), attrs.out_dtype or data.dtype)


def _compute(attrs: DensePackAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    data, weight = inputs
    block, k = _block(attrs), te.reduce_axis(data.shape[1])

    def element(row: Index, unit: Index) -> PrimExpr:
        place = (unit // block, k, unit % block) if block else (unit, k)
        return te.sum(te.cast(out_type.dtype, data(row, k)) * te.cast(out_type.dtype, weight[place]), k)

    return [te.compute(te.shape_of(out_type), element, "dense_pack")]


def _operations(attrs: DensePackAttrs, types: Sequence[Type], out_type: TensorType) -> int:
    sizes = (*out_type.shape, tensor_arg(types, 0).shape[1])
    return 2 * math.prod(1 if isinstance(d, Any) else d for d in sizes)


register_op(
    "nn.contrib_dense_pack",
    inputs=("data", "weight"),
    attrs=DensePackAttrs,
    rel=_relation,
    compute=_compute,
    operations=_operations,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.PRODUCT, product=ProductForm.PACKED_DENSE),
    doc="A product with the transpose of a matrix whose rows stand in blocks.",
    samples=(
        Sample([(3, 5), (2, 5, 4)], {"weight_layout": "NC4n", "units": 8}),
        Sample([(3, 5), (4, 5)]),
        Sample([(3, 5), (2, 5, 4)], {"weight_layout": "NC4n", "out_dtype": "int32"}, "int8", -9, 9),
    ),
)


def contrib_dense_pack(
    data: Operand, weight: Operand, weight_layout: str = "NC", units: int | None = None, out_dtype: str = ""
) -> Call:
    """``T[m, k], T[n / b, k, b] -> T[m, n]`` for the layout ``NC{b}n``. Source: ``relay.nn.contrib_dense_pack``."""
    attrs = DensePackAttrs(units, out_dtype, weight_layout)
    return make_call("nn.contrib_dense_pack", [as_expr(data), as_expr(weight)], attrs)
