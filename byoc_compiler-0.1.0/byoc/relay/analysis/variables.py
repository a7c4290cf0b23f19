"""The variables of an expression, in post-order. Source: ``relay.analysis``."""

from __future__ import annotations

from collections.abc import Callable

from byoc.ir.expr import RelayExpr
from byoc.relay.expr import Var
from byoc.relay.traverse import binders, post_order


def post_order_visit(expr: RelayExpr, fvisit: Callable[[RelayExpr], None]) -> None:
    """Call *fvisit* once on each node under *expr*, sub-expressions first."""
    for node in post_order(expr):
        fvisit(node)


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
