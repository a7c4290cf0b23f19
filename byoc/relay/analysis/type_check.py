"""Type inference by unification: untyped parameters, closures, recursion, generic functions, algebraic data.

Each node gets a type or an unknown one; what a node says about the types around it becomes an equation or a relation of
the solver. Then the functions are made again with what was found: variables with their annotations, calls of generic
functions with their type arguments. Invariant: a node that needed nothing filled in is kept as it is, with its type.
What needs none of this is typed by :mod:`byoc.relay.analysis.type_infer` alone. Source: Relay's ``type_infer.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from byoc.errors import TypeInferenceError, UserError
from byoc.ir.attrs import all_given
from byoc.ir.expr import BaseFunc, Constructor, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.types import (
    FuncType,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    substitute_types,
)
from byoc.relay.adt import Match, Pattern, PatternConstructor, PatternTuple, PatternVar, pattern_children
from byoc.relay.analysis.operator_calls import infer_op_call, located
from byoc.relay.analysis.type_solver import TypeSolver
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
    is_complete,
)
from byoc.relay.narrowing import as_function_type, operator_of
from byoc.relay.traverse import children, post_order, rebuild

UNIT = TupleType(())
BOOL = TensorType((), "bool")


class TypeCheck:
    """One inference over several expressions that may name each other."""

    def __init__(self, mod: IRModule | None, group: Mapping[GlobalVar, BaseFunc]):
        self._mod, self._group = mod, group
        self._solver = TypeSolver()
        self._types: dict[RelayExpr, Type] = {}
        self._type_args: dict[Call, Sequence[Type]] = {}
        self._operators: list[Call] = []

    def run(self, roots: Sequence[RelayExpr]) -> list[RelayExpr]:
        """The *roots* again with their types. Raises TypeInferenceError for what does not fit or is not known."""
        for root in dict.fromkeys((*self._group.values(), *roots)):
            self._declare(root)
        for root in roots:
            for node in post_order(root):
                if node not in self._types or isinstance(node, Function):
                    self._visit(node)
        if not self._solver.solve():
            raise self._unsolved()
        memo: dict[RelayExpr, RelayExpr] = {}
        return [self._resolved(root, memo) for root in roots]

    def _declare(self, root: RelayExpr) -> None:
        """Give functions, and variables bound to them, the types that their annotations say."""
        for node in post_order(root):
            if isinstance(node, Function) and node not in self._types:
                params = [self._of(p) for p in node.params]
                result = node.declared_ret_type or IncompleteType()
                self._types[node] = FuncType(params, result, node.type_params)
            elif isinstance(node, Let) and isinstance(node.value, Function):
                self._unify(node.variable, self._of(node.variable), self._of(node.value))

    def _of(self, node: RelayExpr) -> Type:
        """The type of *node* as far as it is known; an unknown one for a variable that is met for the first time."""
        if node not in self._types:
            if not isinstance(node, Var):
                self._visit(node)
            else:
                self._types[node] = node.type_annotation or IncompleteType()
        return self._types[node]

    def _unify(self, place: RelayExpr, expected: Type, found: Type) -> Type:
        try:
            return self._solver.unify(expected, found)
        except TypeInferenceError as error:
            raise TypeInferenceError(f"{_title(place)}: {error}{located(place)}") from error

    def _visit(self, node: RelayExpr) -> None:
        self._types[node] = _RULES[type(node)](self, node)

    # one rule a class of node --------------------------------------------------------------------------------------

    def _global(self, var: GlobalVar) -> Type:
        if var in self._group:
            return self._of(self._group[var])
        if self._mod is None or var not in self._mod:
            raise TypeInferenceError(f"@{var.name_hint} is not a function of this module")
        return self._mod[var].checked_type

    def _constructor(self, constructor: Constructor) -> Type:
        header = constructor.belong_to
        if self._mod is None or header not in self._mod:
            raise TypeInferenceError(
                f"the constructor {constructor.name_hint} belongs to the type {header.name_hint}, which is not in the "
                "module: add it with mod[type] = TypeData(…)"
            )
        variables = self._mod.type_definitions[header].type_vars
        return FuncType(constructor.inputs, TypeCall(header, variables), variables)

    def _function(self, func: Function) -> Type:
        ty = self._types[func]
        assert isinstance(ty, FuncType)
        self._unify(func, ty.ret_type, self._of(func.body))
        return ty

    def _call(self, call: Call) -> Type:
        if isinstance(call.op, Op):
            return self._operator(call)
        callee = self._solver.shallow(self._of(call.op))
        args = [self._of(arg) for arg in call.args]
        if isinstance(callee, IncompleteType):
            result: Type = IncompleteType()
            self._unify(call, callee, FuncType(args, result))
            return result
        if not isinstance(callee, FuncType):
            raise TypeInferenceError(
                f"a value of type {self._solver.resolve(callee)} is called{located(call)}: only functions can be"
            )
        if callee.type_params:
            callee = self._instance(call, as_function_type(self._solver.resolve(callee)))
        if len(args) != len(callee.arg_types):
            raise TypeInferenceError(
                f"a function of {len(callee.arg_types)} parameters is called with {len(args)} arguments{located(call)}"
            )
        for index, (expected, found) in enumerate(zip(callee.arg_types, args, strict=True)):
            try:
                self._solver.unify(expected, found)
            except TypeInferenceError as error:
                raise TypeInferenceError(f"argument {index} of a call: {error}{located(call)}") from error
        return callee.ret_type

    def _instance(self, call: Call, generic: FuncType) -> FuncType:
        """*generic* over the type arguments of *call*, or over unknown ones."""
        given = call.type_args or [IncompleteType(var.kind) for var in generic.type_params]
        if len(given) != len(generic.type_params):
            raise TypeInferenceError(
                f"a function generic over {len(generic.type_params)} types is given {len(given)}{located(call)}"
            )
        self._type_args[call] = given
        names: dict[Type, Type] = dict(zip(generic.type_params, given, strict=True))
        parts = [substitute_types(t, names) for t in (*generic.arg_types, generic.ret_type)]
        return FuncType(parts[:-1], parts[-1])

    def _operator(self, call: Call) -> Type:
        result = IncompleteType()
        op, args = call.op, [self._of(arg) for arg in call.args]
        assert isinstance(op, Op)

        def settle() -> bool:
            known = [self._solver.known(ty) for ty in args]
            if any(ty is None for ty in known):
                try:
                    self._solver.fill(known, args, op.infer_inputs, result, call.attrs)
                except UserError as error:
                    raise TypeInferenceError(f"{op.name}: {error}{located(call)}") from error
                known = [self._solver.known(ty) for ty in args]
            if not all_given(known):
                return False
            self._unify(call, result, infer_op_call(call, op, known))
            return True

        self._operators.append(call)
        self._solver.add(settle)
        return result

    def _item(self, item: TupleGetItem) -> Type:
        result, of = IncompleteType(), self._of(item.tuple_value)

        def settle() -> bool:
            ty = self._solver.shallow(of)
            if isinstance(ty, IncompleteType):
                return False
            if not isinstance(ty, TupleType) or not 0 <= item.index < len(ty.fields):
                raise TypeInferenceError(f"there is no field {item.index} in {self._solver.resolve(ty)}{located(item)}")
            self._unify(item, result, ty.fields[item.index])
            return True

        self._solver.add(settle)
        return result

    def _let(self, let: Let) -> Type:
        self._unify(let, self._of(let.variable), self._of(let.value))
        return self._of(let.body)

    def _if(self, node: If) -> Type:
        self._unify(node, BOOL, self._of(node.cond))
        return self._unify(node, self._of(node.true_branch), self._of(node.false_branch))

    def _ref_read(self, node: RefRead) -> Type:
        value = IncompleteType()
        self._unify(node, RefType(value), self._of(node.ref))
        return value

    def _ref_write(self, node: RefWrite) -> Type:
        self._unify(node, RefType(self._of(node.value)), self._of(node.ref))
        return UNIT

    def _match(self, match: Match) -> Type:
        result: Type = IncompleteType()
        for clause in match.clauses:
            self._pattern(clause.lhs, self._of(match.data), match)
            result = self._unify(match, result, self._of(clause.rhs))
        return result

    def _pattern(self, pattern: Pattern, ty: Type, match: Match) -> None:
        """Say that *pattern* fits values of type *ty*."""
        if isinstance(pattern, PatternVar):
            self._unify(match, self._of(pattern.var), ty)
        inner = pattern_children(pattern)
        fields: Sequence[Type] = ()
        if isinstance(pattern, PatternConstructor):
            fields = self._constructed(pattern, ty, match)
        elif isinstance(pattern, PatternTuple):
            fields = [IncompleteType() for _ in inner]
            self._unify(match, TupleType(fields), ty)
        if inner and len(inner) != len(fields):
            raise TypeInferenceError(
                f"a pattern gives {len(inner)} fields where there are {len(fields)}{located(match)}"
            )
        for part, field in zip(inner, fields, strict=False):
            self._pattern(part, field, match)

    def _constructed(self, pattern: PatternConstructor, ty: Type, match: Match) -> Sequence[Type]:
        """The types of the fields of what a constructor of *ty* made."""
        generic = self._constructor(pattern.constructor)
        assert isinstance(generic, FuncType)
        names: dict[Type, Type] = {var: IncompleteType(var.kind) for var in generic.type_params}
        parts = [substitute_types(t, names) for t in (*generic.arg_types, generic.ret_type)]
        self._unify(match, parts[-1], ty)
        return parts[:-1]

    # what was found -------------------------------------------------------------------------------------------------

    def _resolved(self, root: RelayExpr, memo: dict[RelayExpr, RelayExpr]) -> RelayExpr:
        for node in post_order(root):
            if node in memo:
                continue
            ty = self._solver.resolve(self._types[node])
            memo[node] = new = self._filled(node, ty, memo)
            if not isinstance(new, (Op, GlobalVar, Constructor)) or new._checked_type is None:
                new._checked_type = ty
        return memo[root]

    def _filled(self, node: RelayExpr, ty: Type, memo: dict[RelayExpr, RelayExpr]) -> RelayExpr:
        """*node* over the new nodes, with the annotations that were found."""
        if isinstance(node, Var):
            same = node.type_annotation is not None and is_complete(node.type_annotation)
            return node if same else Var(node.name_hint, ty, node.span)
        inner = children(node)
        new = rebuild(node, [memo[c] for c in inner]) if inner else node
        if isinstance(new, Call) and node in self._type_args:
            found = [self._solver.resolve(t) for t in self._type_args[node]]
            if list(new.type_args) != found:
                new = Call(new.op, new.args, new.attrs, found, new.span)
        if isinstance(new, Function) and new.declared_ret_type is not None and not is_complete(new.declared_ret_type):
            found_type = as_function_type(ty)
            new = Function(new.params, new.body, found_type.ret_type, new.type_params, new.attrs, new.span)
        return new

    def _unsolved(self) -> TypeInferenceError:
        for call in self._operators:
            for name, arg in zip(_input_names(call), call.args, strict=False):
                if self._solver.known(self._of(arg)) is None:
                    what = (
                        f"variable %{arg.name_hint}"
                        if isinstance(arg, Var)
                        else f"input {name} of {operator_of(call).name}"
                    )
                    return TypeInferenceError(
                        f"{what} has no type{located(call)}: annotate it with relay.var(name, shape=…)"
                    )
        return TypeInferenceError("the type of a tuple is not known: annotate the variables with relay.var(name, type)")


def _input_names(call: Call) -> Sequence[str]:
    names = operator_of(call).input_names
    return [*names, *(str(i) for i in range(len(names), len(call.args)))]


def _title(node: RelayExpr) -> str:
    if isinstance(node, Call) and isinstance(node.op, Op):
        return node.op.name
    return _TITLES.get(type(node)) or type(node).__name__


_TITLES: dict[type, str] = {
    Function: "the result of a function",
    If: "the condition or the branches of an if",
    Match: "a match",
    Let: "the value of a let",
    Call: "a call",
    RefRead: "the read of a reference",
    RefWrite: "the write to a reference",
}

_RULES: dict[type, Callable[..., Type]] = {
    Op: lambda check, op: UNIT,
    GlobalVar: TypeCheck._global,
    Constructor: TypeCheck._constructor,
    Var: TypeCheck._of,
    Constant: lambda check, c: TensorType(c.data.shape, c.data.dtype),
    Call: TypeCheck._call,
    Function: TypeCheck._function,
    Tuple: lambda check, t: TupleType([check._of(f) for f in t.fields]),
    TupleGetItem: TypeCheck._item,
    Let: TypeCheck._let,
    If: TypeCheck._if,
    RefCreate: lambda check, r: RefType(check._of(r.value)),
    RefRead: TypeCheck._ref_read,
    RefWrite: TypeCheck._ref_write,
    Match: TypeCheck._match,
}
