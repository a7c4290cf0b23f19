"""When an expression is the one that an ExprPattern names: structural equality, the common cases first."""

from __future__ import annotations

from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.op import Op
from byoc.relay.structure.structural import structural_equal


def matches_expression(wanted: RelayExpr, expr: RelayExpr) -> bool:
    """True when *expr* is *wanted*, or structurally equal to it; free variables are equal to themselves alone."""
    if wanted is expr:
        return True
    if type(wanted) is not type(expr) or isinstance(wanted, (Op, GlobalVar)):
        return False
    return structurally_equal(wanted, expr)


def structurally_equal(left: RelayExpr, right: RelayExpr, map_free_vars: bool = False) -> bool:
    """``tvm.ir.structural_equal``; with *map_free_vars* free variables are matched by where they occur."""
    return left is right or structural_equal(left, right, map_free_vars)
