"""Rewriting that keeps types: a node whose meaning did not change keeps the type of the node it was made from.

Invariant: a copy is given a type only when every sub-expression of it has one, so that below a typed node all is typed
and type inference can stop there. A pass that rebuilds 100,000 nodes need not infer them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import TypeVar

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.types import FuncType
from byoc.relay.expr import Call, Function
from byoc.relay.traverse import Children, children, rebuild, rewrite

E = TypeVar("E", bound=RelayExpr)


def keep_type(before: RelayExpr, after: E) -> E:
    """*after* with the type of *before*, which means the same, where all below *after* is typed."""
    if after is not before and after._checked_type is None and before._checked_type is not None:
        if all(child._checked_type is not None for child in children(after)):
            after._checked_type = before._checked_type
    return after


def typed_rebuild(expr: RelayExpr, new_children: Sequence[RelayExpr]) -> RelayExpr:
    """*expr* over *new_children* that mean the same, with its span and its type."""
    if type(expr) is Call and type(expr.op) is Op:  # what nearly every node is
        if all(map(is_, expr.args, new_children)):
            return expr
        after: RelayExpr = Call(expr.op, new_children, expr.attrs, expr._type_args, expr.span)
    else:
        after = rebuild(expr, new_children)
    if after is not expr and expr._checked_type is not None:
        for child in new_children:
            if child._checked_type is None:
                return after
        after._checked_type = expr._checked_type
    return after


def typed_function(func: Function) -> Function:
    """*func* with its function type, where its parameters and its body have types."""
    if func.body._checked_type is not None and all(p._checked_type is not None for p in func.params):
        func._checked_type = FuncType(
            [p.checked_type for p in func.params], func.declared_ret_type or func.body.checked_type, func.type_params
        )
    return func


def typed_rewrite(
    root: RelayExpr,
    transform: Callable[[RelayExpr, RelayExpr], RelayExpr],
    children_of: Children = children,
    done: dict[RelayExpr, RelayExpr] | None = None,
) -> RelayExpr:
    """Like ``traverse.rewrite`` for a *transform* whose result means what the node meant: types are kept."""
    return rewrite(root, transform, children_of, done, typed_rebuild)
