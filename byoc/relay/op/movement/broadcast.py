"""Operators that choose, broadcast, and undo broadcasting. Source: ``relay/op/tensor/transform.cc``."""

from __future__ import annotations

from collections.abc import Sequence

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import Conversion, OpKind, Traits, move
from byoc.ir.types import Dim, TensorType, Type, tensor_types
from byoc.relay.expr import Call, check_expr
from byoc.relay.op.core.builder import Operand, as_expr, constant_ints, in_dtype_of, known_dtype, make_call
from byoc.relay.op.core.indexing import ZERO, broadcast_load
from byoc.relay.op.core.type_relations import broadcast_shape, same_dtype, tensor_arg
from byoc.relay.op.movement.create import DynInitAttrs, InitOpAttrs


def _where_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    cond, x, y = (tensor_arg(types, k, n) for k, n in enumerate(("condition", "x", "y")))
    return TensorType(broadcast_shape(cond.shape, broadcast_shape(x.shape, y.shape)), same_dtype((x, y)))


def _where_compute(attrs: Attrs | None, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    shape = te.shape_of(out_type)

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        cond, x, y = (broadcast_load(t, i, shape) for t in inputs)
        return te.if_then_else(cond if cond.dtype == "bool" else te.binary("ne", cond, 0), x, y)

    return [te.compute(shape, element, "where")]


_COND = Sample([(2, 3)], dtype="bool").arrays()[0]
register_op(
    "where",
    inputs=("condition", "x", "y"),
    rel=_where_rel,
    pattern=OpPattern.BROADCAST,
    traits=Traits(OpKind.POINTWISE, carries=(1, 2), precision=Conversion.FOLLOW),
    compute=_where_compute,
    doc="Elements of *x* where the condition holds, else of *y*; all three broadcast.",
    samples=(Sample([_COND, (2, 3), (2, 3)]), Sample([_COND, (3,), (4, 1, 1)]), Sample([(3,), (2, 1), ()])),
).set_support_level(4)


def where(condition: Operand, x: Operand, y: Operand) -> Call:
    """*x* where *condition* holds, else *y*. Source: ``relay.where``."""
    args = [as_expr(condition), as_expr(x, known_dtype(y)), as_expr(y, known_dtype(x))]
    return make_call("where", args)


def _check_broadcast(data: TensorType, shape: Sequence[Dim]) -> TensorType:
    if len(shape) < data.ndim:
        raise TypeInferenceError(f"{data} cannot be broadcast to {tuple(shape)}: a smaller rank")
    whole = broadcast_shape(data.shape, shape)
    if any(isinstance(w, int) and isinstance(s, int) and w != s for w, s in zip(whole, shape, strict=True)):
        raise TypeInferenceError(f"{data} cannot be broadcast to {tuple(shape)}")
    return TensorType(shape, data.dtype)


def broadcast_compute(attrs: Attrs | None, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    """The first input broadcast to the type of the result."""
    shape = te.shape_of(out_type)
    return [te.compute(shape, lambda *i: broadcast_load(inputs[0], i, shape), "broadcast_to")]


register_op(
    "broadcast_to",
    inputs=("data",),
    attrs=InitOpAttrs,
    pattern=OpPattern.BROADCAST,
    traits=move(repeats=True),
    compute=broadcast_compute,
    rel=lambda types, attrs: _check_broadcast(tensor_arg(types, 0), attrs.shape),
    operations=lambda attrs, in_types, out_type: 0,
    doc="The tensor repeated along its dimensions of 1 to a shape.",
    samples=(Sample([(3, 1)], {"shape": (2, 3, 4)}), Sample([()], {"shape": (2,)}), Sample([(1,)], {"shape": (1,)})),
).set_support_level(4)


def broadcast_to(data: Operand, shape: object) -> Call:
    """*data* broadcast to *shape*, which may be a tensor known at run time. Source: ``relay.broadcast_to``."""
    numbers = constant_ints(shape)
    if numbers is None:
        return make_call("dyn.broadcast_to", [as_expr(data), check_expr(shape, "a shape")], DynInitAttrs((), ""))
    return make_call("broadcast_to", [as_expr(data)], InitOpAttrs(in_dtype_of(shape, numbers), ""))


register_op(
    "broadcast_to_like",
    inputs=("data", "broadcast_type"),
    pattern=OpPattern.BROADCAST,
    traits=move(),
    compute=broadcast_compute,
    rel=lambda types, attrs: _check_broadcast(tensor_arg(types, 0), tensor_arg(types, 1, "broadcast_type").shape),
    operations=lambda attrs, in_types, out_type: 0,
    doc="The first input broadcast to the shape of the second.",
    samples=(Sample([(3, 1), (2, 3, 4)]),),
)


def broadcast_to_like(data: Operand, broadcast_type: Operand) -> Call:
    """*data* broadcast to the shape of *broadcast_type*. Source: ``relay.broadcast_to_like``."""
    return make_call("broadcast_to_like", [as_expr(data), as_expr(broadcast_type)])


def _check_collapse(data: TensorType, shape: Sequence[Dim]) -> TensorType:
    _check_broadcast(TensorType(shape, data.dtype), data.shape)
    return TensorType(shape, data.dtype)


def _collapse_compute(attrs: Attrs | None, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data, target = inputs[0], te.shape_of(out_type)
    lead = data.ndim - len(target)
    summed = [k for k in range(data.ndim) if k < lead or (target[k - lead] == 1 and data.shape[k] != 1)]

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        index = [ZERO] * lead + list(i)
        over = [te.reduce_axis(data.shape[k], f"r{k}") for k in summed]
        for k, axis in zip(summed, over, strict=True):
            index[k] = axis
        return te.sum(data[tuple(index)], over) if over else data[tuple(index)]

    return [te.compute(target, element, "collapse_sum")]


def _elements(attrs: Attrs | None, in_types: Sequence[Type], out_type: Type) -> int:
    size = 1
    for dim in tensor_types(in_types[0])[0].shape:
        size *= dim if isinstance(dim, int) else 1
    return size


register_op(
    "collapse_sum_like",
    inputs=("data", "collapse_type"),
    pattern=OpPattern.COMM_REDUCE,
    compute=_collapse_compute,
    rel=lambda types, attrs: _check_collapse(tensor_arg(types, 0), tensor_arg(types, 1, "collapse_type").shape),
    operations=_elements,
    doc="The sum over the dimensions along which the second input would be broadcast.",
    samples=(Sample([(2, 3, 4), (3, 1)]), Sample([(2, 3), (2, 3)]), Sample([(2, 3), ()])),
)
register_op(
    "collapse_sum_to",
    inputs=("data",),
    attrs=InitOpAttrs,
    pattern=OpPattern.COMM_REDUCE,
    compute=_collapse_compute,
    rel=lambda types, attrs: _check_collapse(tensor_arg(types, 0), attrs.shape),
    operations=_elements,
    doc="The sum over the dimensions along which a tensor of the shape would be broadcast.",
    samples=(Sample([(2, 3, 4)], {"shape": (3, 1)}),),
)


def collapse_sum_like(data: Operand, collapse_type: Operand) -> Call:
    """*data* summed to the shape of *collapse_type*. Source: ``relay.collapse_sum_like``."""
    return make_call("collapse_sum_like", [as_expr(data), as_expr(collapse_type)])


def collapse_sum_to(data: Operand, shape: Sequence[int]) -> Call:
    """*data* summed to *shape*. Source: ``relay.collapse_sum_to``."""
    return make_call("collapse_sum_to", [as_expr(data)], InitOpAttrs(tuple(shape), ""))
