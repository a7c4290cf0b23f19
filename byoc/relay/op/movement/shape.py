"""Operators that give the same elements another shape. Source: ``relay/op/tensor/transform.cc``.

``reshape`` is defined piece by piece: runs of dimensions with the same product on both sides are mapped by
themselves, so that an untouched or unit dimension costs no arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from byoc import te
from byoc.errors import TypeInferenceError, UserError
from byoc.ir.attrs import Attrs, written
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import move, view
from byoc.ir.types import Any, Dim, TensorType, Type
from byoc.relay.expr import Call, check_expr
from byoc.relay.op.core.builder import Operand, as_expr, constant_ints, make_call
from byoc.relay.op.core.indexing import ZERO, linear_index, split_index
from byoc.relay.op.core.known_shapes import SizeProduct, are_as_many, dim_product, multiply, shape_product
from byoc.relay.op.core.type_relations import normalize_axes, normalize_axis, tensor_arg
from byoc.runtime.kernels.core.attributes import NewDim, plan_newshape


@dataclass(frozen=True)
class ReshapeAttrs(Attrs):
    """Attributes of ``reshape``; see ``byoc.runtime.kernels.core.attributes`` for the special numbers."""

    newshape: tuple[int, ...] = written(())
    allowzero: bool = False


@dataclass(frozen=True)
class DynReshapeAttrs(ReshapeAttrs):
    """Attributes of ``dyn.reshape``: of the result what is *known*, as ``match_shape`` has it."""

    known: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReshapeLikeAttrs(Attrs):
    """Attributes of ``reshape_like``: which dimensions of the first input become which of the second."""

    lhs_begin: int = 0
    lhs_end: int | None = None
    rhs_begin: int = 0
    rhs_end: int | None = None


@dataclass(frozen=True)
class TransposeAttrs(Attrs):
    """Attributes of ``transpose``: the input's axis for each of the output's; None reverses them."""

    axes: tuple[int, ...] | None = written(None)


@dataclass(frozen=True)
class ExpandDimsAttrs(Attrs):
    """Attributes of ``expand_dims``: how many dimensions of 1 stand before *axis*."""

    axis: int = written(0)
    num_newaxis: int = 1


@dataclass(frozen=True)
class SqueezeAttrs(Attrs):
    """Attributes of ``squeeze``: the dimensions of 1 to drop; None drops all."""

    axis: tuple[int, ...] | None = None


def reshaped(shape: Sequence[Dim], newshape: Sequence[int], allowzero: bool) -> tuple[Dim, ...]:
    """The shape that *newshape* gives. Raises TypeInferenceError when the elements do not fit."""
    if are_as_many(shape, newshape):
        return tuple(newshape)
    try:
        plan = plan_newshape(len(shape), newshape, allowzero)
    except UserError as error:
        raise TypeInferenceError(str(error)) from error
    factors = [_factor(d, shape) for d in plan]
    total, known = shape_product(shape), multiply(f for f in factors if f is not None)
    infers = any(d.inferred for d in plan)
    open_dims = sum(f is None for f in factors) - infers  # quotients of sizes that are not known
    rest = total.divided_by(known) if not open_dims else None
    static = not total.keys and not known.keys
    if static and (open_dims or (rest is None if infers else total != known)):
        raise TypeInferenceError(f"shape {tuple(shape)} cannot become {tuple(newshape)}: another number of elements")
    inferred = Any() if rest is None else rest.as_dim()
    return tuple(
        inferred if d.inferred else shape[d.source[0]] if _is_copy(d) else Any() if f is None else f.as_dim()
        for d, f in zip(plan, factors, strict=True)
    )


def _is_copy(dim: NewDim) -> bool:
    return len(dim.source) == 1 and dim.number == dim.divisor == 1


def _factor(dim: NewDim, shape: Sequence[Dim]) -> SizeProduct | None:
    """The product that a dimension of the plan is; None for one that is inferred or not whole."""
    if dim.inferred:
        return None
    product = multiply([SizeProduct(dim.number), *(dim_product(shape[k], k) for k in dim.source)])
    return product.divided_by(SizeProduct(dim.divisor))


def _reshape_rel(types: Sequence[Type], attrs: ReshapeAttrs) -> Type:
    data = tensor_arg(types, 0)
    return TensorType(reshaped(data.shape, attrs.newshape, attrs.allowzero), data.dtype)


Dims = Sequence[te.Dimension]


def matching_runs(old: Dims, new: Dims) -> list[tuple[list[int], list[int]]]:
    """Runs of dimensions of two shapes of one size, from the left, that hold the same number of elements each."""
    runs: list[tuple[list[int], list[int]]] = []
    left = [k for k, d in enumerate(old) if not (isinstance(d, int) and d == 1)]
    right = [k for k, d in enumerate(new) if not (isinstance(d, int) and d == 1)]
    while left and right:
        run = _next_run(left, right, old, new)
        runs.append(run)
        left, right = left[len(run[0]) :], right[len(run[1]) :]
    return runs


def _next_run(left: list[int], right: list[int], old: Dims, new: Dims) -> tuple[list[int], list[int]]:
    if old[left[0]] == new[right[0]]:
        return left[:1], right[:1]
    a, b = 1, 1
    first, second = _product(old, left[:a]), _product(new, right[:b])
    while first != second:
        if first is None or second is None or max(first, second) == 0:
            return left, right
        if first < second:
            a += 1
        else:
            b += 1
        if a > len(left) or b > len(right):
            return left, right
        first, second = _product(old, left[:a]), _product(new, right[:b])
    return (left[:a], right[:b]) if first is not None else (left, right)


def _product(shape: Dims, places: Sequence[int]) -> int | None:
    result = 1
    for k in places:
        size = shape[k]
        if not isinstance(size, int):
            return None
        result *= size
    return result


def reshape_load(data: te.Tensor, index: Sequence[te.PrimExpr], shape: Dims) -> te.PrimExpr:
    """The element of *data* that stands at *index* when its elements take *shape*."""
    own: list[te.PrimExpr] = [ZERO] * data.ndim
    for old, new in matching_runs(data.shape, shape):
        if len(old) == len(new) == 1:
            own[old[0]] = index[new[0]]
            continue
        position = linear_index([index[k] for k in new], [shape[k] for k in new])
        for k, part in zip(old, split_index(position, [data.shape[k] for k in old]), strict=True):
            own[k] = part
    return data[tuple(own)]


def reshape_compute(attrs: Attrs | None, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    """The definition of every operator that keeps the elements in their order."""
    shape = te.shape_of(out_type)
    return [te.compute(shape, lambda *i: reshape_load(inputs[0], i, shape), "reshape")]


register_op(
    "reshape",
    inputs=("data",),
    attrs=ReshapeAttrs,
    rel=_reshape_rel,
    pattern=OpPattern.INJECTIVE,
    traits=view(),
    compute=reshape_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="The same elements in another shape, in row-major order.",
    samples=(
        Sample([(2, 3, 4)], {"newshape": (6, 4)}),
        Sample([(2, 3, 4)], {"newshape": (4, -1)}),
        Sample([(2, 3, 4)], {"newshape": (0, -1)}),
        Sample([(2, 3, 4)], {"newshape": (-2,)}),
        Sample([(2, 3, 4)], {"newshape": (-3, 0, 1)}),
        Sample([(6, 4)], {"newshape": (-4, 2, -1, -2)}),
        Sample([(1, 2, 1, 6)], {"newshape": (2, 1, 3, 2)}),
        Sample([(1, 1)], {"newshape": ()}),
        Sample([(0, 3)], {"newshape": (3, 0), "allowzero": True}),
        Sample([(8, 9)], {"newshape": (3, 6, 4)}, "int32"),
    ),
).set_support_level(3)


def reshape(data: Operand, newshape: object, allowzero: bool = False) -> Call:
    """*data* with its elements in *newshape*, which may be a tensor known at run time. Source: ``relay.reshape``.

    A dimension ``Any`` stands for 0 where the data has that very size at the same place, else for -1.
    """
    if isinstance(newshape, (list, tuple)):
        ty = data.checked_type_ if isinstance(data, RelayExpr) else None
        old = ty.shape if isinstance(ty, TensorType) else ()
        newshape = [_number_for(d, old[i : i + 1]) if isinstance(d, Any) else d for i, d in enumerate(newshape)]
    numbers = constant_ints(newshape)
    if numbers is None:
        return make_call(
            "dyn.reshape", [as_expr(data), check_expr(newshape, "a shape")], DynReshapeAttrs((), allowzero)
        )
    return make_call("reshape", [as_expr(data)], ReshapeAttrs(numbers, allowzero))


def _number_for(dim: Any, old: Sequence[Dim]) -> int:
    return 0 if dim.name and list(old) == [dim] else -1


def _reshape_like_rel(types: Sequence[Type], attrs: ReshapeLikeAttrs) -> Type:
    data, like = tensor_arg(types, 0), tensor_arg(types, 1, "shape_like")
    lhs, rhs = slice(attrs.lhs_begin, attrs.lhs_end), slice(attrs.rhs_begin, attrs.rhs_end)
    start, stop, _ = lhs.indices(data.ndim)
    old, new = shape_product(data.shape[lhs]), shape_product(like.shape[rhs])
    if not old.keys and not new.keys and old != new:
        raise TypeInferenceError(f"dimensions {data.shape[lhs]} cannot become {like.shape[rhs]}")
    return TensorType((*data.shape[:start], *like.shape[rhs], *data.shape[max(stop, start) :]), data.dtype)


register_op(
    "reshape_like",
    inputs=("data", "shape_like"),
    attrs=ReshapeLikeAttrs,
    rel=_reshape_like_rel,
    pattern=OpPattern.INJECTIVE,
    traits=view(),
    compute=reshape_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="The first input in the shape of the second, or with some dimensions replaced by some of the second.",
    samples=(
        Sample([(2, 6), (3, 4)]),
        Sample([(2, 12, 5), (7, 3, 4)], {"lhs_begin": 1, "lhs_end": 2, "rhs_begin": 1, "rhs_end": 3}),
    ),
).set_support_level(3)


def reshape_like(
    data: Operand,
    shape_like: Operand,
    lhs_begin: int = 0,
    lhs_end: int | None = None,
    rhs_begin: int = 0,
    rhs_end: int | None = None,
) -> Call:
    """*data* in the shape of *shape_like*. Source: ``relay.reshape_like``."""
    attrs = ReshapeLikeAttrs(lhs_begin, lhs_end, rhs_begin, rhs_end)
    return make_call("reshape_like", [as_expr(data), as_expr(shape_like)], attrs)


def _permutation(attrs: TransposeAttrs, ndim: int) -> tuple[int, ...]:
    axes = tuple(reversed(range(ndim))) if not attrs.axes and ndim != 0 else attrs.axes or ()
    if len(axes) != ndim:
        raise TypeInferenceError(f"axes {axes} must name each of the {ndim} dimensions once")
    return normalize_axes(axes, ndim)


def _transpose_rel(types: Sequence[Type], attrs: TransposeAttrs) -> Type:
    data = tensor_arg(types, 0)
    return TensorType([data.shape[k] for k in _permutation(attrs, data.ndim)], data.dtype)


def _transpose_compute(attrs: TransposeAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data = inputs[0]
    axes = _permutation(attrs, data.ndim)
    places = [axes.index(k) for k in range(data.ndim)]
    return [te.compute(te.shape_of(out_type), lambda *i: data[tuple(i[p] for p in places)], "transpose")]


register_op(
    "transpose",
    inputs=("data",),
    attrs=TransposeAttrs,
    rel=_transpose_rel,
    pattern=OpPattern.INJECTIVE,
    traits=move(permutes=True),
    compute=_transpose_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="The axes in another order.",
    samples=(
        Sample([(2, 3, 4)], {"axes": (0, 2, 1)}),
        Sample([(2, 3, 4)]),
        Sample([(2, 3, 4)], {"axes": (-1, 0, 1)}),
        Sample([()]),
    ),
).set_support_level(3)


def transpose(data: Operand, axes: Sequence[int] | None = None) -> Call:
    """*data* with its axes in the order *axes*, reversed by default. Source: ``relay.transpose``."""
    return make_call("transpose", [as_expr(data)], TransposeAttrs(None if axes is None else tuple(axes)))


def _expand_dims_rel(types: Sequence[Type], attrs: ExpandDimsAttrs) -> Type:
    data = tensor_arg(types, 0)
    axis = normalize_axis(attrs.axis, data.ndim + 1)
    if attrs.num_newaxis < 0:
        raise TypeInferenceError(f"num_newaxis must not be negative, got {attrs.num_newaxis}")
    return TensorType((*data.shape[:axis], *(1,) * attrs.num_newaxis, *data.shape[axis:]), data.dtype)


register_op(
    "expand_dims",
    inputs=("data",),
    attrs=ExpandDimsAttrs,
    rel=_expand_dims_rel,
    pattern=OpPattern.INJECTIVE,
    traits=replace(view(), inserts_axis=True),
    compute=reshape_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="Dimensions of 1 put before an axis.",
    samples=(
        Sample([(2, 3)], {"axis": 1}),
        Sample([(2, 3)], {"axis": -1, "num_newaxis": 2}),
        Sample([()], {"axis": 0}),
    ),
).set_support_level(1)


def expand_dims(data: Operand, axis: int | RelayExpr, num_newaxis: int = 1) -> Call:
    """*data* with *num_newaxis* dimensions of 1 before *axis*. Source: ``relay.expand_dims``."""
    place = constant_ints(axis)
    if place is None:
        return make_call(
            "dyn.expand_dims", [as_expr(data), check_expr(axis, "an axis")], ExpandDimsAttrs(0, num_newaxis)
        )
    return make_call("expand_dims", [as_expr(data)], ExpandDimsAttrs(place[0], num_newaxis))


def _squeezed(shape: Sequence[Dim], axis: tuple[int, ...] | None) -> tuple[int, ...]:
    if axis is None:
        if any(isinstance(d, Any) for d in shape):
            raise TypeInferenceError(f"squeeze of {tuple(shape)} needs an axis, since a dimension is dynamic")
        return tuple(k for k, d in enumerate(shape) if d == 1)
    axes = normalize_axes(axis, len(shape))
    for k in axes:
        if isinstance(shape[k], int) and shape[k] != 1:
            raise TypeInferenceError(f"dimension {k} of {tuple(shape)} is {shape[k]}, only a 1 can be dropped")
    return axes


def _squeeze_rel(types: Sequence[Type], attrs: SqueezeAttrs) -> Type:
    data = tensor_arg(types, 0)
    dropped = _squeezed(data.shape, attrs.axis)
    return TensorType([d for k, d in enumerate(data.shape) if k not in dropped], data.dtype)


def _squeeze_compute(attrs: SqueezeAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data = inputs[0]
    dropped = (
        [k for k, d in enumerate(data.shape) if d == 1] if attrs.axis is None else [k % data.ndim for k in attrs.axis]
    )

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        rest = iter(i)
        return data[tuple(ZERO if k in dropped else next(rest) for k in range(data.ndim))]

    return [te.compute(te.shape_of(out_type), element, "squeeze")]


register_op(
    "squeeze",
    inputs=("data",),
    attrs=SqueezeAttrs,
    rel=_squeeze_rel,
    pattern=OpPattern.INJECTIVE,
    traits=view(),
    compute=_squeeze_compute,
    operations=lambda attrs, in_types, out_type: 0,
    doc="Dimensions of 1 dropped.",
    samples=(
        Sample([(1, 2, 1, 3)]),
        Sample([(1, 2, 1)], {"axis": (-1,)}),
        Sample([(2, 3)], {"axis": ()}),
        Sample([np.ones((1, 1), "int64")]),
    ),
).set_support_level(3)


def squeeze(data: Operand, axis: int | Sequence[int] | RelayExpr | None = None) -> Call:
    """*data* without the dimensions of 1 at *axis*, all of them by default. Source: ``relay.squeeze``."""
    numbers = None if axis is None else constant_ints(axis)
    if axis is not None and numbers is None:
        return make_call("dyn.squeeze", [as_expr(data), check_expr(axis, "an axis")])
    return make_call("squeeze", [as_expr(data)], SqueezeAttrs(numbers))
