"""The reference interpreter: any function of the graph language, run by the numpy kernels.

It is what "the right answer" means: composites are run by their bodies, regions by the functions that they are, and an
operator by the kernel that it names. Each node is evaluated at most once per activation of the function that holds it,
a branch only when it is taken. An explicit stack serves graphs and calls alike, so neither a long chain nor a loop
written as recursion needs Python's. Source: Relay's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.errors import InternalError, UserError
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.relay.adt import Match
from byoc.relay.analysis.operator_calls import located
from byoc.relay.expr import Call, Constant, Function, If, Let, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var
from byoc.relay.interpreter.operators import run_operator
from byoc.relay.interpreter.values import Closure, ConstructorValue, EvaluationScope, RefValue, Value
from byoc.relay.narrowing import as_function

Pending = list[tuple[RelayExpr, EvaluationScope]]


class Interpreter:
    """Evaluates expressions; *mod* gives the functions that global names stand for."""

    def __init__(self, mod: IRModule | None = None):
        self.mod = mod

    def run(self, root: RelayExpr, scope: EvaluationScope) -> Value:
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


def _missing(scope: EvaluationScope, nodes: Sequence[RelayExpr]) -> Pending:
    return [(node, scope) for node in nodes if scope.get(node) is None]


def _simple(
    operands: Callable[..., Sequence[RelayExpr]], compute: Callable[..., Value]
) -> Callable[[Interpreter, RelayExpr, EvaluationScope], Pending]:
    """The step of a node that needs all its operands and then computes."""

    def step(machine: Interpreter, node: RelayExpr, scope: EvaluationScope) -> Pending:
        needed = operands(node)
        pending = _missing(scope, needed)
        if not pending:
            scope.values[node] = compute(node, *(scope.get(n) for n in needed))
        return pending

    return step


def _step_call(machine: Interpreter, call: Call, scope: EvaluationScope) -> Pending:
    if isinstance(call.op, (Op, Constructor)):
        pending = _missing(scope, call.args)
        if not pending:
            args = [scope.known(a) for a in call.args]
            scope.values[call] = run_operator(call, args) if isinstance(call.op, Op) else _constructed(call, args)
        return pending
    inner = scope.calls.get(call)
    if inner is None:
        pending = _missing(scope, (call.op, *call.args))
        if pending:
            return pending
        return _enter(call, scope)
    callee = scope.known(call.op)
    assert isinstance(callee, Closure)  # as _enter has seen
    body = callee.function.body
    value = inner.get(body)
    if value is None:
        return [(body, inner)]
    scope.values[call] = value
    del scope.calls[call]
    return []


def _enter(call: Call, scope: EvaluationScope) -> Pending:
    """Begin the call of a value: an activation of a closure, or at once what a constructor makes."""
    callee, args = scope.known(call.op), [scope.known(a) for a in call.args]
    if isinstance(callee, Constructor):
        scope.values[call] = _constructed(call, args, callee)
        return []
    if not isinstance(callee, Closure) or len(callee.function.params) != len(args):
        raise UserError(f"a call with {len(args)} arguments needs a function that takes them{located(call)}")
    inner = scope.calls[call] = EvaluationScope(callee.scope)
    inner.values.update(zip(callee.function.params, args, strict=True))
    return [(callee.function.body, inner)]


def _constructed(call: Call, args: Sequence[Value], constructor: Constructor | None = None) -> ConstructorValue:
    made = constructor or call.op
    assert isinstance(made, Constructor)
    if len(args) != len(made.inputs):
        raise UserError(
            f"the constructor {made.name_hint} takes {len(made.inputs)} fields, got {len(args)}{located(call)}"
        )
    return ConstructorValue(made.tag, args, made)


def _step_let(machine: Interpreter, let: Let, scope: EvaluationScope) -> Pending:
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


def _step_if(machine: Interpreter, node: If, scope: EvaluationScope) -> Pending:
    cond = scope.get(node.cond)
    if cond is None:
        return [(node.cond, scope)]
    branch = node.true_branch if bool(cond) else node.false_branch
    value = scope.get(branch)
    if value is None:
        return [(branch, scope)]
    scope.values[node] = value
    return []


def _step_match(machine: Interpreter, match: Match, scope: EvaluationScope) -> Pending:
    from byoc.relay.interpreter.matching import first_fitting

    data = scope.get(match.data)
    if data is None:
        return [(match.data, scope)]
    clause, bound = first_fitting(match, data)
    for variable, value in bound.items():
        scope.values.setdefault(variable, value)
    result = scope.get(clause.rhs)
    if result is None:
        return [(clause.rhs, scope)]
    scope.values[match] = result
    return []


def _step_function(machine: Interpreter, func: Function, scope: EvaluationScope) -> Pending:
    scope.values[func] = Closure(func, scope)
    return []


def _step_global(machine: Interpreter, var: GlobalVar, scope: EvaluationScope) -> Pending:
    if machine.mod is None or var.name_hint not in machine.mod:
        raise UserError(f"@{var.name_hint} is not a function of the module that is evaluated")
    scope.values[var] = Closure(as_function(machine.mod[var.name_hint]), None)
    return []


def _step_var(machine: Interpreter, var: Var, scope: EvaluationScope) -> Pending:
    raise UserError(f"variable %{var.name_hint} has no value: it is free in the expression that is evaluated")


def _write(node: RelayExpr, ref: RefValue, value: Value) -> Value:
    ref.write(value)
    return []


_STEPS: dict[type, Callable[..., Pending]] = {
    Call: _step_call,
    Let: _step_let,
    If: _step_if,
    Match: _step_match,
    Function: _step_function,
    GlobalVar: _step_global,
    Var: _step_var,
    Constant: _simple(lambda e: (), lambda e: e.data.numpy()),
    Tuple: _simple(lambda e: e.fields, lambda e, *fields: list(fields)),
    TupleGetItem: _simple(lambda e: (e.tuple_value,), lambda e, value: value[e.index]),
    Constructor: _simple(lambda e: (), lambda e: e),
    RefCreate: _simple(lambda e: (e.value,), lambda e, value: RefValue(value)),
    RefRead: _simple(lambda e: (e.ref,), lambda e, ref: ref.read()),
    RefWrite: _simple(lambda e: (e.ref, e.value), _write),
}
