"""The reference interpreter: any function of the graph language, run by the numpy kernels.

It is what "the right answer" means: composites are run by their bodies, regions by the functions that they are, and an
operator by the kernel that it names. Each node is evaluated at most once per activation of the function that holds it,
a branch only when it is taken. An explicit stack serves graphs and calls alike, so neither a long chain nor a loop
written as recursion needs Python's. Source: Relay's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from byoc.errors import InputError, InternalError, UserError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.types import Any, TensorType, TupleType, Type
from byoc.relay.analysis.variables import free_vars
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
from byoc.runtime.kernels.registry import get_kernel
from byoc.runtime.ndarray import dtype_name, from_any


class Closure:
    """A function together with the scope in which it was made."""

    __slots__ = ("function", "scope")

    def __init__(self, function: Function, scope: Scope | None):
        self.function, self.scope = function, scope


class Reference:
    """A mutable cell."""

    __slots__ = ("value",)

    def __init__(self, value: Value):
        self.value = value


Value = np.ndarray | list["Value"] | Closure | Reference


class Scope:
    """The values of the nodes of one activation; what it does not know it asks of the scope around it."""

    __slots__ = ("calls", "outer", "values")

    def __init__(self, outer: Scope | None = None):
        self.outer = outer
        self.values: dict[RelayExpr, Value] = {}
        self.calls: dict[Call, Scope] = {}

    def get(self, node: RelayExpr) -> Value | None:
        """The value of *node*, or None where it has not been evaluated."""
        scope: Scope | None = self
        while scope is not None:
            if node in scope.values:
                return scope.values[node]
            scope = scope.outer
        return None


Pending = list[tuple[RelayExpr, Scope]]


class Interpreter:
    """Evaluates expressions; *mod* gives the functions that global names stand for."""

    def __init__(self, mod: IRModule | None = None):
        self.mod = mod

    def run(self, root: RelayExpr, scope: Scope) -> Value:
        """The value of *root* in *scope*."""
        stack: Pending = [(root, scope)]
        while stack:
            node, here = stack[-1]
            if here.get(node) is not None:
                stack.pop()
                continue
            pending = _STEPS[type(node)](self, node, here)
            if pending:
                stack.extend(reversed(pending))
            else:
                stack.pop()
        value = scope.get(root)
        if value is None:
            raise InternalError(f"the interpreter gave no value to a {type(root).__name__}")
        return value


def _missing(scope: Scope, nodes: Sequence[RelayExpr]) -> Pending:
    return [(node, scope) for node in nodes if scope.get(node) is None]


def _simple(
    operands: Callable[[RelayExpr], Sequence[RelayExpr]], compute: Callable[..., Value]
) -> Callable[[Interpreter, RelayExpr, Scope], Pending]:
    """The step of a node that needs all its operands and then computes."""

    def step(machine: Interpreter, node: RelayExpr, scope: Scope) -> Pending:
        needed = operands(node)
        pending = _missing(scope, needed)
        if not pending:
            scope.values[node] = compute(node, *(scope.get(n) for n in needed))
        return pending

    return step


def _step_call(machine: Interpreter, call: Call, scope: Scope) -> Pending:
    if isinstance(call.op, Op):
        pending = _missing(scope, call.args)
        if not pending:
            scope.values[call] = run_operator(call, [scope.get(a) for a in call.args])
        return pending
    inner = scope.calls.get(call)
    if inner is None:
        pending = _missing(scope, (call.op, *call.args))
        if pending:
            return pending
        closure = scope.get(call.op)
        if not isinstance(closure, Closure) or len(closure.function.params) != len(call.args):
            raise UserError(f"a call with {len(call.args)} arguments needs a function that takes them{_place(call)}")
        inner = scope.calls[call] = Scope(closure.scope)
        inner.values.update(zip(closure.function.params, (scope.get(a) for a in call.args), strict=True))
    else:
        closure = scope.get(call.op)
    body = closure.function.body  # type: ignore[union-attr]
    value = inner.get(body)
    if value is None:
        return [(body, inner)]
    scope.values[call] = value
    del scope.calls[call]
    return []


def _step_let(machine: Interpreter, let: Let, scope: Scope) -> Pending:
    if let.variable not in scope.values:
        value = scope.get(let.value)
        if value is None:
            return [(let.value, scope)]
        scope.values[let.variable] = value
    body = scope.get(let.body)
    if body is None:
        return [(let.body, scope)]
    scope.values[let] = body
    return []


def _step_if(machine: Interpreter, node: If, scope: Scope) -> Pending:
    cond = scope.get(node.cond)
    if cond is None:
        return [(node.cond, scope)]
    branch = node.true_branch if bool(cond) else node.false_branch  # type: ignore[arg-type]
    value = scope.get(branch)
    if value is None:
        return [(branch, scope)]
    scope.values[node] = value
    return []


def _step_function(machine: Interpreter, func: Function, scope: Scope) -> Pending:
    scope.values[func] = Closure(func, scope)
    return []


def _step_global(machine: Interpreter, var: GlobalVar, scope: Scope) -> Pending:
    if machine.mod is None or var.name_hint not in machine.mod:
        raise UserError(f"@{var.name_hint} is not a function of the module that is evaluated")
    scope.values[var] = Closure(machine.mod[var.name_hint], None)  # type: ignore[arg-type]
    return []


def _step_var(machine: Interpreter, var: Var, scope: Scope) -> Pending:
    raise UserError(f"variable %{var.name_hint} has no value: it is free in the expression that is evaluated")


def _write(node: RelayExpr, ref: Reference, value: Value) -> Value:
    ref.value = value
    return []


_STEPS: dict[type, Callable[..., Pending]] = {
    Call: _step_call,
    Let: _step_let,
    If: _step_if,
    Function: _step_function,
    GlobalVar: _step_global,
    Var: _step_var,
    Constant: _simple(lambda e: (), lambda e: e.data.numpy()),
    Tuple: _simple(lambda e: e.fields, lambda e, *fields: list(fields)),
    TupleGetItem: _simple(lambda e: (e.tuple_value,), lambda e, value: value[e.index]),
    RefCreate: _simple(lambda e: (e.value,), lambda e, value: Reference(value)),
    RefRead: _simple(lambda e: (e.ref,), lambda e, ref: ref.value),
    RefWrite: _simple(lambda e: (e.ref, e.value), _write),
}


def _place(node: RelayExpr) -> str:
    names = span_names(node.span)
    return f" (node {', '.join(names)})" if names else ""


def run_operator(call: Call, args: Sequence[Value]) -> Value:
    """The result of an operator call on argument values, by the numpy kernel that the operator names.

    Raises KernelError where there is none.
    """
    kernel = get_kernel(call.op.kernel)  # type: ignore[attr-defined]
    result = kernel(*args, **(call.attrs.as_dict() if call.attrs is not None else {}))
    return [np.asarray(r) for r in result] if isinstance(result, (tuple, list)) else np.asarray(result)


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
    if isinstance(expr, IRModule):
        expr, mod = expr["main"], expr
    if isinstance(expr, Function):
        params, body = expr.params, expr.body
    else:
        params, body = tuple(free_vars(expr)), expr
    scope = Scope()
    scope.values.update(_bind(params, inputs))
    return _checked_data(Interpreter(mod).run(body, scope))


def _checked_data(value: Value) -> Value:
    stack = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, list):
            stack.extend(top)
        elif not isinstance(top, np.ndarray):
            raise UserError(f"the result holds a {type(top).__name__.lower()}, which is not data: return its value")
    return value


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
    if isinstance(ty, TupleType):
        if not isinstance(value, (list, tuple)) or len(value) != len(ty.fields):
            raise InputError(f"input {name} is a tuple of {len(ty.fields)}, got {type(value).__name__}")
        return [_input(f"{name}[{i}]", v, t, sizes) for i, (v, t) in enumerate(zip(value, ty.fields, strict=True))]
    array = from_any(value)
    if isinstance(ty, TensorType):
        found = f"{dtype_name(array.dtype)}{list(array.shape)}"
        if dtype_name(array.dtype) != ty.dtype or array.ndim != ty.ndim:
            raise InputError(f"input {name} is {ty}, got {found}")
        for dim, size in zip(ty.shape, array.shape, strict=True):
            expected = sizes.setdefault(dim.name, size) if isinstance(dim, Any) and dim.name else dim
            if isinstance(expected, int) and expected != size:
                raise InputError(f"input {name} is {ty}, got {found}: a dimension of {expected} is {size}")
    return array
