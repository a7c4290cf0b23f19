"""Checks of an expression's form: variables bound once and in scope, constants, blocks. Source: ``relay.analysis``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from byoc.errors import TypeInferenceError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.adt import Match, PatternVar, patterns_of
from byoc.relay.analysis.scopes import Scopes
from byoc.relay.expr import Constant, Function, Let, Tuple, Var
from byoc.relay.traverse import children, post_order


class _Bind(NamedTuple):
    """A variable is to be bound."""

    variable: Var


class _Close(NamedTuple):
    """Variables go out of scope."""

    variables: Sequence[Var]


_Task = RelayExpr | _Bind | _Close  # what is still to do; an expression is to be visited


def well_formed(expr: RelayExpr | IRModule) -> bool:
    """True when no variable is bound twice, and none is used outside of what binds it.

    Free variables are allowed; a node that is used several times is looked at once, at its first use, as in Relay.
    Source: ``relay.analysis.well_formed``.
    """
    if isinstance(expr, IRModule):
        return all(well_formed(func) for func in expr.functions.values())
    in_scope: set[Var] = set()
    ever_bound: set[Var] = set()
    free: set[Var] = set()
    seen: set[RelayExpr] = set()
    stack: list[_Task] = [expr]
    while stack:
        item = stack.pop()
        if isinstance(item, _Close):
            in_scope.difference_update(item.variables)
        elif isinstance(item, _Bind):
            if item.variable in ever_bound or item.variable in free:
                return False
            in_scope.add(item.variable)
            ever_bound.add(item.variable)
        elif isinstance(item, Var):
            if item not in in_scope:
                if item in ever_bound:
                    return False
                free.add(item)
        elif item not in seen:
            seen.add(item)
            stack.extend(reversed(list(_tasks(item))))
    return True


def _tasks(node: RelayExpr) -> Iterator[_Task]:
    """What to do for *node*, in order."""
    if isinstance(node, Let):
        yield from (_Bind(node.variable), node.value, node.body, _Close([node.variable]))
    elif isinstance(node, Function):
        yield from map(_Bind, node.params)
        yield from (node.body, _Close(node.params))
    elif isinstance(node, Match):
        yield node.data
        for clause in node.clauses:
            bound = [p.var for p in patterns_of(clause.lhs) if isinstance(p, PatternVar)]
            yield from map(_Bind, bound)
            yield from (clause.rhs, _Close(bound))
    else:
        yield from children(node)


def check_constant(expr: RelayExpr) -> bool:
    """True for a constant, and for a tuple of such. Source: ``relay.analysis.check_constant``."""
    return all(isinstance(node, (Constant, Tuple)) for node in post_order(expr))


def check_basic_block_normal_form(expr: RelayExpr) -> bool:
    """True when nothing that several scopes share stands outside of a let.

    Raises TypeInferenceError that names what should be lifted, as Relay does. Source:
    ``relay.analysis.check_basic_block_normal_form``.
    """
    for node in Scopes(expr).lifted:
        raise TypeInferenceError(
            f"the expression is not in basic block normal form: a {type(node).__name__} that several scopes use should "
            "be bound by a let above them; run relay.transform.ToBasicBlockNormalForm"
        )
    return True
