"""Which operator an expression calls: what passes and patterns ask before they look closer."""

from __future__ import annotations

from typing import TypeGuard

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.relay.expr import Call


def op_name(expr: RelayExpr) -> str | None:
    """The name of the operator that *expr* calls; None for anything else."""
    return expr.op.name if isinstance(expr, Call) and isinstance(expr.op, Op) else None


def calls(expr: RelayExpr, *names: str) -> TypeGuard[Call]:
    """True for a call of one of the operators *names*."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in names
