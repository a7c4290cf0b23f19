"""Defunctionalization: a higher-order program becomes a first-order one.

A function that is a value becomes a value of a data type, one for each type of functions (``T0``), with a constructor
for each function literal, global function or constructor that is used so; the constructor's fields are what a literal
captures. Calling such a value is a call of that type's ``apply`` function, which matches the value and evaluates the
body that belongs to it. Generic functions are made again for the types that they are called with, so that all types are
known; so are data types whose fields are functions. That ends, for inference types no function that calls itself at
another type than its own. Source: ``src/relay/transforms/defunctionalization.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from byoc.annex.functional.first_order_program import FirstOrderProgram, holds_function, is_open, is_unit
from byoc.errors import UserError
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr, TypeData
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.types import (
    FuncType,
    TupleType,
    Type,
    TypeCall,
    substitute_types,
    type_children,
)
from byoc.relay.adt import (
    Clause,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    pattern_children,
)
from byoc.relay.analysis.module_types import infer_function, infer_module
from byoc.relay.expr import Call, Function, Let, Var
from byoc.relay.narrowing import as_function, as_function_type
from byoc.relay.text.trampoline import Step, run
from byoc.relay.transform.cut.mangle_names import unique_name
from byoc.relay.traverse import children, rebuild


def Defunctionalization(func: Function, mod: IRModule) -> Function:
    """*func* as a first-order function; the functions and data types that it needs are added to *mod*.

    Args:
        func: Where the program begins, such as ``mod["main"]``: its parameters and its result are no functions and
            hold none, and it is not generic.
        mod: What *func* calls. It is changed: what is added has names of its own, and what was there stays.

    Returns:
        The function, typed. No function that it reaches takes, gives or holds another.

    Raises:
        UserError: for a *func* that is generic, takes or gives functions, or has free type variables; for a generic
            function that is a value without being called or given where one type is asked for; for an operator that is
            a value.
        TypeInferenceError: where the program is ill-typed.

    Source: ``relay.transform.Defunctionalization``.
    """
    if not isinstance(func, Function):
        raise UserError(f"Defunctionalization takes a function, got {type(func).__name__}")
    typed_mod = infer_module(mod)
    typed = infer_function(func, typed_mod)
    if typed.type_params:
        raise UserError("Defunctionalization takes no generic function: no type may be left open where it begins")
    ty = typed.checked_type
    assert isinstance(ty, FuncType)
    for param, given in zip(typed.params, ty.arg_types, strict=True):
        if holds_function(given, typed_mod):
            raise UserError(f"the program cannot take functions: parameter {param.name_hint} is {given!r}")
    if holds_function(ty.ret_type, typed_mod):
        raise UserError(f"the program cannot give a function: its result is {ty.ret_type!r}")
    program = FirstOrderProgram(typed_mod, mod, _whole)
    made = run(program.entry(typed))
    program.finish()
    for header, data in program.added_types.items():
        mod.add_type(header, data)
    for var, function in program.added.items():
        mod[var] = function
    result = mod.shallow_copy()
    start = GlobalVar(unique_name("start", {var.name_hint for var in result}))
    result[start] = made
    result = infer_module(result)
    for var in program.added:
        mod[var] = result[var]
    return as_function(result[start])


def _whole(program: FirstOrderProgram, func: Function, types: Mapping[Type, Type]) -> Step[Function]:
    """*func* for *types* of its type parameters."""
    scope = _Scope(program, types)
    params = [scope.renamed(p) for p in func.params]
    body = yield scope.visit(func.body)
    return Function(params, body, program.encoded(scope.result_type(func)), (), func.attrs, func.span)


class _Scope:
    """One function in the making: *types* of type variables, and its variables by the program's."""

    def __init__(self, program: FirstOrderProgram, types: Mapping[Type, Type]):
        self._program, self._types = program, dict(types)
        self._vars: dict[RelayExpr, RelayExpr] = {}
        self._memo: dict[RelayExpr, RelayExpr] = {}

    def type_of(self, expr: RelayExpr) -> Type:
        """The type of *expr* with this scope's types in it."""
        return substitute_types(expr.checked_type, self._types)

    def result_type(self, func: Function) -> Type:
        """What *func* gives. Raises UserError for a type variable that nothing around it binds."""
        return substitute_types(as_function_type(func.checked_type).ret_type, self._types)

    def renamed(self, var: Var) -> Var:
        """The new variable of *var*, which is bound here."""
        ty = self.type_of(var)
        if is_open(ty) and not isinstance(ty, FuncType):
            raise UserError(f"%{var.name_hint} is of type {ty!r}, in which a type variable is free")
        new = Var(var.name_hint, self._program.encoded(ty), var.span)
        self._vars[var] = new
        return new

    # one rule a class of node ----------------------------------------------------------------------------------------

    def visit(self, node: RelayExpr, wanted: Type | None = None) -> Step[RelayExpr]:
        """The first-order *node*; *wanted* is the type that it is asked for, where it may be generic."""
        if node in self._memo:
            return self._memo[node]
        rule = _RULES.get(type(node))
        made: RelayExpr = yield rule(self, node, wanted) if rule is not None else self._parts(node)
        ty = node._checked_type
        if not (isinstance(ty, FuncType) and ty.type_params):  # a generic function may be asked for at several types
            self._memo[node] = made
        return made

    def _parts(self, node: RelayExpr) -> Step[RelayExpr]:
        new = []
        for part in children(node):
            new.append((yield self.visit(part)))
        return rebuild(node, new) if new else node

    def _var(self, node: Var, wanted: Type | None) -> Step[RelayExpr]:
        if node in self._program.known:
            found: RelayExpr = yield self.visit(self._program.known[node], wanted)
            return found
        if node not in self._vars:
            raise UserError(f"%{node.name_hint} is bound by nothing: Defunctionalization takes a closed program")
        return self._vars[node]

    def _function(self, node: Function, wanted: Type | None) -> Step[RelayExpr]:
        made: RelayExpr = yield self._closure(node, self._wanted(node, wanted))
        return made

    def _wanted(self, node: RelayExpr, wanted: Type | None) -> FuncType:
        ty = self.type_of(node)
        if isinstance(wanted, FuncType) and isinstance(ty, FuncType) and ty.type_params:
            ty = wanted
        assert isinstance(ty, FuncType)
        return ty

    def _global(self, node: GlobalVar, wanted: Type | None) -> Step[RelayExpr]:
        ty = self._wanted(node, wanted)

        def call(scope: _Scope, args: Sequence[Var]) -> Step[RelayExpr]:
            func = self._program.mod[node]
            return Call((yield self._program.specialized(node, _instance(func.checked_type, ty))), args)

        made: RelayExpr = yield self._value((node,), ty, node.name_hint, call)
        return made

    def _constructor(self, node: Constructor, wanted: Type | None) -> Step[RelayExpr]:
        ty = self._wanted(node, wanted)

        def call(scope: _Scope, args: Sequence[Var]) -> Step[RelayExpr]:
            yield from ()
            return Call(self._program.constructor(node, ty.ret_type), args)

        made: RelayExpr = yield self._value((node,), ty, node.name_hint, call)
        return made

    def _operator(self, node: Op, wanted: Type | None) -> Step[RelayExpr]:
        yield from ()
        raise UserError(f"the operator {node.name} is a value here: write a function that calls it")

    def _let(self, node: Let, wanted: Type | None) -> Step[RelayExpr]:
        bindings: list[tuple[Var, RelayExpr, Let]] = []
        body: RelayExpr = node
        while isinstance(body, Let):
            if isinstance(body.value, (Function, GlobalVar, Constructor)) or body.value in self._program.known:
                self._program.known[body.variable] = body.value  # made where it is used, so that it may be generic
            else:
                value = yield self.visit(body.value)
                bindings.append((self.renamed(body.variable), value, body))
            body = body.body
        result: RelayExpr = yield self.visit(body, wanted)
        for variable, value, let in reversed(bindings):
            result = Let(variable, value, result, let.span)
        return result

    def _match(self, node: Match, wanted: Type | None) -> Step[RelayExpr]:
        data = yield self.visit(node.data)
        ty = self.type_of(node.data)
        clauses = []
        for clause in node.clauses:
            lhs = self._pattern(clause.lhs, ty)
            clauses.append(Clause(lhs, (yield self.visit(clause.rhs, wanted))))
        return Match(data, clauses, node.complete, node.span)

    def _pattern(self, pattern: Pattern, ty: Type) -> Pattern:
        """*pattern* for values of type *ty*, its variables bound here."""
        if isinstance(pattern, PatternVar):
            return PatternVar(self.renamed(pattern.var))
        inner = pattern_children(pattern)
        if isinstance(pattern, PatternConstructor):
            fields = self._fields(pattern.constructor, ty)
            made = [self._pattern(p, t) for p, t in zip(inner, fields, strict=False)]
            return PatternConstructor(self._program.constructor(pattern.constructor, ty), made)
        if isinstance(pattern, PatternTuple) and isinstance(ty, TupleType):
            return PatternTuple([self._pattern(p, t) for p, t in zip(inner, ty.fields, strict=True)])
        return pattern

    def _fields(self, constructor: Constructor, ty: Type) -> list[Type]:
        """The types of the fields of what *constructor* makes where that is of type *ty*."""
        data = self._program.mod[constructor.belong_to]
        assert isinstance(data, TypeData) and isinstance(ty, TypeCall)
        env: dict[Type, Type] = dict(zip(data.type_vars, ty.args, strict=True))
        return [substitute_types(t, env) for t in constructor.inputs]

    # calls -----------------------------------------------------------------------------------------------------------

    def _call(self, node: Call, wanted: Type | None) -> Step[RelayExpr]:
        callee = node.op
        while isinstance(callee, Var) and callee in self._program.known:
            callee = self._program.known[callee]
        if isinstance(callee, Op) or (isinstance(callee, Function) and is_unit(callee)):
            args = yield self._args(node, None)
            return Call(callee, args, node.attrs, (), node.span)
        result = self.type_of(node)
        if isinstance(callee, Constructor):
            args = yield self._args(node, self._fields(callee, result))
            made = self._program.constructor(callee, result)
            kept = result.args if made is callee and isinstance(result, TypeCall) else ()
            types = [self._program.encoded(t) for t in kept]
            return Call(made, args, node.attrs, types, node.span)
        ty = self._callee_type(node, callee)
        args = yield self._args(node, ty.arg_types)
        if isinstance(callee, GlobalVar):
            func = self._program.mod[callee]
            target = yield self._program.specialized(callee, _instance(func.checked_type, ty))
            return Call(target, args, node.attrs, (), node.span)
        function = yield self.visit(callee, ty)
        return Call(self._program.encoding(ty).apply, [function, *args], None, (), node.span)

    def _args(self, node: Call, wanted: Sequence[Type] | None) -> Step[list[RelayExpr]]:
        made = []
        for at, arg in enumerate(node.args):
            made.append((yield self.visit(arg, wanted[at] if wanted is not None else None)))
        return made

    def _callee_type(self, node: Call, callee: RelayExpr) -> FuncType:
        """The type at which *callee* is called."""
        ty = self.type_of(callee)
        assert isinstance(ty, FuncType)
        if not ty.type_params:
            return ty
        if len(node._type_args) == len(ty.type_params):
            given = [substitute_types(t, self._types) for t in node._type_args]
        else:
            called = FuncType([self.type_of(arg) for arg in node.args], self.type_of(node))
            given = _instance(ty, called)
        env: dict[Type, Type] = dict(zip(ty.type_params, given, strict=True))
        return FuncType([substitute_types(t, env) for t in ty.arg_types], substitute_types(ty.ret_type, env))

    # values that are functions ---------------------------------------------------------------------------------------

    def _closure(self, func: Function, ty: FuncType) -> Step[RelayExpr]:
        """The value of the function literal *func* at type *ty*."""
        if is_unit(func):

            def call(scope: _Scope, args: Sequence[Var]) -> Step[RelayExpr]:
                yield from ()
                return Call(func, args)
        else:

            def call(scope: _Scope, args: Sequence[Var]) -> Step[RelayExpr]:
                scope._types.update(zip(func.type_params, _instance(func.checked_type, ty), strict=True))
                scope._vars.update(zip(func.params, args, strict=True))
                body: RelayExpr = yield scope.visit(func.body, ty.ret_type)
                return body

        around = (item for item in self._types.items() if item[0] not in func.type_params)
        made: RelayExpr = yield self._value((func, *around), ty, "fn", call, self._program.captured(func))
        return made

    def _value(
        self,
        key: tuple[object, ...],
        ty: FuncType,
        name: str,
        call: Callable[[_Scope, Sequence[Var]], Step[RelayExpr]],
        captured: Sequence[Var] = (),
    ) -> Step[RelayExpr]:
        """The value that stands for the function *key*, whose body *call* makes in a scope of its own, once."""
        program = self._program
        held = []
        for var in captured:
            held.append((yield self._var(var, None)))
        types = [program.encoded(self.type_of(var)) for var in captured]
        constructor, is_new = program.closure(key, ty, name, types)
        if is_new:
            encoding = program.encoding(ty)
            inside = _Scope(program, self._types)
            fields = [Var(var.name_hint, t) for var, t in zip(captured, types, strict=True)]
            inside._vars.update(zip(captured, fields, strict=True))
            place = len(encoding.clauses)
            pattern = PatternConstructor(constructor, [PatternVar(var) for var in fields])
            encoding.clauses.append(Clause(pattern, encoding.function))  # its place, until its body is made
            body = yield call(inside, encoding.args)
            encoding.clauses[place] = Clause(pattern, body)
        return Call(constructor, held)


def _instance(generic: Type, ty: FuncType) -> list[Type]:
    """The type arguments for which *generic*, a type of functions, is *ty*.

    Raises UserError where *ty* does not say one of them.
    """
    assert isinstance(generic, FuncType)
    found: dict[Type, Type] = {}
    stack: list[tuple[Type, Type]] = [
        *zip(generic.arg_types, ty.arg_types, strict=True),
        (generic.ret_type, ty.ret_type),
    ]
    bound = frozenset(generic.type_params)
    while stack:
        left, right = stack.pop(0)
        if left in bound:
            found.setdefault(left, right)
        elif type(left) is type(right):
            stack.extend(zip(type_children(left), type_children(right), strict=True))
    missing = [var for var in generic.type_params if var not in found]
    if missing:
        raise UserError(
            f"the type argument {missing[0]!r} of a function of type {generic!r} is not known where it is called"
        )
    return [found[var] for var in generic.type_params]


_RULES: dict[type, Callable[..., Step[RelayExpr]]] = {
    Var: _Scope._var,
    GlobalVar: _Scope._global,
    Constructor: _Scope._constructor,
    Op: _Scope._operator,
    Function: _Scope._function,
    Let: _Scope._let,
    Match: _Scope._match,
    Call: _Scope._call,
}
