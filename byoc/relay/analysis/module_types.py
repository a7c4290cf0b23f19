"""Type inference over functions and modules: forwards where that is enough, by unification where it is not.

Forward inference keeps types in the nodes that are there. Where something must be found that the program does not say
(types of untyped parameters, type arguments, algebraic data), the functions concerned are solved together and made
again, so that a module may come back with other functions. Source: Relay's InferType.
"""

from __future__ import annotations

from byoc.ir.expr import BaseFunc, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.types import Type
from byoc.relay.analysis.type_infer import NeedsSolvingError, infer_expr
from byoc.relay.expr import Function
from byoc.relay.narrowing import as_function
from byoc.relay.traverse import post_order


def typed_expr(expr: RelayExpr, mod: IRModule | None = None) -> RelayExpr:
    """*expr* with every node typed: itself where forward inference is enough, else made again.

    Raises TypeInferenceError naming the operator, the node and the types that do not fit.
    """
    try:
        infer_expr(expr, mod)
        return expr
    except NeedsSolvingError:
        from byoc.relay.analysis.type_check import TypeCheck

        return TypeCheck(mod, {}).run([expr])[0]


def infer_type_local(expr: RelayExpr, mod: IRModule | None = None) -> Type:
    """The type of *expr* alone, kept in it. Source: ``relay.transform.InferTypeLocal``."""
    expr._checked_type = typed_expr(expr, mod).checked_type
    return expr._checked_type


def infer_function(func: Function, mod: IRModule | None = None) -> Function:
    """*func* with every node typed; see :func:`typed_expr`."""
    typed = typed_expr(func, mod)
    assert isinstance(typed, Function)
    return typed


def infer_module(mod: IRModule) -> IRModule:
    """*mod* with every function typed, callees before callers; another module where functions had to be made again.

    Raises TypeInferenceError naming the operator, the node and the types that do not fit.
    """
    unsolved: dict[GlobalVar, BaseFunc] = {}
    for var in _callees_first(mod):
        func = mod[var]
        try:
            infer_expr(func, mod)
        except NeedsSolvingError:
            unsolved[var] = func
    if not unsolved:
        return mod
    from byoc.relay.analysis.type_check import TypeCheck  # which untyped functions and control flow need

    result = mod.shallow_copy()
    typed = TypeCheck(mod, unsolved).run(list(unsolved.values()))
    for var, solved in zip(unsolved, typed, strict=True):
        result[var] = solved
    return result


def _callees_first(mod: IRModule) -> list[GlobalVar]:
    """The functions of *mod* that have no types yet, in the order in which they get them.

    A function whose parameters have no types gets them from its callers, so it waits for them.
    """
    untyped = [v for v in mod if not _is_typed(as_function(mod[v]))]
    if len(untyped) <= 1:
        return untyped
    known = [v for v in untyped if not _waits_for_caller(mod[v])]
    waiting = [v for v in untyped if _waits_for_caller(mod[v])]
    pending = [(var, False) for var in (*reversed(waiting), *reversed(known))]
    done: set[GlobalVar] = set()
    order: list[GlobalVar] = []
    while pending:
        var, expanded = pending.pop()
        if expanded:
            order.append(var)
            continue
        if var in done or _is_typed(as_function(mod[var])):
            continue
        done.add(var)
        pending.append((var, True))
        for callee in _callees(mod[var]):
            if callee in mod and callee not in done and not _waits_for_caller(mod[callee]):
                pending.append((callee, False))
    return order


def _is_typed(func: Function) -> bool:
    return func._checked_type is not None and func.body._checked_type is not None


def _waits_for_caller(func: RelayExpr) -> bool:
    return isinstance(func, Function) and any(p._checked_type is None for p in func.params)


def _callees(func: RelayExpr) -> list[GlobalVar]:
    return [node for node in post_order(func) if isinstance(node, GlobalVar)]
