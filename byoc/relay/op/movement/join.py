"""Operators that join, cut and repeat tensors along an axis. Source: ``relay/op/tensor/transform.cc``."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs, derived, written
from byoc.ir.dims import IntImm
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.size_var import parted, plus
from byoc.ir.traits import LayoutFlow, move
from byoc.ir.types import Any, Dim, TensorType, TupleType, Type, tensor_types
from byoc.relay.expr import Call, check_expr
from byoc.relay.op.core.builder import Operand, as_expr, as_tuple_expr, constant_ints, make_call
from byoc.relay.op.core.indexing import agreed, as_index
from byoc.relay.op.core.known_shapes import dim_product
from byoc.relay.op.core.type_relations import normalize_axis, same_dtype, tensor_arg, tuple_arg, unify_dim
from byoc.relay.tuple_wrapper import TupleWrapper


@dataclass(frozen=True)
class ConcatenateAttrs(Attrs):
    """Attributes of ``concatenate``."""

    axis: int = 0


@dataclass(frozen=True)
class StackAttrs(Attrs):
    """Attributes of ``stack``."""

    axis: int = 0


@dataclass(frozen=True)
class SplitAttrs(Attrs):
    """Attributes of ``split``: a number of *equal* sections, or the indices before which it cuts."""

    indices_or_sections: int | tuple[int, ...] = written(1)
    axis: int = 0
    equal: bool = derived(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.indices_or_sections, int):
            object.__setattr__(self, "indices_or_sections", IntImm("int32", self.indices_or_sections))
            object.__setattr__(self, "equal", True)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The number of sections, or the indices, as a tuple."""
        value = self.indices_or_sections
        return (value,) if isinstance(value, int) else value


@dataclass(frozen=True)
class TileAttrs(Attrs):
    """Attributes of ``tile``: how often each dimension is repeated, aligned at the last."""

    reps: tuple[int, ...] = ()


@dataclass(frozen=True)
class DynTileAttrs(Attrs):
    """Attributes of ``dyn.tile``: of the result what is *known*, as ``match_shape`` has it."""

    known: tuple[str, ...] = ()


@dataclass(frozen=True)
class RepeatAttrs(Attrs):
    """Attributes of ``repeat``."""

    repeats: int = 1
    axis: int = written(0)


def _common_dims(fields: Sequence[TensorType], skip: int = -1) -> list[Dim]:
    """The shape that all *fields* share but for dimension *skip*. Raises TypeInferenceError where they differ."""
    shape = list(fields[0].shape)
    for field in fields[1:]:
        if field.ndim != len(shape):
            raise TypeInferenceError(f"ranks differ: {fields[0]} and {field}")
        for k, dim in enumerate(field.shape):
            shared = shape[k] if k == skip else unify_dim(shape[k], dim)
            if shared is None:
                raise TypeInferenceError(f"dimension {k} differs: {shape[k]} and {dim}")
            shape[k] = shared
    return shape


def _is_unknown(dim: Dim) -> bool:
    return isinstance(dim, Any) and not dim.name


def _concatenate_rel(types: Sequence[Type], attrs: ConcatenateAttrs) -> Type:
    """Where a size stands beside an unnamed one, the result has it only if the joined axis is unknown, as in Relay.

    Of two names for a size the result has that of a tensor which cannot be empty: the other one may be.
    """
    fields = tuple_arg(types)
    dtype = same_dtype(fields)
    axis = normalize_axis(attrs.axis, fields[0].ndim)
    sizes = [f.shape[axis] if axis < f.ndim else 0 for f in fields]
    sure = [f for f, size in zip(fields, sizes, strict=True) if isinstance(size, int) and size > 0]
    shape = _common_dims([*sure[:1], *fields], axis)
    if not any(isinstance(s, Any) for s in sizes):
        shape = [Any() if any(_is_unknown(f.shape[k]) for f in fields) else dim for k, dim in enumerate(shape)]
    nonzero = [s for s in sizes if s != 0]
    shape[axis] = functools.reduce(plus, (0, *nonzero)) if len(nonzero) != 1 else nonzero[0]
    return TensorType(shape, dtype)


def _concatenate_compute(attrs: ConcatenateAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    axis = attrs.axis % out_type.ndim
    parts = [p for p in inputs if p.shape[axis] != 0] or inputs[:1]
    shape = te.shape_of(out_type)

    def places(part: te.Tensor, start: te.PrimExpr, i: Sequence[te.PrimExpr]) -> Iterator[te.PrimExpr]:
        for k, (index, dim, out) in enumerate(zip(i, part.shape, shape, strict=True)):
            if k == axis:
                yield index - start
            else:
                yield index if dim == out else te.minimum(index + agreed(dim, out), as_index(dim) - 1)

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        starts, at = [], as_index(0)
        for data in parts:
            starts.append(at)
            at = at + data.shape[axis]
        values = [part[tuple(places(part, start, i))] for part, start in zip(parts, starts, strict=True)]
        result: te.PrimExpr = values[-1]
        for data, start, value in reversed(list(zip(parts, starts, values, strict=True))[:-1]):
            result = te.if_then_else(i[axis] < start + data.shape[axis], value, result)
        return result

    return [te.compute(shape, element, "concatenate")]


register_op(
    "concatenate",
    inputs=("data",),
    attrs=ConcatenateAttrs,
    rel=_concatenate_rel,
    pattern=OpPattern.INJECTIVE,
    traits=replace(move(), layout_flow=LayoutFlow.JOINED),
    compute=_concatenate_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="The tensors of a tuple one after another along an axis.",
    samples=(
        Sample([[(2, 3), (2, 1), (2, 4)]], {"axis": 1}),
        Sample([[(2, 3), (1, 3)]], {"axis": -2}),
        Sample([[(2, 3)]], {"axis": 0}),
        Sample([[(0, 3), (2, 3)]], {"axis": 0}),
    ),
).set_support_level(1)


def concatenate(data: RelayExpr | Iterable[RelayExpr], axis: int) -> Call:
    """The tensors of *data*, a list or a tuple expression, along *axis*. Source: ``relay.concatenate``."""
    return make_call("concatenate", [as_tuple_expr(data, "concatenate")], ConcatenateAttrs(axis))


def _stack_rel(types: Sequence[Type], attrs: StackAttrs) -> Type:
    fields = tuple_arg(types)
    shape = _common_dims(fields)
    axis = normalize_axis(attrs.axis, len(shape) + 1)
    return TensorType((*shape[:axis], len(fields), *shape[axis:]), same_dtype(fields))


def _stack_compute(attrs: StackAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    axis = attrs.axis % out_type.ndim

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        inner = (*i[:axis], *i[axis + 1 :])
        result: te.PrimExpr = inputs[-1][inner]
        for k in range(len(inputs) - 2, -1, -1):
            result = te.if_then_else(i[axis].equal(k), inputs[k][inner], result)
        return result

    return [te.compute(te.shape_of(out_type), element, "stack")]


register_op(
    "stack",
    inputs=("data",),
    attrs=StackAttrs,
    rel=_stack_rel,
    pattern=OpPattern.INJECTIVE,
    traits=replace(move(), inserts_axis=True),
    compute=_stack_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="The tensors of a tuple along a new axis.",
    samples=(Sample([[(2, 3), (2, 3)]], {"axis": 1}), Sample([[(), (), ()]], {"axis": -1}), Sample([[(2,)]])),
).set_support_level(3)


def stack(data: RelayExpr | Iterable[RelayExpr], axis: int) -> Call:
    """The tensors of *data* along a new *axis*. Source: ``relay.stack``."""
    return make_call("stack", [as_tuple_expr(data, "stack")], StackAttrs(axis))


def _cuts(attrs: SplitAttrs, dim: Dim) -> list[int]:
    """Where each part begins, for an axis of static size *dim*."""
    if attrs.equal:
        sections = attrs.numbers[0]
        if sections < 1 or int(dim) % sections:
            raise TypeInferenceError(f"a dimension of {dim} cannot be cut into {sections} equal sections")
        return [k * (int(dim) // sections) for k in range(sections)]
    cuts = [0, *attrs.numbers]
    if sorted(cuts) != cuts or (isinstance(dim, int) and cuts[-1] > dim):
        raise TypeInferenceError(f"indices {attrs.numbers} must rise within a dimension of {dim}")
    return cuts


def _split_dims(attrs: SplitAttrs, dim: Dim) -> list[Dim]:
    if isinstance(dim, int):
        cuts = [*_cuts(attrs, dim), dim]
        return [b - a for a, b in itertools.pairwise(cuts)]
    if attrs.equal:
        return [dim if attrs.numbers[0] == 1 else parted(dim, attrs.numbers[0]) for _ in range(attrs.numbers[0])]
    cuts = _cuts(attrs, dim)
    return [*(b - a for a, b in itertools.pairwise(cuts)), plus(dim, -cuts[-1])]


def _split_rel(types: Sequence[Type], attrs: SplitAttrs) -> Type:
    data = tensor_arg(types, 0)
    axis = normalize_axis(attrs.axis, data.ndim)
    return TupleType(
        TensorType((*data.shape[:axis], dim, *data.shape[axis + 1 :]), data.dtype)
        for dim in _split_dims(attrs, data.shape[axis])
    )


def _split_compute(attrs: SplitAttrs, inputs: Sequence[te.Tensor], out_type: TupleType) -> list[te.Tensor]:
    data = inputs[0]
    axis = attrs.axis % data.ndim
    dim = data.shape[axis]
    starts = _cuts(attrs, dim) if isinstance(dim, int) else [0]

    def part(start: int, ty: TensorType) -> te.Tensor:
        return te.compute(te.shape_of(ty), lambda *i: data[(*i[:axis], i[axis] + start, *i[axis + 1 :])], "split")

    return [part(s, ty) for s, ty in zip(starts, tensor_types(out_type), strict=True)]


register_op(
    "split",
    inputs=("data",),
    attrs=SplitAttrs,
    rel=_split_rel,
    pattern=OpPattern.INJECTIVE,
    traits=move(),
    compute=_split_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="The tensor cut along an axis, as a tuple.",
    samples=(
        Sample([(2, 6)], {"indices_or_sections": 3, "axis": 1}),
        Sample([(2, 6)], {"indices_or_sections": (1, 4), "axis": -1}),
        Sample([(5, 2)], {"indices_or_sections": (2,), "axis": 0}),
    ),
).set_support_level(3)


def split(data: Operand, indices_or_sections: int | Sequence[int], axis: int = 0) -> TupleWrapper:
    """*data* cut along *axis*, into equal sections or before each index. Source: ``relay.split``."""
    cut = indices_or_sections if isinstance(indices_or_sections, int) else tuple(indices_or_sections)
    size = cut if isinstance(cut, int) else len(cut) + 1
    return TupleWrapper(make_call("split", [as_expr(data)], SplitAttrs(cut, axis)), size)


def _repeated(dim: Dim, times: int) -> Dim:
    return (dim_product(dim) * dim_product(times)).as_dim()


def _tile_rel(types: Sequence[Type], attrs: TileAttrs) -> Type:
    data = tensor_arg(types, 0)
    if any(r < 0 for r in attrs.reps):
        raise TypeInferenceError(f"reps must not be negative, got {attrs.reps}")
    rank = max(data.ndim, len(attrs.reps))
    shape = (1,) * (rank - data.ndim) + data.shape
    reps = (1,) * (rank - len(attrs.reps)) + attrs.reps
    return TensorType([_repeated(d, r) for d, r in zip(shape, reps, strict=True)], data.dtype)


def tile_compute(attrs: Attrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    """Each element is the one at its position modulo the size of *data*. Source: ``topi.tile``."""
    data = inputs[0]
    shape = te.shape_of(out_type)

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        own = zip(i[len(i) - data.ndim :], data.shape, shape[len(i) - data.ndim :], strict=True)
        return data[tuple(index if dim == out else index % dim for index, dim, out in own)]

    return [te.compute(shape, element, "tile")]


register_op(
    "tile",
    inputs=("data",),
    attrs=TileAttrs,
    rel=_tile_rel,
    pattern=OpPattern.INJECTIVE,
    traits=move(repeats=True),
    compute=tile_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="The tensor repeated as a whole along its dimensions.",
    samples=(
        Sample([(2, 3)], {"reps": (2, 1)}),
        Sample([(2, 3)], {"reps": (2,)}),
        Sample([(3,)], {"reps": (2, 1, 2)}),
    ),
).set_support_level(3)


def tile(data: Operand, reps: object) -> Call:
    """*data* repeated *reps* times, which may be a tensor known at run time. Source: ``relay.tile``."""
    numbers = constant_ints(reps)
    if numbers is None:
        return make_call("dyn.tile", [as_expr(data), check_expr(reps, "a number of repetitions")], DynTileAttrs())
    return make_call("tile", [as_expr(data)], TileAttrs(numbers))


def _repeat_rel(types: Sequence[Type], attrs: RepeatAttrs) -> Type:
    data = tensor_arg(types, 0)
    axis = normalize_axis(attrs.axis, data.ndim)
    if attrs.repeats < 0:
        raise TypeInferenceError(f"repeats must not be negative, got {attrs.repeats}")
    return TensorType(
        (*data.shape[:axis], _repeated(data.shape[axis], attrs.repeats), *data.shape[axis + 1 :]), data.dtype
    )


def _repeat_compute(attrs: RepeatAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data = inputs[0]
    axis = attrs.axis % data.ndim
    times = max(attrs.repeats, 1)
    return [te.compute(te.shape_of(out_type), lambda *i: data[(*i[:axis], i[axis] // times, *i[axis + 1 :])], "repeat")]


register_op(
    "repeat",
    inputs=("data",),
    attrs=RepeatAttrs,
    rel=_repeat_rel,
    pattern=OpPattern.INJECTIVE,
    traits=move(repeats=True),
    compute=_repeat_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="Each element repeated along an axis.",
    samples=(Sample([(2, 3)], {"repeats": 2, "axis": 1}), Sample([(2, 3)], {"repeats": 3, "axis": -2})),
).set_support_level(3)


def repeat(data: Operand, repeats: int, axis: int) -> Call:
    """Each element of *data* *repeats* times along *axis*. Source: ``relay.repeat``."""
    return make_call("repeat", [as_expr(data)], RepeatAttrs(repeats, axis))
