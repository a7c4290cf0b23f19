"""Every variable is bound once, and used only where what binds it is around.

A node that several places share is evaluated in the innermost scope around all of them (``analysis/scopes``), so that
is where its variables must be known. Functions of dataflow alone, which is nearly every function, need no scopes: what
they use is a parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from byoc.ir.expr import RelayExpr
from byoc.relay.adt import Match, pattern_vars
from byoc.relay.analysis.ancestor_tree import AncestorTree
from byoc.relay.expr import Function, If, Let, Var
from byoc.relay.traverse import binders, children, dataflow_children, post_order
from byoc.relay.verify.problem import ProblemError, place

_SCOPED = (Let, If, Match)


def check_scopes(func: Function, order: Sequence[RelayExpr], name: str) -> None:
    """Raises ProblemError for a variable of *func* that is bound twice, or used where nothing binds it.

    *order* is the post-order of *func*, which the module calls *name*.
    """
    nested = _check_binders(order, name)
    free = _free_by_function(nested) if not any(type(n) in _SCOPED for n in order) else None
    if free is None:
        _check_uses(order, name)
    elif free:
        raise ProblemError(_dangling(*free, name))


def _check_binders(order: Sequence[RelayExpr], name: str) -> list[Function]:
    """The functions in *order*, where no two nodes bind the same variable."""
    bound: set[Var] = set()
    nested = []
    for node in order:
        if type(node) is Function:
            nested.append(node)
        elif type(node) is not Let and type(node) is not Match:
            continue
        for var in binders(node):
            if var in bound:
                raise ProblemError(f"%{var.name_hint} is bound twice, the second time by {place(node, name)}")
            bound.add(var)
    return nested


def _free_by_function(nested: Sequence[Function]) -> tuple[Var, RelayExpr] | tuple[()] | None:
    """A variable that the outermost function leaves free, with its user; () where there is none.

    None where an inner function uses a variable of the one around it, which asks for scopes.
    """
    for func in nested:
        params = set(func.params)
        for node in post_order(func.body, dataflow_children):
            for child in (node, *dataflow_children(node)) if node is func.body else dataflow_children(node):
                if type(child) is Var and child not in params:
                    return (child, node) if func is nested[-1] else None
    return ()


def _check_uses(order: Sequence[RelayExpr], name: str) -> None:
    """Scopes from the root inwards; then each use is held to the scope of what binds the variable."""
    tree = AncestorTree()
    scope: dict[RelayExpr, int] = {order[-1]: 0}
    bound: dict[RelayExpr, int] = {}
    uses: list[tuple[Var, int, RelayExpr]] = []
    for node in reversed(order):
        if type(node) is Var:
            continue
        for child, inside, binds in _inner(node, scope[node], tree):
            if binds:
                bound[child] = inside
            elif type(child) is Var:
                uses.append((child, inside, node))
            else:
                known = scope.get(child)
                scope[child] = inside if known is None else tree.common_ancestor(known, inside)
    for var, inside, user in uses:
        where = bound.get(var)
        if where is None:
            raise ProblemError(_dangling(var, user, name))
        if where != inside and not tree.is_above(where, inside):
            raise ProblemError(f"%{var.name_hint} is used outside of its scope, by {place(user, name)}")


def _inner(node: RelayExpr, here: int, tree: AncestorTree) -> Iterator[tuple[RelayExpr, int, bool]]:
    """The sub-expressions of *node*, the scope of each, and whether *node* binds it."""
    if isinstance(node, Function):
        inside = tree.add(here)
        yield from ((param, inside, True) for param in node.params)
        yield node.body, inside, False
    elif isinstance(node, Let):
        inside = tree.add(here)
        yield node.variable, inside, True
        yield node.value, inside if isinstance(node.value, Function) else here, False  # it may call itself
        yield node.body, inside, False
    elif isinstance(node, If):
        yield node.cond, here, False
        yield node.true_branch, tree.add(here), False
        yield node.false_branch, tree.add(here), False
    elif isinstance(node, Match):
        inside = tree.add(here)
        yield node.data, here, False
        yield from ((var, inside, True) for var in pattern_vars(node))
        yield from ((clause.rhs, tree.add(inside), False) for clause in node.clauses)
    else:
        yield from ((child, here, False) for child in children(node))


def _dangling(var: Var, user: RelayExpr, name: str) -> str:
    by = f"@{name} itself" if user is var else place(user, name)
    return f"%{var.name_hint} is used by {by}, and nothing binds it"
