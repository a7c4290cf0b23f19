"""What defunctionalization makes of a program: functions for known types, data types, and the closures in them.

Every function value is a value of its type's :class:`Encoding`. How a function's body is made is given to the
:class:`FirstOrderProgram` by who makes it. Source: ``src/relay/transforms/defunctionalization.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from byoc.errors import UserError
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr, TypeData
from byoc.ir.module import IRModule
from byoc.ir.types import (
    FuncType,
    GlobalTypeVar,
    Type,
    TypeCall,
    TypeVar,
    rebuild_type,
    substitute_types,
    type_children,
)
from byoc.relay.adt import Clause, Match
from byoc.relay.analysis.variables import free_vars
from byoc.relay.expr import Call, Function, Var
from byoc.relay.text.trampoline import Step
from byoc.relay.transform.cut.mangle_names import unique_name

# makes a function again for types of its type parameters
MakeWhole = Callable[["FirstOrderProgram", Function, Mapping[Type, Type]], Step[Function]]


def holds_function(ty: Type, mod: IRModule) -> bool:
    """True for a function and what may hold one, in fields of data too."""
    seen: set[Type] = set()
    stack = [ty]
    while stack:
        top = stack.pop()
        if isinstance(top, FuncType):
            return True
        if top in seen:
            continue
        seen.add(top)
        stack.extend(type_children(top))
        if isinstance(top, GlobalTypeVar) and top in mod:
            data = mod[top]
            stack.extend(t for constructor in data.constructors for t in constructor.inputs)
    return False


def is_unit(func: RelayExpr) -> bool:
    """True for a function that stays whole: a fused operator, another compiler's, one that is no graph."""
    return not isinstance(func, Function) or bool(func.attrs.get("Primitive")) or func.attrs.get("Compiler") is not None


def is_open(ty: Type) -> bool:
    """True for a type with a type variable that is no name of data."""
    stack = [ty]
    while stack:
        top = stack.pop()
        if isinstance(top, TypeVar) and not isinstance(top, GlobalTypeVar):
            return True
        stack.extend(type_children(top))
    return False


@dataclass
class Encoding:
    """The data type that stands for a type of functions, and the function that applies its values."""

    type: FuncType
    header: GlobalTypeVar
    apply: GlobalVar
    function: Var
    args: list[Var] = field(default_factory=list)
    result: Type | None = None
    constructors: list[Constructor] = field(default_factory=list)
    clauses: list[Clause] = field(default_factory=list)


class FirstOrderProgram:
    """What is made of the program: specialised functions, data types, encodings. *mod* is typed, *names* is changed."""

    def __init__(self, mod: IRModule, names: IRModule, whole: MakeWhole):
        self.mod = mod
        self._make_whole = whole
        self.added: dict[GlobalVar, Function] = {}
        self.added_types: dict[GlobalTypeVar, TypeData] = {}
        self.known: dict[Var, RelayExpr] = {}
        self._functions = {var.name_hint for var in names.functions}
        self._types = {var.name_hint for var in names.type_definitions}
        self._specialized: dict[tuple[GlobalVar, tuple[Type, ...]], GlobalVar] = {}
        self._encodings: dict[FuncType, Encoding] = {}
        self._closures: dict[tuple[object, ...], Constructor] = {}
        self._data: dict[TypeCall, tuple[GlobalTypeVar, dict[Constructor, Constructor]]] = {}
        self._captured: dict[RelayExpr, list[Var]] = {}
        self._count = 0

    def entry(self, func: Function) -> Step[Function]:
        """*func*, where the program begins."""
        made: Function = yield self._make_whole(self, func, {})
        return made

    def finish(self) -> None:
        """Add the encodings, whose cases are complete now."""
        for made in self._encodings.values():
            self.added_types[made.header] = TypeData(made.header, [], made.constructors)
            if made.clauses:
                body: RelayExpr = Match(made.function, made.clauses, complete=True)
            else:  # there is no such function: what calls one is never reached
                body = Call(made.apply, [made.function, *made.args])
            self.added[made.apply] = Function([made.function, *made.args], body, made.result)

    # types -----------------------------------------------------------------------------------------------------------

    def encoded(self, ty: Type) -> Type:
        """*ty*, which has no type variable, with data types in place of functions."""
        if isinstance(ty, FuncType):
            return TypeCall(self.encoding(ty).header, [])
        if isinstance(ty, TypeCall) and self._is_changed(ty):
            return TypeCall(self._data_of(ty)[0], [])
        inner = type_children(ty)
        return rebuild_type(ty, [self.encoded(t) for t in inner]) if inner else ty

    def encoding(self, ty: FuncType) -> Encoding:
        """What stands for functions of type *ty*. Raises UserError for a generic type, or one that is not known."""
        if ty not in self._encodings:
            if ty.type_params or is_open(ty):
                raise UserError(
                    f"a value of type {ty!r} is generic: Defunctionalization must know every type; call the function, "
                    "or give it to a parameter of one type"
                )
            number, self._count = self._count, self._count + 1
            header = GlobalTypeVar(self._new_name(f"T{number}", self._types))
            apply = GlobalVar(self._new_name(f"apply{number}", self._functions))
            made = Encoding(ty, header, apply, Var("f", TypeCall(header, [])))
            self._encodings[ty] = made
            made.args.extend(Var(f"a{i}", self.encoded(t)) for i, t in enumerate(ty.arg_types))
            made.result = self.encoded(ty.ret_type)
        return self._encodings[ty]

    def _is_changed(self, ty: TypeCall) -> bool:
        """True for a data type with a function in a field of its own, which its arguments do not bring."""
        return isinstance(ty.func, GlobalTypeVar) and ty.func in self.mod and holds_function(ty.func, self.mod)

    def _data_of(self, ty: TypeCall) -> tuple[GlobalTypeVar, dict[Constructor, Constructor]]:
        """The first-order data type of *ty*, and its constructors by those that they stand for."""
        if ty not in self._data:
            assert isinstance(ty.func, GlobalTypeVar)
            definition = self.mod[ty.func]
            header = GlobalTypeVar(self._new_name(f"{definition.header.name_hint}_first_order", self._types))
            made: dict[Constructor, Constructor] = {}
            self._data[ty] = (header, made)
            env: dict[Type, Type] = dict(zip(definition.type_vars, ty.args, strict=True))
            for constructor in definition.constructors:
                fields = [self.encoded(substitute_types(t, env)) for t in constructor.inputs]
                made[constructor] = Constructor(constructor.name_hint, fields, header)
            self.added_types[header] = TypeData(header, [], made.values())
        return self._data[ty]

    def constructor(self, constructor: Constructor, ty: Type) -> Constructor:
        """What makes data of type *ty* where *constructor* did."""
        if isinstance(ty, TypeCall) and self._is_changed(ty):
            return self._data_of(ty)[1][constructor]
        return constructor

    # functions -------------------------------------------------------------------------------------------------------

    def specialized(self, var: GlobalVar, type_args: Sequence[Type]) -> Step[GlobalVar]:
        """The first-order function of *var* for *type_args*."""
        func = self.mod[var]
        if is_unit(func):
            return var
        assert isinstance(func, Function)
        key = (var, tuple(type_args))
        if key not in self._specialized:
            self._specialized[key] = new = GlobalVar(self._new_name(f"{var.name_hint}_first_order", self._functions))
            types: dict[Type, Type] = dict(zip(func.type_params, type_args, strict=True))
            self.added[new] = yield self._make_whole(self, func, types)
        return self._specialized[key]

    def closure(
        self, key: tuple[object, ...], ty: FuncType, name: str, types: Sequence[Type]
    ) -> tuple[Constructor, bool]:
        """The constructor of the function value *key*, with fields of *types*; and whether it is new."""
        encoding = self.encoding(ty)
        full = (ty, *key)
        if full in self._closures:
            return self._closures[full], False
        taken = {constructor.name_hint for constructor in encoding.constructors}
        label = unique_name(f"{encoding.header.name_hint}_{name}", taken)
        made = Constructor(label, types, encoding.header)
        self._closures[full] = made
        encoding.constructors.append(made)
        return made, True

    def captured(self, func: RelayExpr) -> list[Var]:
        """The variables that *func* needs from around it, those of functions known by name in their place."""
        if func not in self._captured:
            found: dict[Var, None] = {}
            seen: set[RelayExpr] = set()
            pending = [func]
            while pending:
                inner = pending.pop()
                if inner in seen:
                    continue
                seen.add(inner)
                for var in free_vars(inner):
                    if var in self.known:
                        pending.append(self.known[var])
                    else:
                        found[var] = None
            self._captured[func] = list(found)
        return self._captured[func]

    @staticmethod
    def _new_name(name: str, taken: set[str]) -> str:
        new = unique_name(name, taken)
        taken.add(new)
        return new
