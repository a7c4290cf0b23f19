"""Iterative traversal: what the sub-expressions of each node class are, and how a node is rebuilt from others.

Every walk of this package goes through :func:`post_order` or :func:`rewrite`, so that a chain of 100,000 calls needs
no recursion. Let-chains count as nested expressions and are walked the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import TypeVar, overload

from byoc.errors import InternalError
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.op import Op
from byoc.ir.types import FuncType
from byoc.relay.adt import Clause, Match, pattern_vars, rename_pattern
from byoc.relay.expr import (
    Call,
    Constant,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from byoc.relay.narrowing import as_var

Children = Callable[[RelayExpr], Sequence[RelayExpr]]
_LEAF: tuple[RelayExpr, ...] = ()

# node class -> its sub-expressions in evaluation order
CHILDREN: dict[type, Callable[..., Sequence[RelayExpr]]] = {
    Op: lambda e: _LEAF,
    GlobalVar: lambda e: _LEAF,
    Var: lambda e: _LEAF,
    Constant: lambda e: _LEAF,
    Constructor: lambda e: _LEAF,
    Call: lambda e: e.args if type(e.op) is Op else (e.op, *e.args),
    Tuple: lambda e: e.fields,
    TupleGetItem: lambda e: (e.tuple_value,),
    Function: lambda e: (*e.params, e.body),
    Let: lambda e: (e.variable, e.value, e.body),
    If: lambda e: (e.cond, e.true_branch, e.false_branch),
    RefCreate: lambda e: (e.value,),
    RefRead: lambda e: (e.ref,),
    RefWrite: lambda e: (e.ref, e.value),
    Match: lambda e: (e.data, *pattern_vars(e), *(clause.rhs for clause in e.clauses)),
}

Rebuild = Callable[[RelayExpr, Sequence[RelayExpr]], RelayExpr]


def _rebuild_call(e: Call, new: Sequence[RelayExpr]) -> Call:
    if type(e.op) is Op:
        return Call(e.op, new, e.attrs, e._type_args, e.span)
    return Call(new[0], new[1:], e.attrs, e._type_args, e.span)


def _rebuild_match(e: Match, new: Sequence[RelayExpr]) -> Match:
    variables = pattern_vars(e)
    names = {old: as_var(var) for old, var in zip(variables, new[1:], strict=False)}
    results = new[1 + len(variables) :]
    clauses = [Clause(rename_pattern(c.lhs, names), rhs) for c, rhs in zip(e.clauses, results, strict=True)]
    return Match(new[0], clauses, e.complete, e.span)


# node class -> the same node over new sub-expressions, in the order of CHILDREN
REBUILD: dict[type, Callable[..., RelayExpr]] = {
    Call: _rebuild_call,
    Tuple: lambda e, new: Tuple(new, e.span),
    TupleGetItem: lambda e, new: TupleGetItem(new[0], e.index, e.span),
    Function: lambda e, new: e.over(new[:-1], new[-1]),
    Let: lambda e, new: Let(new[0], new[1], new[2], e.span),
    If: lambda e, new: If(new[0], new[1], new[2], e.span),
    RefCreate: lambda e, new: RefCreate(new[0], e.span),
    RefRead: lambda e, new: RefRead(new[0], e.span),
    RefWrite: lambda e, new: RefWrite(new[0], new[1], e.span),
    Match: _rebuild_match,
}


def children(expr: RelayExpr) -> Sequence[RelayExpr]:
    """The sub-expressions of *expr* in evaluation order; the operator of a call is not one, a callee function is."""
    if type(expr) is Call and type(expr.op) is Op:  # what nearly every node is
        return expr.args
    try:
        return CHILDREN[type(expr)](expr)
    except KeyError:
        raise InternalError(f"no rule for the sub-expressions of a {type(expr).__name__}") from None


# the rules by which the sub-expressions of an operator's call are its arguments
_PLAIN: set[Children] = {children}


def enters_calls(children_of: Children) -> Children:
    """Declares that *children_of* gives the arguments of each operator's call, so that walks need not ask it."""
    _PLAIN.add(children_of)
    return children_of


@overload
def rebuild(expr: Call, new_children: Sequence[RelayExpr]) -> Call: ...
@overload
def rebuild(expr: Tuple, new_children: Sequence[RelayExpr]) -> Tuple: ...
@overload
def rebuild(expr: TupleGetItem, new_children: Sequence[RelayExpr]) -> TupleGetItem: ...
@overload
def rebuild(expr: RelayExpr, new_children: Sequence[RelayExpr]) -> RelayExpr: ...
def rebuild(expr: RelayExpr, new_children: Sequence[RelayExpr]) -> RelayExpr:
    """*expr* over *new_children*: the node itself when nothing changed, else a copy with its span and no type."""
    old = children(expr)
    if len(old) != len(new_children):
        raise InternalError(f"a {type(expr).__name__} has {len(old)} sub-expressions, got {len(new_children)}")
    if all(map(is_, old, new_children)):
        return expr
    return REBUILD[type(expr)](expr, new_children)


def dataflow_children(expr: RelayExpr) -> Sequence[RelayExpr]:
    """Like :func:`children`, without the inside of functions: a function is a leaf."""
    return _LEAF if type(expr) is Function else children(expr)


def binders(expr: RelayExpr) -> Sequence[Var]:
    """The variables that *expr* itself binds: parameters, the variable of a let, those of a match's patterns."""
    if isinstance(expr, Function):
        return expr.params
    if isinstance(expr, Let):
        return (expr.variable,)
    return pattern_vars(expr) if isinstance(expr, Match) else ()


def post_order(root: RelayExpr, children_of: Children = children) -> Iterator[RelayExpr]:
    """Each node under *root* once, its sub-expressions first; deterministic, and without recursion."""
    seen: set[RelayExpr] = set()
    stack: list[RelayExpr | None] = [root]
    pop, see = stack.pop, seen.add
    plain = children_of in _PLAIN  # written out, since nearly every walk is over such calls
    while stack:
        node = pop()
        if node is None:  # stands above a node whose sub-expressions are done
            yield pop()  # type: ignore[misc]
        elif node not in seen:
            see(node)
            inner = node.args if plain and type(node) is Call and type(node.op) is Op else children_of(node)
            if inner:
                stack += (node, None)
                stack += inner[::-1]
            else:
                yield node


def rewrite(
    root: RelayExpr,
    transform: Callable[[RelayExpr, RelayExpr], RelayExpr],
    children_of: Children = children,
    done: dict[RelayExpr, RelayExpr] | None = None,
    over: Rebuild = rebuild,
) -> RelayExpr:
    """Rebuild *root* bottom up: the one driver of rewrites.

    The result shares what the input shared, so that a value is used as often as before; copies carry the spans of what
    they were made from. A node for which *children_of* gives nothing keeps its sub-expressions; of the others, one that
    it leaves out stays as it is, unless it is reached from elsewhere.

    Args:
        transform: what replaces a node, given ``(before, after)``: itself and its copy over rewritten sub-expressions.
        children_of: the sub-expressions that are rewritten before a node, in their order.
        done: where it is noted what became of each node, for a *transform* that reads it.
        over: makes the copy of a node over new sub-expressions.
    """
    memo = {} if done is None else done
    plain = children_of in _PLAIN
    for node in post_order(root, children_of):
        if plain and type(node) is Call and type(node.op) is Op:  # written out, as above
            after = over(node, [memo.get(c, c) for c in node.args]) if node.args else node
        else:
            after = over(node, [memo.get(c, c) for c in children(node)]) if children_of(node) else node
        memo[node] = transform(node, after)
    return memo[root]


def substitute(root: RelayExpr, replacements: dict[RelayExpr, RelayExpr]) -> RelayExpr:
    """*root* with each key of *replacements* replaced by its value (variables, or any node by identity)."""
    return rewrite(root, lambda before, after: replacements.get(before, after))


# Rewriting that keeps types. Invariant: a copy gets a type only where all its sub-expressions have one, so that below a
# typed node all is typed, and type inference stops there.

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


def same_types_rebuild(expr: RelayExpr, new_children: Sequence[RelayExpr]) -> RelayExpr:
    """*expr* over *new_children*, with its span, and with its type where each has the type of the child before."""
    if type(expr) is Call and all(map(is_, expr.args, new_children)) and type(expr.op) is Op:
        return expr
    after = rebuild(expr, new_children)
    if after is not expr and type(after) is Call and type(after.op) is Op and expr._checked_type is not None:
        for old, new in zip(children(expr), new_children, strict=True):
            if new._checked_type is None or (new is not old and new._checked_type != old._checked_type):
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
