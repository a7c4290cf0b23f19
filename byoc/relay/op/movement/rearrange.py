"""Operators over layouts and grids: ``layout_transform`` and ``meshgrid``. Source: ``relay/op/tensor/transform.cc``.

A layout is a word of axes: a capital letter for an axis, and a number with a small letter for the inner part of one
that is split in blocks, so that ``NCHW8c`` holds channel ``c`` at ``C = c / 8`` and ``8c = c % 8``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from byoc import te
from byoc.errors import TypeInferenceError, UserError
from byoc.ir.attrs import Attrs, written
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import move
from byoc.ir.types import Any, Dim, TensorType, TupleType, Type, tensor_types
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, as_tuple_expr, make_call
from byoc.relay.op.core.known_shapes import SizeProduct, dim_product
from byoc.relay.op.core.type_relations import same_dtype, tensor_arg, tuple_arg
from byoc.relay.tuple_wrapper import TupleWrapper
from byoc.runtime.kernels.movement.layouts import NamedAxis, block_of, parse_layout, places_of


@dataclass(frozen=True)
class LayoutTransformAttrs(Attrs):
    """Attributes of ``layout_transform``."""

    src_layout: str = written("NCHW")
    dst_layout: str = written("NHWC")


@dataclass(frozen=True)
class MeshgridAttrs(Attrs):
    """Attributes of ``meshgrid``: ``ij`` keeps the order of the inputs, ``xy`` swaps the first two."""

    indexing: str = "ij"


def _layouts(attrs: LayoutTransformAttrs, ndim: int) -> tuple[Sequence[NamedAxis], Sequence[NamedAxis]]:
    try:
        src, dst = parse_layout(attrs.src_layout), parse_layout(attrs.dst_layout)
    except UserError as error:
        raise TypeInferenceError(str(error)) from error
    if len(src) != ndim or {a.letter for a in src} != {a.letter for a in dst}:
        raise TypeInferenceError(f"layout {attrs.src_layout} of rank {ndim} cannot become {attrs.dst_layout}")
    return src, dst


def _layout_rel(types: Sequence[Type], attrs: LayoutTransformAttrs) -> Type:
    data = tensor_arg(types, 0)
    src, dst = _layouts(attrs, data.ndim)
    whole: dict[str, SizeProduct] = {}
    for k, axis in enumerate(src):
        size = axis.block if axis.block and isinstance(data.shape[k], Any) else data.shape[k]
        whole[axis.letter] = whole.get(axis.letter, SizeProduct(1)) * dim_product(size, k)
        if axis.block and size != axis.block:
            raise TypeInferenceError(f"dimension {k} is {data.shape[k]} where {attrs.src_layout} says {axis.block}")
    return TensorType([_axis_size(axis, dst, whole, attrs) for axis in dst], data.dtype)


def _axis_size(
    axis: NamedAxis, dst: Sequence[NamedAxis], whole: dict[str, SizeProduct], attrs: LayoutTransformAttrs
) -> Dim:
    if axis.block:
        return axis.block
    block = block_of(dst, axis.letter)
    part = whole[axis.letter].divided_by(SizeProduct(block))
    if part is None:
        if not whole[axis.letter].keys:
            raise TypeInferenceError(f"{whole[axis.letter].number} is no multiple of a block of {attrs.dst_layout}")
        return Any()
    return part.as_dim()


def _layout_compute(attrs: LayoutTransformAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    src, dst = _layouts(attrs, inputs[0].ndim)
    return [transform_stage(inputs[0], src, dst, te.shape_of(out_type))]


def transform_stage(
    data: te.Tensor, src: Sequence[NamedAxis], dst: Sequence[NamedAxis], shape: Sequence[te.Dimension]
) -> te.Tensor:
    """*data*, whose axes are *src*, with the axes *dst* and their sizes *shape*."""

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        return data[tuple(_source_index(k, src, dst, i) for k in range(len(src)))]

    return te.compute(tuple(shape), element, "layout_transform")


def _source_index(
    k: int, src: Sequence[NamedAxis], dst: Sequence[NamedAxis], index: Sequence[te.PrimExpr]
) -> te.PrimExpr:
    """The index along axis *k* of the source, for *index* in the destination."""
    letter = src[k].letter
    places, sources = places_of(dst, letter), places_of(src, letter)
    if [dst[p].block for p in places] == [src[p].block for p in sources]:
        return index[places[sources.index(k)]]
    position: te.PrimExpr = index[places[0]]
    for p in places[1:]:
        position = position * dst[p].block + index[p]
    step = math.prod(src[p].block for p in sources[sources.index(k) + 1 :])
    scaled = position // step if step > 1 else position
    return scaled % src[k].block if src[k].block else scaled


register_op(
    "layout_transform",
    inputs=("data",),
    attrs=LayoutTransformAttrs,
    rel=_layout_rel,
    pattern=OpPattern.INJECTIVE,
    traits=move(permutes=True),
    compute=_layout_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="The same elements in another order of axes, whole or in blocks.",
    samples=(
        Sample([(1, 4, 2, 3)], {"src_layout": "NCHW", "dst_layout": "NHWC"}),
        Sample([(2, 8, 2, 3)], {"src_layout": "NCHW", "dst_layout": "NCHW4c"}),
        Sample([(2, 2, 2, 3, 4)], {"src_layout": "NCHW4c", "dst_layout": "NHWC"}),
        Sample([(1, 2, 2, 2, 4)], {"src_layout": "NCHW4c", "dst_layout": "NCHW8c"}),
        Sample([(4, 6, 1, 1)], {"src_layout": "OIHW", "dst_layout": "OIHW2i4o"}),
        Sample([(8, 8, 1, 2)], {"src_layout": "OIHW", "dst_layout": "OIHW2i4o4i"}),
        Sample([(2, 1, 1, 2, 2, 4, 4)], {"src_layout": "OIHW2i4o4i", "dst_layout": "HWIO4i"}),
    ),
)


def layout_transform(data: Operand, src_layout: str, dst_layout: str) -> Call:
    """*data* from one layout to another. Source: ``relay.layout_transform``."""
    return make_call("layout_transform", [as_expr(data)], LayoutTransformAttrs(src_layout, dst_layout))


def _grid_order(attrs: MeshgridAttrs, count: int) -> list[int]:
    """The axis of the grid along which each input runs."""
    if attrs.indexing not in ("ij", "xy"):
        raise TypeInferenceError(f"indexing is 'ij' or 'xy', got {attrs.indexing!r}")
    return [1, 0, *range(2, count)] if attrs.indexing == "xy" and count > 1 else list(range(count))


def _meshgrid_rel(types: Sequence[Type], attrs: MeshgridAttrs) -> Type:
    fields = tuple_arg(types)
    if any(f.ndim > 1 for f in fields):
        raise TypeInferenceError("meshgrid takes vectors and scalars")
    sizes = [f.shape[0] if f.shape else 1 for f in fields]
    shape = [sizes[k] for k in _grid_order(attrs, len(fields))]
    return TupleType([TensorType(shape, same_dtype(fields))] * len(fields))


def _meshgrid_compute(attrs: MeshgridAttrs, inputs: Sequence[te.Tensor], out_type: TupleType) -> list[te.Tensor]:
    order = _grid_order(attrs, len(inputs))

    def grid(data: te.Tensor, axis: int, ty: TensorType) -> te.Tensor:
        return te.compute(te.shape_of(ty), lambda *i: data[(i[axis],) if data.ndim else ()], "meshgrid")

    return [grid(t, a, ty) for t, a, ty in zip(inputs, order, tensor_types(out_type), strict=True)]


register_op(
    "meshgrid",
    inputs=("data",),
    attrs=MeshgridAttrs,
    rel=_meshgrid_rel,
    pattern=OpPattern.INJECTIVE,
    traits=move(),
    compute=_meshgrid_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="Each vector of a tuple, spread over the grid that all of them span.",
    samples=(Sample([[(2,), (3,), (4,)]]), Sample([[(2,), (3,), ()]], {"indexing": "xy"})),
).set_support_level(3)


def meshgrid(data: Iterable[RelayExpr], indexing: str = "ij") -> TupleWrapper:
    """The grids of the vectors in *data*. Source: ``relay.meshgrid``."""
    fields = list(data)
    call = make_call("meshgrid", [as_tuple_expr(fields, "meshgrid")], MeshgridAttrs(indexing))
    return TupleWrapper(call, len(fields))
