"""Operators that pick elements by position: slices, takes and gathers. Source: ``relay/op/tensor/transform.cc``."""

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
from byoc.relay.expr import Call, check_expr
from byoc.relay.op.core.builder import Operand, as_expr, constant_ints, make_call
from byoc.relay.op.core.indexing import as_index, beside, clamp, load_below, size_of, split_index, wrap_negative
from byoc.relay.op.core.slice_sizes import END, covers, cut_dim, first_place
from byoc.relay.op.core.type_relations import is_integer, normalize_axes, normalize_axis, tensor_arg, unify_dim
from byoc.runtime.core.errors import OF_LENGTHS


@dataclass(frozen=True)
class StridedSliceAttrs(Attrs):
    """Attributes of ``strided_slice``: one begin, end and stride an axis; *slice_mode* is ``end`` or ``size``."""

    begin: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    slice_mode: str = "end"
    axes: tuple[int, ...] | None = written(None)


@dataclass(frozen=True)
class DynStridedSliceAttrs(StridedSliceAttrs):
    """Attributes of ``dyn.strided_slice``: of the result what is *known*, as ``match_shape`` has it."""

    known: tuple[str, ...] = ()


@dataclass(frozen=True)
class SliceLikeAttrs(Attrs):
    """Attributes of ``slice_like``: the axes cut to the size of the other input; by default all that both have."""

    axes: tuple[int, ...] | None = written(None)


@dataclass(frozen=True)
class TakeAttrs(Attrs):
    """Attributes of ``take``: *mode* moves positions outside by ``clip`` or ``wrap``; ``fast`` promises none."""

    axis: int | None = None
    batch_dims: int = 0
    mode: str = "clip"


@dataclass(frozen=True)
class GatherAttrs(Attrs):
    """Attributes of ``gather``."""

    axis: int = written(0)


@dataclass(frozen=True)
class GatherNDAttrs(Attrs):
    """Attributes of ``gather_nd``."""

    batch_dims: int = 0
    index_rank: int | None = None


def slices(attrs: StridedSliceAttrs, ndim: int) -> dict[int, slice]:
    """The slice of each axis that is cut; without axes, lists of any lengths: an end that is not given is the size.

    Raises TypeInferenceError for more numbers than axes, or with axes for another number than there are.
    """
    begin, end, strides = attrs.begin, attrs.end, attrs.strides
    count = max(len(begin), len(end)) if attrs.axes is None else len(attrs.axes)
    axes = tuple(range(count)) if attrs.axes is None else normalize_axes(attrs.axes, ndim)
    if count > ndim or (attrs.axes is not None and not len(begin) == len(end) == count):
        raise TypeInferenceError(
            f"begin {tuple(begin)} and end {tuple(end)} must have one number for each sliced axis of rank {ndim}"
        )
    steps = strides * count if len(strides) == 1 else (*strides, *(1,) * count)[:count]
    if 0 in steps:
        raise TypeInferenceError("a stride must not be 0")
    if attrs.slice_mode not in ("end", "size"):
        raise TypeInferenceError(f"slice_mode is 'end' or 'size', got {attrs.slice_mode!r}")
    cuts = {}
    for k, axis in enumerate(axes):
        first = begin[k] if k < len(begin) else (0 if steps[k] > 0 else None)
        last = end[k] if k < len(end) else None
        if attrs.slice_mode == "size":
            cuts[axis] = _sized(first or 0, -1 if last is None else last)
        else:
            cuts[axis] = slice(first, last, steps[k])
    return cuts


def _sized(first: int, size: int) -> slice:
    """*size* elements from *first*; a negative size reaches to the end."""
    return slice(first, None if size < 0 or first < 0 <= first + size else first + size)


def _strided_slice_rel(types: Sequence[Type], attrs: StridedSliceAttrs) -> Type:
    data = tensor_arg(types, 0)
    cuts = slices(attrs, data.ndim)
    return TensorType([cut_dim(d, cuts[k]) if k in cuts else d for k, d in enumerate(data.shape)], data.dtype)


def _strided_slice_compute(
    attrs: StridedSliceAttrs, inputs: Sequence[te.Tensor], out_type: TensorType
) -> list[te.Tensor]:
    data = inputs[0]
    steps: dict[int, tuple[int | te.PrimExpr, int]] = {}
    for k, cut in slices(attrs, data.ndim).items():
        size = data.shape[k]
        if isinstance(size, int):
            start, _, step = cut.indices(size)
            steps[k] = (start, step)
        elif not covers(cut):
            steps[k] = (first_place(as_index(size), cut), cut.step or 1)

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        return data[tuple(x * steps[k][1] + steps[k][0] if k in steps else x for k, x in enumerate(i))]

    return [te.compute(te.shape_of(out_type), element, "strided_slice")]


register_op(
    "strided_slice",
    inputs=("data",),
    attrs=StridedSliceAttrs,
    rel=_strided_slice_rel,
    pattern=OpPattern.INJECTIVE,
    traits=move(),
    compute=_strided_slice_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="A slice along each axis, as in Python; negative numbers count from the end.",
    samples=(
        Sample([(4, 5)], {"begin": (1, 0), "end": (3, 4)}),
        Sample([(4, 5)], {"begin": (0, -1), "end": (4, -6), "strides": (2, -1)}),
        Sample([(4, 5)], {"begin": (1,), "end": (END,), "strides": (2,), "axes": (-1,)}),
        Sample([(4, 5)], {"begin": (1, 2), "end": (2, -1), "slice_mode": "size"}),
        Sample([(4, 5)], {"begin": (3,), "end": (1,)}),
    ),
).set_support_level(4)


def strided_slice(
    data: Operand,
    begin: object,
    end: object,
    strides: object = None,
    axes: Sequence[int] | None = None,
    slice_mode: str = "end",
) -> Call:
    """A slice along each axis; *begin*, *end* and *strides* may be tensors. Source: ``relay.strided_slice``."""
    parts = [begin, end, (1,) if strides is None else strides]
    numbers = [constant_ints(p) for p in parts]
    places = None if axes is None else tuple(int(a) for a in axes)
    first, last, steps = numbers
    if first is not None and last is not None and steps is not None:
        return make_call("strided_slice", [as_expr(data)], StridedSliceAttrs(first, last, steps, slice_mode, places))
    attrs = DynStridedSliceAttrs((), (), (), slice_mode, places)
    length = max((len(n) for n in numbers[:2] if n is not None), default=None)
    if strides is None and length is not None:
        numbers[2] = (1,) * length
    given = [
        check_expr(p, "a place") if n is None else as_expr(np.array(n, "int64"))
        for p, n in zip(parts, numbers, strict=True)
    ]
    return make_call("dyn.strided_slice", [as_expr(data), *given], attrs)


def _slice_like_axes(attrs: SliceLikeAttrs, data: int, like: int) -> tuple[int, ...]:
    if not attrs.axes:
        return tuple(range(min(data, like)))
    return normalize_axes(attrs.axes, data)


def _slice_like_rel(types: Sequence[Type], attrs: SliceLikeAttrs) -> Type:
    data, like = tensor_arg(types, 0), tensor_arg(types, 1, "shape_like")
    shape = list(data.shape)
    for axis in _slice_like_axes(attrs, data.ndim, like.ndim):
        if axis >= like.ndim:
            raise TypeInferenceError(f"axis {axis} is not in {like}")
        dim, size = data.shape[axis], like.shape[axis]
        if isinstance(dim, int) and isinstance(size, int) and size > dim:
            raise TypeInferenceError(f"dimension {axis} of {data} cannot be cut to {size}")
        shape[axis] = size
    return TensorType(shape, data.dtype)


def _slice_like_compute(attrs: SliceLikeAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    return [te.compute(te.shape_of(out_type), lambda *i: inputs[0][i], "slice_like")]


register_op(
    "slice_like",
    inputs=("data", "shape_like"),
    attrs=SliceLikeAttrs,
    rel=_slice_like_rel,
    pattern=OpPattern.INJECTIVE,
    traits=move(),
    operations=lambda attrs, in_types, out_type: 0,
    compute=_slice_like_compute,
    doc="The first input cut to the size of the second, from the beginning of each axis.",
    samples=(Sample([(4, 5), (2, 3)]), Sample([(4, 5), (2, 3)], {"axes": (-1,)})),
)


def slice_like(data: Operand, shape_like: Operand, axes: Sequence[int] | None = None) -> Call:
    """*data* cut to the size of *shape_like* along *axes*. Source: ``relay.slice_like``."""
    attrs = SliceLikeAttrs(None if axes is None else tuple(axes))
    return make_call("slice_like", [as_expr(data), as_expr(shape_like)], attrs)


def _indices_arg(types: Sequence[Type]) -> TensorType:
    indices = tensor_arg(types, 1, "indices")
    if not is_integer(indices.dtype):
        raise TypeInferenceError(f"indices must be integers, got {indices.dtype}")
    return indices


TAKE_MODES = ("clip", "wrap", "fast")


def _take_rel(types: Sequence[Type], attrs: TakeAttrs) -> Type:
    data, indices = tensor_arg(types, 0), _indices_arg(types)
    if attrs.mode not in TAKE_MODES:
        raise TypeInferenceError(f"mode is one of {', '.join(TAKE_MODES)}, got {attrs.mode!r}")
    if attrs.axis is None:
        return TensorType(indices.shape, data.dtype)
    axis = normalize_axis(attrs.axis, data.ndim)
    batch = attrs.batch_dims + indices.ndim if attrs.batch_dims < 0 else attrs.batch_dims
    if not 0 <= batch <= min(axis, indices.ndim):
        raise TypeInferenceError(f"batch_dims {attrs.batch_dims} exceeds the axis {axis} or the rank of indices")
    for k in range(batch):
        if unify_dim(data.shape[k], indices.shape[k]) is None:
            raise TypeInferenceError(f"batch dimension {k} differs: {data.shape[k]} and {indices.shape[k]}")
    return TensorType((*data.shape[:axis], *indices.shape[batch:], *data.shape[axis + 1 :]), data.dtype)


def _taken(index: te.PrimExpr, dim: te.Dimension, mode: str) -> te.PrimExpr:
    return te.cast("int64", index) % dim if mode == "wrap" else clamp(index, dim)


def _take_compute(attrs: TakeAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data, indices = inputs
    shape = te.shape_of(out_type)
    if attrs.axis is None:

        def flat(*i: te.PrimExpr) -> te.PrimExpr:
            return data[tuple(split_index(_taken(indices[i], size_of(data.shape), attrs.mode), data.shape))]

        return [te.compute(shape, flat, "take")]
    axis = attrs.axis % data.ndim
    batch = attrs.batch_dims % indices.ndim if attrs.batch_dims < 0 else attrs.batch_dims
    inner = indices.ndim - batch

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        first = [beside(i[k], data.shape[k], indices.shape[k], f"take: data{OF_LENGTHS}{k}") for k in range(batch)]
        position = indices[(*first, *i[axis : axis + inner])]
        place = _taken(position, data.shape[axis], attrs.mode)
        return load_below(data, (*i[:axis], place, *i[axis + inner :]), [axis])

    return [te.compute(shape, element, "take")]


_OUTSIDE = np.array([[0, 5], [-7, 1]], "int64")
register_op(
    "take",
    inputs=("data", "indices"),
    attrs=TakeAttrs,
    rel=_take_rel,
    pattern=OpPattern.INJECTIVE,
    traits=move(),
    compute=_take_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="The slices of the data at the indices along an axis, or single elements of the flattened data.",
    samples=(
        Sample([(3, 4), _OUTSIDE], {"axis": 0}),
        Sample([(3, 4), _OUTSIDE], {"axis": -1, "mode": "wrap"}),
        Sample([(3, 4), _OUTSIDE]),
        Sample([(3, 4), np.array(2, "int32")], {"axis": 1, "mode": "fast"}),
        Sample([(2, 3, 4), np.array([[1, 0], [2, 2]], "int32")], {"axis": 1, "batch_dims": 1}),
    ),
).set_support_level(3)


def take(data: Operand, indices: Operand, axis: int | None = None, batch_dims: int = 0, mode: str = "clip") -> Call:
    """The slices of *data* at *indices* along *axis*. Source: ``relay.take``."""
    return make_call("take", [as_expr(data), as_expr(indices)], TakeAttrs(axis, batch_dims, mode))


def _gather_rel(types: Sequence[Type], attrs: GatherAttrs) -> Type:
    data, indices = tensor_arg(types, 0), _indices_arg(types)
    axis = normalize_axis(attrs.axis, data.ndim)
    if indices.ndim != data.ndim:
        raise TypeInferenceError(f"indices must have the rank of the data, got {indices.ndim} and {data.ndim}")
    for k, (dim, size) in enumerate(zip(data.shape, indices.shape, strict=True)):
        if k != axis and isinstance(dim, int) and isinstance(size, int) and size > dim:
            raise TypeInferenceError(f"dimension {k} of the indices is {size}, more than the data's {dim}")
    return TensorType(indices.shape, data.dtype)


def _gather_compute(attrs: GatherAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data, indices = inputs
    axis = attrs.axis % data.ndim

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        places = [
            beside(own, count, size, f"gather: indices{OF_LENGTHS}{k}")
            for k, (own, count, size) in enumerate(zip(i, indices.shape, data.shape, strict=True))
        ]
        places[axis] = wrap_negative(indices[i], data.shape[axis])
        return load_below(data, places, [axis])

    return [te.compute(te.shape_of(out_type), element, "gather")]


register_op(
    "gather",
    inputs=("data", "indices"),
    attrs=GatherAttrs,
    rel=_gather_rel,
    pattern=OpPattern.INJECTIVE,
    traits=move(),
    compute=_gather_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="Along an axis, the element at the position that the indices hold at the same place.",
    samples=(
        Sample([(3, 4), np.array([[0, 2, 1, -1]], "int64")], {"axis": 0}),
        Sample([(2, 4), np.array([[3, 0], [1, 1]], "int32")], {"axis": -1}),
    ),
).set_support_level(3)


def gather(data: Operand, axis: int, indices: Operand) -> Call:
    """Elements of *data* along *axis* at *indices*. Source: ``relay.gather``."""
    return make_call("gather", [as_expr(data), as_expr(indices)], GatherAttrs(axis))


def _gather_nd_rel(types: Sequence[Type], attrs: GatherNDAttrs) -> Type:
    data, indices = tensor_arg(types, 0), _indices_arg(types)
    if not indices.shape:
        raise TypeInferenceError("indices must have at least one dimension")
    depth = indices.shape[0] if isinstance(indices.shape[0], int) else attrs.index_rank
    if depth is None:
        raise TypeInferenceError("the first dimension of the indices is dynamic: give index_rank")
    if not 0 <= attrs.batch_dims <= indices.ndim - 1 or attrs.batch_dims + depth > data.ndim:
        raise TypeInferenceError(f"{attrs.batch_dims} batch dimensions and {depth} indices exceed the rank {data.ndim}")
    for k, (dim, size) in enumerate(zip(data.shape, indices.shape[1 : attrs.batch_dims + 1], strict=False)):
        if unify_dim(dim, size) is None:
            raise TypeInferenceError(f"batch dimension {k} differs: {dim} and {size}")
    return TensorType((*indices.shape[1:], *data.shape[attrs.batch_dims + depth :]), data.dtype)


def _gather_nd_compute(attrs: GatherNDAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data, indices = inputs
    places, batch = indices.ndim - 1, attrs.batch_dims
    depth = data.ndim - batch - (out_type.ndim - places)

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        at = [wrap_negative(indices[(k, *i[:places])], data.shape[batch + k]) for k in range(depth)]
        first = [
            beside(i[k], indices.shape[k + 1], data.shape[k], f"gather_nd: indices{OF_LENGTHS}{k}")
            for k in range(batch)
        ]
        return load_below(data, (*first, *at, *i[places:]), range(batch, batch + depth))

    return [te.compute(te.shape_of(out_type), element, "gather_nd")]


register_op(
    "gather_nd",
    inputs=("data", "indices"),
    attrs=GatherNDAttrs,
    rel=_gather_nd_rel,
    pattern=OpPattern.INJECTIVE,
    traits=move(),
    compute=_gather_nd_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="The slices of the data at positions whose coordinates stand along the first axis of the indices.",
    samples=(
        Sample([(3, 4), np.array([[0, 2, 1], [3, -1, 0]], "int64")]),
        Sample([(3, 4), np.array([[[0, 2], [1, 1]]], "int32")]),
        Sample([(2, 3, 4), np.array([[2, 0]], "int64")], {"batch_dims": 1}),
    ),
).set_support_level(3)


def gather_nd(data: Operand, indices: Operand, batch_dims: int = 0, index_rank: int | None = None) -> Call:
    """Slices of *data* at *indices* (coordinates along their first axis). Source: ``relay.gather_nd``."""
    return make_call("gather_nd", [as_expr(data), as_expr(indices)], GatherNDAttrs(batch_dims, index_rank))
