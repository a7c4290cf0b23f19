"""Quantized arithmetic of two tensors, broadcast: ``qnn.add``, ``qnn.subtract``, ``qnn.mul``.

Source: ``relay/qnn/op/{add,subtract,mul}.cc`` and ``op_common.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import pointwise
from byoc.ir.types import Type
from byoc.relay.expr import Call
from byoc.relay.op.core.arguments import Arguments, takes_fields_of
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import broadcast, tensor_arg
from byoc.relay.qnn.op.type_relations import SCALE, ZERO_POINT, check_along, check_scalar

INPUTS = (
    "lhs",
    "rhs",
    "lhs_scale",
    "lhs_zero_point",
    "rhs_scale",
    "rhs_zero_point",
    "output_scale",
    "output_zero_point",
)
DTYPES = ("int8", "uint8", "int16", "int32")


@dataclass(frozen=True)
class BroadcastAttrs(Attrs):
    """Attributes of quantized arithmetic: the axes along which the sides' scales and zero points lie."""

    lhs_axis: int = -1
    rhs_axis: int = -1


def _relation(types: Sequence[Type], attrs: BroadcastAttrs) -> Type:
    sides = (tensor_arg(types, 0, "lhs"), tensor_arg(types, 1, "rhs"))  # of any dtype, as in Relay
    for side, name, first, axis in zip(sides, ("lhs", "rhs"), (2, 4), (attrs.lhs_axis, attrs.rhs_axis), strict=True):
        check_along(side, types[first : first + 2], (f"{name}_scale", f"{name}_zero_point"), axis)
    check_scalar(types[6], "output_scale", SCALE)
    check_scalar(types[7], "output_zero_point", ZERO_POINT)
    return broadcast(types[:2], None)


def _numbers(*values: object) -> list[np.ndarray]:
    return [np.array(v, "float32" if k % 2 == 0 else "int32") for k, v in enumerate(values)]


_LHS, _RHS = np.arange(0, 252, 21, dtype="uint8").reshape(4, 3), np.array([0, 100, 255], "uint8")
_SAMPLES = (
    Sample([_LHS, _RHS, *_numbers(0.5, 3, 0.25, 120, 0.75, 10)]),
    Sample([_LHS, _LHS, *_numbers(0.5, 3, 0.5, 3, 0.5, 3)]),
    Sample([_LHS.view("int8"), _RHS.view("int8"), *_numbers([0.5, 0.1, 2.0], 3, 0.25, -20, 0.75, 10)]),
    Sample(
        [_LHS.view("int8"), _LHS.view("int8"), *_numbers([1.0, 0.1, 2.0, 0.5], [1, 2, 3, 4], 0.25, -20, 0.75, 0)],
        {"lhs_axis": 0},
    ),
)


@dataclass(eq=False, repr=False)
class BinaryArguments(Arguments):
    """Arguments of quantized arithmetic."""

    lhs: Operand
    rhs: Operand
    lhs_scale: Operand
    lhs_zero_point: Operand
    rhs_scale: Operand
    rhs_zero_point: Operand
    output_scale: Operand
    output_zero_point: Operand
    lhs_axis: int = -1
    rhs_axis: int = -1

    def numbers(self) -> list[RelayExpr]:
        """The scales and the zero points, in the order of the operator's inputs."""
        return [as_expr(getattr(self, name), (SCALE, ZERO_POINT)[k % 2]) for k, name in enumerate(INPUTS[2:])]


def _quantized(name: str, doc: str) -> Callable[..., Call]:
    register_op(
        f"qnn.{name}",
        inputs=INPUTS,
        attrs=BroadcastAttrs,
        rel=_relation,
        pattern=OpPattern.BROADCAST,
        traits=pointwise(quantized=True),
        doc=doc,
        samples=_SAMPLES,
    )

    @takes_fields_of(BinaryArguments)
    def build(given: BinaryArguments) -> Call:
        sides = [as_expr(given.lhs), as_expr(given.rhs)]
        attrs = BroadcastAttrs(int(given.lhs_axis), int(given.rhs_axis))
        return make_call(f"qnn.{name}", [*sides, *given.numbers()], attrs)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{doc} Both sides broadcast. Source: ``relay.qnn.op.{name}``."
    return build


add = _quantized("add", "The sum of two quantized tensors.")
subtract = _quantized("subtract", "The difference of two quantized tensors.")
mul = _quantized("mul", "The product of two quantized tensors, element by element.")
