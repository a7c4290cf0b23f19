"""Continuation-passing style: a function gets what to do with its result as its last parameter.

``fn (A) -> B`` becomes ``fn (A, fn (B) -> answer) -> answer``, generic over ``answer``; operators, constructors and
functions that are units (``Primitive``) are called as before. :func:`un_cps` gives the function back, over one that was
transformed. Nothing is evaluated twice: intermediate values are bound first. Source: ``relay.transform.to_cps``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.annex.functional.to_a_normal_form import to_a_normal_form
from byoc.errors import UserError
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.types import FuncType, Type, TypeVar, rebuild_type, type_children
from byoc.relay.adt import Clause, Match, pattern_vars, rename_pattern
from byoc.relay.analysis.module_types import infer_function, infer_module
from byoc.relay.expr import Call, Function, If, Let, Var
from byoc.relay.narrowing import as_function
from byoc.relay.text.trampoline import Step, run
from byoc.relay.traverse import children, rebuild

# what is done with a value: gives the expression that goes on with it
Continuation = Callable[[RelayExpr], Step[RelayExpr]]


def to_cps(func: Function, mod: IRModule | None = None) -> Function:
    """*func* in continuation-passing style, with its types.

    Functions of *mod* that it calls get such a form beside them in *mod*. Raises UserError for what is no function.
    """
    if not isinstance(func, Function):
        raise UserError(f"to_cps takes a function, got {type(func).__name__}")
    mod = mod if mod is not None else IRModule()
    names: dict[GlobalVar, GlobalVar] = {}
    made = run(_ToCps(mod, names).whole(func))
    typed = infer_module(mod)
    for var in names.values():
        mod[var] = typed[var]
    return infer_function(made, mod)


def un_cps(func: Function) -> Function:
    """The function that *func*, in continuation-passing style, was made from, as a call of it that keeps the result.

    Raises UserError where the last parameter is no continuation, or *func* is not generic over its answer.
    """
    last = func.params[-1].type_annotation if func.params else None
    if not isinstance(last, FuncType) or len(last.arg_types) != 1 or not func.type_params:
        raise UserError("un_cps takes a function whose last parameter is a continuation: make it by to_cps")
    result = last.arg_types[0]
    params = [Var(p.name_hint, p.type_annotation, p.span) for p in func.params[:-1]]
    kept = Var("x", result)
    keep = Function([kept], kept, result)
    type_args = [*func.type_params[:-1], result]
    body = Call(func, [*params, keep], None, type_args)
    return Function(params, body, result, func.type_params[:-1], func.attrs, func.span)


def cps_type(ty: Type, answer: Type) -> Type:
    """*ty* where each function in it takes a continuation too."""
    inner = [cps_type(t, answer) for t in type_children(ty)]
    if not isinstance(ty, FuncType):
        return rebuild_type(ty, inner) if inner else ty
    count = len(ty.arg_types)
    going_on = FuncType([inner[count]], answer)
    return FuncType([*inner[:count], going_on], answer, ty.type_params, ty.type_constraints)


class _ToCps:
    """The transformation of one global function: its answer and its variables."""

    def __init__(self, mod: IRModule, names: dict[GlobalVar, GlobalVar]):
        self._mod, self._names = mod, names
        self._answer = TypeVar("answer")
        self._vars: dict[RelayExpr, Var] = {}

    def whole(self, func: Function) -> Step[Function]:
        """*func*, generic over the answer too."""
        bound = as_function(to_a_normal_form(infer_function(func, self._mod)))
        typed = infer_function(bound, self._mod)
        made = yield self._function(typed)
        params = [*typed.type_params, self._answer]
        return Function(made.params, made.body, made.declared_ret_type, params, func.attrs, func.span)

    def _function(self, func: Function) -> Step[Function]:
        ty = func.checked_type
        assert isinstance(ty, FuncType)
        params = [self._renamed(p) for p in func.params]
        going_on = Var("k", FuncType([cps_type(ty.ret_type, self._answer)], self._answer))

        def give(value: RelayExpr) -> Step[RelayExpr]:
            yield from ()
            return Call(going_on, [value])

        body = yield self._visit(func.body, give)
        return Function([*params, going_on], body, self._answer, func.type_params, func.attrs, func.span)

    def _renamed(self, var: Var) -> Var:
        if var not in self._vars:
            ty = var.type_annotation
            self._vars[var] = Var(var.name_hint, None if ty is None else cps_type(ty, self._answer), var.span)
        return self._vars[var]

    def _global(self, var: GlobalVar) -> Step[GlobalVar]:
        if var not in self._names:
            self._names[var] = GlobalVar(f"{var.name_hint}_cps")
            func = self._mod[var]
            if not isinstance(func, Function):
                raise UserError(f"@{var.name_hint} is no function of the graph language")
            self._mod[self._names[var]] = yield _ToCps(self._mod, self._names).whole(func)
        return self._names[var]

    # one rule a class of node; each ends in what the continuation makes of the node's value ---------------------------

    def _visit(self, node: RelayExpr, k: Continuation) -> Step[RelayExpr]:
        rule = _RULES.get(type(node))
        result: RelayExpr = yield rule(self, node, k) if rule is not None else self._simple(node, k)
        return result

    def _values(self, nodes: Sequence[RelayExpr], k: Callable[[list[RelayExpr]], Step[RelayExpr]]) -> Step[RelayExpr]:
        """Go on with the values of *nodes*, evaluated in their order."""
        found: list[RelayExpr] = []

        def take(value: RelayExpr) -> Step[RelayExpr]:
            found.append(value)
            result: RelayExpr = yield self._visit(nodes[len(found)], take) if len(found) < len(nodes) else k(found)
            return result

        result: RelayExpr = yield self._visit(nodes[0], take) if nodes else k(found)
        return result

    def _simple(self, node: RelayExpr, k: Continuation) -> Step[RelayExpr]:
        """A node that computes from its parts, without calling anything: its value is bound."""
        parts = children(node)

        def go_on(values: list[RelayExpr]) -> Step[RelayExpr]:
            result: RelayExpr = yield self._bound(rebuild(node, values), k) if parts else k(node)
            return result

        result: RelayExpr = yield self._values(parts, go_on)
        return result

    def _bound(self, value: RelayExpr, k: Continuation) -> Step[RelayExpr]:
        name = Var("v")
        return Let(name, value, (yield k(name)))

    def _var(self, node: Var, k: Continuation) -> Step[RelayExpr]:
        result: RelayExpr = yield k(self._renamed(node))
        return result

    def _global_value(self, node: GlobalVar, k: Continuation) -> Step[RelayExpr]:
        result: RelayExpr = yield k((yield self._global(node)))
        return result

    def _function_value(self, node: Function, k: Continuation) -> Step[RelayExpr]:
        result: RelayExpr = yield k(node if node.attrs.get("Primitive") else (yield self._function(node)))
        return result

    def _let(self, node: Let, k: Continuation) -> Step[RelayExpr]:
        name = self._renamed(node.variable)
        if isinstance(node.value, Function) and not node.value.attrs.get("Primitive"):  # it may name itself
            made = yield self._function(node.value)
            return Let(name, made, (yield self._visit(node.body, k)))

        def go_on(value: RelayExpr) -> Step[RelayExpr]:
            return Let(name, value, (yield self._visit(node.body, k)))

        result: RelayExpr = yield self._visit(node.value, go_on)
        return result

    def _call(self, node: Call, k: Continuation) -> Step[RelayExpr]:
        callee = node.op
        if isinstance(callee, (Op, Constructor)) or (isinstance(callee, Function) and callee.attrs.get("Primitive")):

            def go_on(values: list[RelayExpr]) -> Step[RelayExpr]:
                types = [] if isinstance(callee, Op) else [cps_type(t, self._answer) for t in node.type_args]
                result: RelayExpr = yield self._bound(Call(callee, values, node.attrs, types, node.span), k)
                return result

            result: RelayExpr = yield self._values(node.args, go_on)
            return result

        def go_on_calling(values: list[RelayExpr]) -> Step[RelayExpr]:
            going_on = yield self._reified(k)
            return Call(values[0], [*values[1:], going_on], node.attrs, (), node.span)

        result = yield self._values((callee, *node.args), go_on_calling)
        return result

    def _reified(self, k: Continuation) -> Step[Function]:
        arg = Var("arg")
        return Function([arg], (yield k(arg)))

    def _named(self, k: Continuation, use: Callable[[Continuation], Step[RelayExpr]]) -> Step[RelayExpr]:
        """What *use* makes with *k* as a function that has a name, since it goes on there from several places."""
        name = Var("kf")

        def call(value: RelayExpr) -> Step[RelayExpr]:
            yield from ()
            return Call(name, [value])

        return Let(name, (yield self._reified(k)), (yield use(call)))

    def _if(self, node: If, k: Continuation) -> Step[RelayExpr]:
        def branches(going_on: Continuation) -> Step[RelayExpr]:
            def decide(cond: RelayExpr) -> Step[RelayExpr]:
                then = yield self._visit(node.true_branch, going_on)
                return If(cond, then, (yield self._visit(node.false_branch, going_on)), node.span)

            result: RelayExpr = yield self._visit(node.cond, decide)
            return result

        result: RelayExpr = yield self._named(k, branches)
        return result

    def _match(self, node: Match, k: Continuation) -> Step[RelayExpr]:
        def clauses(going_on: Continuation) -> Step[RelayExpr]:
            def decide(data: RelayExpr) -> Step[RelayExpr]:
                names = {v: self._renamed(v) for v in pattern_vars(node)}
                made = []
                for clause in node.clauses:
                    result = yield self._visit(clause.rhs, going_on)
                    made.append(Clause(rename_pattern(clause.lhs, names), result))
                return Match(data, made, node.complete, node.span)

            found: RelayExpr = yield self._visit(node.data, decide)
            return found

        found: RelayExpr = yield self._named(k, clauses)
        return found


_RULES: dict[type, Callable[..., Step[RelayExpr]]] = {
    Var: _ToCps._var,
    GlobalVar: _ToCps._global_value,
    Function: _ToCps._function_value,
    Let: _ToCps._let,
    Call: _ToCps._call,
    If: _ToCps._if,
    Match: _ToCps._match,
}
