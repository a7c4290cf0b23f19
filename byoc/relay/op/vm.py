"""Operators of Relay's virtual machine that a program can hold: shapes as values. Source: ``relay.op.vm``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import Sample, register_op
from byoc.ir.op_parts import Implementation
from byoc.ir.traits import creation, view
from byoc.ir.types import Any, Dim, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.relay.op.dynamic import vector_length
from byoc.relay.op.movement.create import ShapeOfAttrs
from byoc.relay.op.vm_calls import invoke_tvm_op, shape_func


@dataclass(frozen=True)
class ReshapeTensorAttrs(Attrs):
    """Attributes of ``vm.reshape_tensor``: the shape as far as it is known, -1 for what is not."""

    newshape: tuple[int, ...] = ()


def _shape_of_rel(types: Sequence[Type], attrs: ShapeOfAttrs) -> Type:
    return TensorType((tensor_arg(types, 0).ndim,), attrs.dtype)


register_op(
    "vm.shape_of",
    inputs=("tensor",),
    attrs=ShapeOfAttrs,
    rel=_shape_of_rel,
    traits=creation(gives_shape=True),
    compute=Implementation(kernel="shape_of"),
    doc="The shape of a tensor, as the virtual machine gives it.",
    samples=(Sample([(2, 3, 4)], {"dtype": "int64"}), Sample([()], {"dtype": "int64"})),
)


def shape_of(expr: Operand) -> Call:
    """The shape of *expr*, ``int64[rank]``. Source: ``relay.op.vm.shape_of``."""
    return make_call("vm.shape_of", [as_expr(expr)], ShapeOfAttrs("int64"))


def _reshape_rel(types: Sequence[Type], attrs: ReshapeTensorAttrs) -> Type:
    if vector_length(types, 1, "shape") != len(attrs.newshape):
        raise TypeInferenceError(f"shape must have {len(attrs.newshape)} numbers, got {types[1]}")
    return TensorType([Any() if d < 0 else d for d in attrs.newshape], tensor_arg(types, 0).dtype)


register_op(
    "vm.reshape_tensor",
    inputs=("data", "shape"),
    attrs=ReshapeTensorAttrs,
    rel=_reshape_rel,
    traits=replace(view(), host_operands=(1,)),
    doc="The same elements in a shape that an input holds, of which some dimensions are known.",
    samples=(
        Sample([(2, 6), np.array([3, 4], "int64")], {"newshape": (3, 4)}),
        Sample([(2, 6), np.array([4, 3], "int64")], {"newshape": (-1, 3)}),
    ),
)


def reshape_tensor(data: Operand, shape: Operand, newshape: Sequence[Dim]) -> Call:
    """*data* in *shape*, of which *newshape* says what is known. Source: ``relay.op.vm.reshape_tensor``."""
    known = tuple(-1 if isinstance(d, Any) else int(d) for d in newshape)
    return make_call("vm.reshape_tensor", [as_expr(data), as_expr(shape)], ReshapeTensorAttrs(known))


__all__ = ["invoke_tvm_op", "reshape_tensor", "shape_func", "shape_of"]
