"""The variables of an expression, in post-order. Source: ``relay.analysis``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.relay.expr import Call, Var
from byoc.relay.traverse import binders, children, post_order


def post_order_visit(expr: RelayExpr, fvisit: Callable[[RelayExpr], None]) -> None:
    """Call *fvisit* once on each node under *expr*, sub-expressions first; operators are nodes too, before arguments.

    Source: ``relay.analysis.post_order_visit``.
    """
    for node in post_order(expr, _with_operators):
        fvisit(node)


def _with_operators(expr: RelayExpr) -> Sequence[RelayExpr]:
    if isinstance(expr, Call) and isinstance(expr.op, Op):
        return (expr.op, *expr.args)
    return () if isinstance(expr, Op) else children(expr)


def all_vars(expr: RelayExpr) -> list[Var]:
    """Every variable under *expr*."""
    return [node for node in post_order(expr) if isinstance(node, Var)]


def bound_vars(expr: RelayExpr) -> list[Var]:
    """The variables that a function, a let or a match under *expr* binds."""
    bound: dict[Var, None] = {}
    for node in post_order(expr):
        bound.update(dict.fromkeys(binders(node)))
    return list(bound)


def free_vars(expr: RelayExpr) -> list[Var]:
    """The variables under *expr* that nothing there binds, in the order of their first use."""
    bound = set(bound_vars(expr))
    return [v for v in all_vars(expr) if v not in bound]
