"""Running expressions on inputs: what a caller gives is checked against the types of the parameters.

A named dimension is one size in all inputs. Source: ``relay.create_executor("debug")``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from byoc.errors import InputError, UserError
from byoc.ir.expr import Constructor, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.types import Any, TensorType, TupleType, Type
from byoc.relay.analysis.variables import free_vars
from byoc.relay.expr import Function, Var
from byoc.relay.interpreter.machine import Interpreter
from byoc.relay.interpreter.values import (
    Closure,
    ConstructorValue,
    EvaluationScope,
    RefValue,
    Value,
    tensor_of,
    value_of,
)
from byoc.runtime.core.container import ADT
from byoc.runtime.core.ndarray import dtype_name


def evaluate(
    expr: RelayExpr | IRModule, inputs: Mapping[str, object] | Sequence[object] = (), mod: IRModule | None = None
) -> Value:
    """Run a module's ``main``, a function, or an expression over its free variables, on *inputs* by name or in order.

    Returns a numpy array, a list of them for a tuple. *mod* gives the functions that *expr* calls by global name.
    Raises InputError for a missing, unknown or misshapen input, UserError for a result that is not data.

    >>> import byoc.relay.expr as relay
    >>> evaluate(relay.Tuple([relay.const(1.0), relay.const(2)]))
    [array(1., dtype=float32), array(2, dtype=int32)]
    """
    return _checked_data(evaluate_value(expr, inputs, mod))


def evaluate_value(
    expr: RelayExpr | IRModule, inputs: Mapping[str, object] | Sequence[object] = (), mod: IRModule | None = None
) -> Value:
    """As :func:`evaluate`, for any result: also a closure or a reference."""
    if isinstance(expr, IRModule):
        mod = expr
        expr = mod["main"]
    if isinstance(expr, Function):
        params, body = expr.params, expr.body
    else:
        params, body = tuple(free_vars(expr)), expr
    scope = EvaluationScope()
    scope.values.update(_bind(params, inputs).items())
    return Interpreter(mod).run(body, scope)


def _checked_data(value: Value) -> Value:
    stack: list[object] = [value]
    seen: set[int] = set()
    while stack:
        top = stack.pop()
        if isinstance(top, (list, ConstructorValue)):
            if id(top) not in seen:
                seen.add(id(top))
                stack.extend(top if isinstance(top, list) else top.fields)
        elif not isinstance(top, np.ndarray):
            raise UserError(f"the result holds a {_KINDS[type(top)]}, which is not data: return its value")
    return value


_KINDS: dict[type, str] = {Closure: "closure", RefValue: "reference", Constructor: "constructor"}


def _bind(params: Sequence[Var], inputs: Mapping[str, object] | Sequence[object]) -> dict[Var, Value]:
    names = [p.name_hint for p in params]
    if isinstance(inputs, Mapping):
        missing = [n for n in names if n not in inputs]
        unknown = [n for n in inputs if n not in names]
        if missing or unknown:
            what = f"{', '.join(missing)} missing" if missing else f"{', '.join(map(str, unknown))} unknown"
            raise InputError(f"the function takes the inputs {', '.join(names) or '(none)'}: {what}")
        given = [inputs[n] for n in names]
    else:
        given = list(inputs)
        if len(given) != len(params):
            raise InputError(f"the function takes {len(params)} inputs ({', '.join(names)}), got {len(given)}")
    sizes: dict[str, int] = {}
    return {p: _input(p.name_hint, v, p.checked_type_, sizes) for p, v in zip(params, given, strict=True)}


def _input(name: str, value: object, ty: Type | None, sizes: dict[str, int]) -> Value:
    """*value* as the interpreter holds it, checked against *ty*; *sizes* collects what named dimensions are."""
    if isinstance(value, (ADT, ConstructorValue, RefValue, Closure, Constructor)):
        value = value_of(value)
        if not isinstance(value, list):
            return value
    if isinstance(ty, TupleType):
        if not isinstance(value, (list, tuple)) or len(value) != len(ty.fields):
            raise InputError(f"input {name} is a tuple of {len(ty.fields)}, got {type(value).__name__}")
        return [_input(f"{name}[{i}]", v, t, sizes) for i, (v, t) in enumerate(zip(value, ty.fields, strict=True))]
    if isinstance(value, (list, tuple)) and not isinstance(ty, TensorType):
        return value_of(value)
    array = tensor_of(value)
    if isinstance(ty, TensorType):
        found = f"{dtype_name(array.dtype)}{list(array.shape)}"
        if dtype_name(array.dtype) != ty.dtype or array.ndim != ty.ndim:
            raise InputError(f"input {name} is {ty}, got {found}")
        for dim, size in zip(ty.shape, array.shape, strict=True):
            expected = sizes.setdefault(dim.name, size) if isinstance(dim, Any) and dim.name else dim
            if isinstance(expected, int) and expected != size:
                raise InputError(f"input {name} is {ty}, got {found}: a dimension of {expected} is {size}")
    return array
