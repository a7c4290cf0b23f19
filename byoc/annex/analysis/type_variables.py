"""The type variables and dtypes in expressions and types. Source: ``relay.analysis``."""

from __future__ import annotations

from collections.abc import Iterator

from byoc.ir.expr import Constructor, RelayExpr, TypeData
from byoc.ir.module import IRModule
from byoc.ir.types import FuncType, GlobalTypeVar, TensorType, Type, TypeVar, type_children
from byoc.relay.expr import Call, Constant, Function, Var
from byoc.relay.traverse import post_order


def _types_in(expr: RelayExpr | Type) -> Iterator[Type]:
    """The types that stand in *expr*, outermost ones, in post-order."""
    if isinstance(expr, Type):
        yield expr
        return
    for node in post_order(expr):
        if isinstance(node, Var) and node.type_annotation is not None:
            yield node.type_annotation
        elif isinstance(node, Function):
            yield from node.type_params
            if node.ret_type is not None:
                yield node.ret_type
        elif isinstance(node, Call):
            yield from node.type_args
        elif isinstance(node, Constructor):
            yield from node.inputs


def _walk(ty: Type) -> Iterator[Type]:
    """*ty* and all types inside it, type parameters where they are bound first."""
    stack = [ty]
    while stack:
        top = stack.pop()
        yield top
        inner: tuple[Type, ...] = type_children(top)
        if isinstance(top, FuncType):
            inner = (*top.type_params, *inner)
        if isinstance(top, TypeData):
            inner = (*top.type_vars, *(t for c in top.constructors for t in c.inputs))
        stack.extend(reversed(inner))


def all_type_vars(expr: RelayExpr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """Every type variable in *expr*, in order of its first use. Source: ``analysis.all_type_vars``."""
    found = {t: None for outer in _types_in(expr) for t in _walk(outer) if isinstance(t, TypeVar)}
    return [t for t in found if not isinstance(t, GlobalTypeVar)]


def bound_type_vars(expr: RelayExpr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """The type variables that functions, function types and data types in *expr* bind."""
    found: dict[TypeVar, None] = {}
    if isinstance(expr, RelayExpr):
        for node in post_order(expr):
            if isinstance(node, Function):
                found.update(dict.fromkeys(node.type_params))
    for outer in _types_in(expr):
        for ty in _walk(outer):
            if isinstance(ty, FuncType):
                found.update(dict.fromkeys(ty.type_params))
            elif isinstance(ty, TypeData):
                found.update(dict.fromkeys(ty.type_vars))
    return list(found)


def free_type_vars(expr: RelayExpr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """The type variables in *expr* that nothing there binds. Source: ``analysis.free_type_vars``."""
    bound = set(bound_type_vars(expr))
    return [var for var in all_type_vars(expr) if var not in bound]


def all_dtypes(expr: RelayExpr) -> set[str]:
    """The dtypes of all tensors in *expr*, which must be typed where its nodes are to count.

    Source: ``analysis.all_dtypes``.
    """
    found: set[str] = set()
    for node in post_order(expr):
        ty = node.checked_type_
        types = [ty] if ty is not None else list(_types_in(node)) if isinstance(node, (Var, Constant)) else []
        found.update(t.dtype for outer in types for t in _walk(outer) if isinstance(t, TensorType))
    return found
