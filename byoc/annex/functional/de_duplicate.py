"""Copies of expressions that bind variables of their own, for what is put into a program more than once.

Invariant: no variable is bound both in the copy and in what it was made from; sharing, free variables, spans and
attributes stay. Source: ``DeDup`` of Relay, which besides unfolds sharing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.types import IncompleteType, Type, TypeVar, substitute_types
from byoc.relay.analysis.variables import bound_vars
from byoc.relay.expr import Call, Function, Var
from byoc.relay.traverse import rewrite


def dedup(
    expr: RelayExpr,
    values: Mapping[Var, RelayExpr] | None = None,
    types: Mapping[TypeVar, Type] | None = None,
) -> RelayExpr:
    """*expr* with new variables for those that it binds, *values* for variables and *types* for type variables."""
    over = dict[Type, Type]((types or {}).items())
    new: dict[RelayExpr, RelayExpr] = {
        var: Var(var.name_hint, _over(var.type_annotation, over), var.span) for var in bound_vars(expr)
    }
    new.update((values or {}).items())

    def copied(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if before in new:
            return new[before]
        if over and isinstance(after, Function):
            result = _over(after.declared_ret_type, over)
            params = [p for p in after.type_params if p not in over]
            return Function(after.params, after.body, result, params, after.attrs, after.span)
        if over and isinstance(after, Call) and after._type_args:
            given = [substitute_types(t, over) for t in after._type_args]
            return Call(after.op, after.args, after.attrs, given, after.span)
        return after

    return rewrite(expr, copied)


def applied(function: Function, args: Sequence[RelayExpr], type_args: Sequence[Type] = ()) -> RelayExpr:
    """The body of *function* over *args*; of a generic one over *type_args*, or over types to be inferred."""
    given = type_args or [IncompleteType(var.kind) for var in function.type_params]
    types = dict(zip(function.type_params, given, strict=True))
    return dedup(function.body, dict(zip(function.params, args, strict=True)), types)


def _over(ty: Type | None, types: Mapping[Type, Type]) -> Type | None:
    return substitute_types(ty, types) if ty is not None and types else ty
