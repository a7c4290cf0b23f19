"""Which operator an expression calls: what passes and patterns ask before they look closer."""

from __future__ import annotations

from typing import TypeGuard

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.traits import Traits
from byoc.ir.types import TensorType
from byoc.relay.expr import Call


def op_name(expr: RelayExpr) -> str | None:
    """The name of the operator that *expr* calls; None for anything else."""
    return expr.op.name if isinstance(expr, Call) and isinstance(expr.op, Op) else None


def calls(expr: RelayExpr, *names: str) -> TypeGuard[Call]:
    """True for a call of one of the operators *names*."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in names


def traits_of(expr: RelayExpr) -> Traits | None:
    """What the operator that *expr* calls is; None for anything else."""
    return expr.op.traits if isinstance(expr, Call) and isinstance(expr.op, Op) else None


def carries_one(expr: RelayExpr) -> TypeGuard[Call]:
    """True for a typed call whose result, a tensor, has elements of its one operand, a tensor, and no others.

    What is done to each element, and keeps their order, may be done before or behind it.
    """
    if not isinstance(expr, Call) or not isinstance(expr.op, Op):
        return False
    if not expr.op.traits.carries or len(expr.args) != 1:
        return False
    types = expr.args[0].checked_type_, expr.checked_type_
    return all(isinstance(ty, TensorType) for ty in types)


def moves_one(expr: RelayExpr) -> TypeGuard[Call]:
    """True for a call that :func:`carries_one`, whatever the elements hold: any function of each may change places."""
    traits = traits_of(expr)
    return traits is not None and carries_one(expr) and not traits.chooses
