"""Binding: give variables of an expression or function their values. Source: ``relay.bind``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.expr import Constant, Function, Var
from byoc.relay.narrowing import as_function
from byoc.relay.traverse import binders, post_order, substitute
from byoc.runtime.core.ndarray import NDArray, from_any

Value = RelayExpr | NDArray | np.ndarray | np.generic | int | float | bool


def bind(expr: RelayExpr, binds: Mapping[Var, Value]) -> RelayExpr:
    """*expr* with each variable of *binds* replaced by its value; arrays and numbers become constants.

    Parameters of the outermost function that got a value are no longer parameters; those that became another
    variable stay parameters under it. Free variables of the values are added to the parameters of that function.
    Raises UserError for a key that is no variable, or a variable that an inner function or a let binds.
    """
    values: dict[RelayExpr, RelayExpr] = {}
    for variable, value in binds.items():
        if not isinstance(variable, Var):
            raise UserError(f"bind replaces variables, got a {type(variable).__name__} as the key {variable!r}")
        values[variable] = value if isinstance(value, RelayExpr) else _constant(variable, value)
    if not isinstance(expr, Function):
        _check_not_bound_inside(expr, values)
        return substitute(expr, values)
    _check_not_bound_inside(expr.body, values)
    body = substitute(expr.body, values)
    params = [values.get(p, p) for p in expr.params]
    kept = dict.fromkeys(p for p in params if isinstance(p, Var))
    if body is expr.body and list(kept) == list(expr.params):
        return expr
    return expr.over(list(kept), body)


def _constant(variable: Var, value: Value) -> Constant:
    if isinstance(value, (bool, int, float)):
        annotation = variable.type_annotation
        dtype = getattr(annotation, "dtype", None) or {bool: "bool", int: "int32", float: "float32"}[type(value)]
        return Constant(NDArray(np.asarray(value, dtype)), variable.span)
    return Constant(value if isinstance(value, NDArray) else NDArray(np.asarray(value)), variable.span)


def _check_not_bound_inside(body: RelayExpr, values: Mapping[RelayExpr, RelayExpr]) -> None:
    for node in post_order(body):
        for variable in binders(node):
            if variable in values:
                raise UserError(f"bind: %{variable.name_hint} is bound inside the expression; only free ones can be")


def bind_params_by_name(func: Function, params: Mapping[str, object]) -> Function:
    """*func* with the parameters that *params* names bound to constants; names that it lacks are passed over.

    Raises UserError where two parameters share a name of *params*. Source: ``relay.build_module.bind_params_by_name``.
    """
    by_name: dict[str, Var] = {}
    for param in func.params:
        if param.name_hint in params:
            if param.name_hint in by_name:
                raise UserError(f"two parameters are called {param.name_hint!r}: rename one to bind it by name")
            by_name[param.name_hint] = param
    values = {var: NDArray(from_any(params[name])) for name, var in by_name.items()}
    return as_function(bind(func, values) if values else func)


def module_with_params(mod: IRModule | RelayExpr, params: Mapping[str, object] | None = None) -> IRModule:
    """*mod*, or a module whose main is that expression, with *params* bound in main. Raises UserError for neither."""
    if not isinstance(mod, (IRModule, RelayExpr)):
        raise UserError(f"a module or a function is compiled, got {type(mod).__name__}")
    made = IRModule.from_expr(mod) if isinstance(mod, RelayExpr) else mod.shallow_copy()
    if params:
        made["main"] = bind_params_by_name(as_function(made["main"]), params)
    return made
