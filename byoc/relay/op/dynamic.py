"""Operators whose parameters are tensors known only at run time, under Relay's prefix ``dyn.``.

The rank of a result is the static length of its shape tensor; its dimensions are unnamed ``Any()``, so that no code is
generated and the numpy kernels run, unless the attribute ``known`` names them. The builders choose these when a
parameter is an expression but no constant.
Source: ``relay/op/dyn``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.dims import MAX_RANK
from byoc.ir.op import OPS, OpPattern, Sample, register_op
from byoc.ir.traits import OpKind, Traits, creation, move, view
from byoc.ir.types import Any, TensorType, Type
from byoc.relay.op.core.known_shapes import (
    FKNOWN_SHAPE,
    broadcast_shape,
    reshape_shape,
    shape_operand,
    slice_shape,
    tile_shape,
)
from byoc.relay.op.core.named_dims import named_dim
from byoc.relay.op.core.type_relations import is_integer, normalize_axes, tensor_arg, unify_dim
from byoc.relay.op.movement.broadcast import broadcast_compute
from byoc.relay.op.movement.create import (
    DynInitAttrs,
    InitOpAttrs,
    OneHotAttrs,
    full_of,
    full_rel,
    no_operations,
    one_hot_rel,
)
from byoc.relay.op.movement.join import DynTileAttrs, tile_compute
from byoc.relay.op.movement.shape import DynReshapeAttrs, ExpandDimsAttrs, ReshapeAttrs, reshape_compute
from byoc.relay.op.movement.slice import DynStridedSliceAttrs, StridedSliceAttrs
from byoc.te.expr import INDEX


def vector_length(types: Sequence[Type], index: int, name: str) -> int:
    """The static length of an integer vector input. Raises TypeInferenceError where it is not known."""
    ty = tensor_arg(types, index, name)
    if not is_integer(ty.dtype) or ty.ndim != 1:
        raise TypeInferenceError(f"{name} must be a vector of integers, got {ty}")
    if not isinstance(ty.shape[0], int):
        raise TypeInferenceError(f"the length of {name} must be known when compiling, got {ty}")
    return ty.shape[0]


def _any(rank: int, dtype: str, attrs: Attrs | None = None) -> TensorType:
    if not 0 <= rank <= MAX_RANK:
        raise TypeInferenceError(f"the result would have {rank} dimensions, and tensors have 0 to {MAX_RANK}")
    return named(TensorType([Any()] * rank, dtype), attrs)


def named(result: TensorType, attrs: Attrs | None) -> TensorType:
    """*result* with the dimensions that the attribute ``known`` has, if it has any."""
    known: tuple[str, ...] = getattr(attrs, "known", ())
    if not known:
        return result
    if len(known) != result.ndim:
        raise TypeInferenceError(f"known {known} has another rank than {result}")
    dims = []
    for text, dim in zip(known, result.shape, strict=True):
        both = unify_dim(named_dim(text), dim)
        if both is None:
            raise TypeInferenceError(f"{result} cannot have the shape ({', '.join(known)})")
        dims.append(both)
    return TensorType(dims, result.dtype)


def _reshape_rel(types: Sequence[Type], attrs: ReshapeAttrs) -> Type:
    return _any(vector_length(types, 1, "newshape"), tensor_arg(types, 0).dtype, attrs)


def _strided_slice_rel(types: Sequence[Type], attrs: StridedSliceAttrs) -> Type:
    data = tensor_arg(types, 0)
    length = vector_length(types, 1, "begin")
    if length > data.ndim or vector_length(types, 2, "end") != length:
        raise TypeInferenceError("begin and end must have one number for each sliced axis")
    cut = normalize_axes(attrs.axes, data.ndim) if attrs.axes is not None else tuple(range(length))
    if len(cut) != length:
        raise TypeInferenceError("begin and end must have one number for each sliced axis")
    return named(TensorType([Any() if k in cut else d for k, d in enumerate(data.shape)], data.dtype), attrs)


def _init_rel(types: Sequence[Type], attrs: InitOpAttrs) -> Type:
    return _any(vector_length(types, 0, "shape"), attrs.dtype, attrs)


def _full_rel(types: Sequence[Type], attrs: InitOpAttrs) -> Type:
    return _any(vector_length(types, 1, "shape"), full_rel(types[:1], attrs).dtype, attrs)


def _broadcast_rel(types: Sequence[Type], attrs: InitOpAttrs) -> Type:
    return _any(vector_length(types, 1, "shape"), tensor_arg(types, 0).dtype, attrs)


def _strided_slice_compute(
    attrs: StridedSliceAttrs, inputs: Sequence[te.Tensor], out_type: TensorType
) -> list[te.Tensor]:
    """Of positions from the front, which is where the type has names."""
    data, begin, _, strides = inputs
    count = begin.shape[0]
    assert isinstance(count, int)
    places = [a % data.ndim for a in attrs.axes] if attrs.axes is not None else list(range(count))

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        index = list(i)
        for k, place in enumerate(places):
            step = te.cast(INDEX, strides[k if strides.shape[0] != 1 else 0])
            index[place] = te.cast(INDEX, begin[k]) + index[place] * step
        return data[tuple(index)]

    return [te.compute(te.shape_of(out_type), element, "strided_slice")]


def _full_compute(attrs: InitOpAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    return full_of(inputs[0], out_type)


def _filled(number: int) -> Callable[..., list[te.Tensor]]:
    def compute(attrs: Attrs | None, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
        return [te.compute(te.shape_of(out_type), lambda *i: te.const(number, out_type.dtype), "filled")]

    return compute


def _tile_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    data = tensor_arg(types, 0)
    return _any(max(data.ndim, vector_length(types, 1, "reps")), data.dtype, attrs)


def _one_hot_rel(types: Sequence[Type], attrs: OneHotAttrs) -> Type:
    return one_hot_rel(types[:3], attrs)


def _expand_dims_rel(types: Sequence[Type], attrs: ExpandDimsAttrs) -> Type:
    data = tensor_arg(types, 0)
    return _any(data.ndim + attrs.num_newaxis, data.dtype)


def _squeeze_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    data = tensor_arg(types, 0)
    return _any(data.ndim - vector_length(types, 1, "axis"), data.dtype)


def _vector(*numbers: int) -> np.ndarray:
    return np.array(numbers, "int64")


register_op(
    "dyn.reshape",
    inputs=("data", "newshape"),
    attrs=DynReshapeAttrs,
    rel=_reshape_rel,
    pattern=OpPattern.INJECTIVE,
    compute=reshape_compute,
    operations=no_operations,
    traits=view().static("reshape", {1: "newshape"}),
    doc="The same elements in a shape that an input holds.",
    samples=(Sample([(2, 6), _vector(3, -1)], {"known": ("3", "4")}), Sample([(2, 6), _vector(0, 3, 2)])),
)
register_op(
    "dyn.strided_slice",
    inputs=("data", "begin", "end", "strides"),
    attrs=DynStridedSliceAttrs,
    rel=_strided_slice_rel,
    pattern=OpPattern.INJECTIVE,
    compute=_strided_slice_compute,
    operations=no_operations,
    traits=move().static("strided_slice", {1: "begin", 2: "end", 3: "strides"}),
    doc="A slice along each axis whose numbers the inputs hold.",
    samples=(
        Sample([(4, 5), _vector(1, 0), _vector(3, 4), _vector(1, 2)], {"known": ("2", "2")}),
        Sample([(4, 5), _vector(4), _vector(0), _vector(-2)], {"axes": (1,)}),
    ),
)
for _number, _name in enumerate(("zeros", "ones")):
    register_op(
        f"dyn.{_name}",
        inputs=("shape",),
        attrs=DynInitAttrs,
        rel=_init_rel,
        pattern=OpPattern.ELEMWISE,
        compute=_filled(_number),
        operations=no_operations,
        traits=Traits(OpKind.OTHER).static(_name, {0: "shape"}),
        doc=f"A tensor of {_name} in a shape that an input holds.",
        samples=(Sample([_vector(2, 3)], {"known": ("2", "3")}), Sample([_vector(2, 3)])),
    )
register_op(
    "dyn.full",
    inputs=("fill_value", "shape"),
    attrs=DynInitAttrs,
    rel=_full_rel,
    pattern=OpPattern.ELEMWISE,
    compute=_full_compute,
    operations=no_operations,
    traits=creation(value_operand=0).static("full", {1: "shape"}),
    doc="A tensor of one scalar in a shape that an input holds.",
    samples=(Sample([(), _vector(2, 3)], {"dtype": "", "known": ("2", "3")}), Sample([(), _vector(2)], {"dtype": ""})),
)
register_op(
    "dyn.broadcast_to",
    inputs=("data", "shape"),
    attrs=DynInitAttrs,
    rel=_broadcast_rel,
    pattern=OpPattern.BROADCAST,
    compute=broadcast_compute,
    operations=no_operations,
    traits=move(repeats=True).static("broadcast_to", {1: "shape"}),
    doc="The tensor broadcast to a shape that an input holds.",
    samples=(Sample([(3, 1), _vector(2, 3, 4)], {"known": ("2", "3", "4")}), Sample([(3, 1), _vector(3, 4)])),
)
register_op(
    "dyn.tile",
    inputs=("data", "reps"),
    attrs=DynTileAttrs,
    rel=_tile_rel,
    pattern=OpPattern.INJECTIVE,
    compute=tile_compute,
    operations=no_operations,
    traits=move(repeats=True).static("tile", {1: "reps"}),
    doc="The tensor repeated as often as an input says.",
    samples=(Sample([(3, 1), _vector(2, 2)], {"known": ("6", "2")}), Sample([(3, 1), _vector(2, 2)])),
)
register_op(
    "dyn.one_hot",
    inputs=("indices", "on_value", "off_value", "depth"),
    attrs=OneHotAttrs,
    rel=_one_hot_rel,
    traits=Traits(OpKind.OTHER, inserts_axis=True).static("one_hot", {3: "depth"}, ("depth",)),
    doc="One-hot vectors of a depth that an input holds.",
    samples=(Sample([_vector(0, 2), (), (), np.array(3, "int64")], {"depth": -1}),),
)
register_op(
    "dyn.expand_dims",
    inputs=("data", "axis"),
    attrs=ExpandDimsAttrs,
    rel=_expand_dims_rel,
    traits=view().static("expand_dims", {1: "axis"}, ("axis",)),
    doc="Dimensions of 1 put before an axis that an input holds.",
    samples=(Sample([(2, 3), np.array(1, "int64")]),),
)
register_op(
    "dyn.squeeze",
    inputs=("data", "axis"),
    rel=_squeeze_rel,
    traits=view().static("squeeze", {1: "axis"}),
    doc="Dimensions of 1 dropped at axes that an input holds.",
    samples=(Sample([(1, 2, 1), _vector(0, 2)]),),
)

_SHAPES = {
    "dyn.reshape": reshape_shape,
    "dyn.strided_slice": slice_shape,
    "dyn.zeros": shape_operand(0),
    "dyn.ones": shape_operand(0),
    "dyn.full": shape_operand(1),
    "dyn.broadcast_to": broadcast_shape,
    "dyn.tile": tile_shape,
}
for _name, _rule in _SHAPES.items():
    OPS[_name].set_attr(FKNOWN_SHAPE, _rule)
