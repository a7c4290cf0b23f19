"""Kinds of types: type, shape, constraint, data type. Source: ``src/relay/analysis/kind_check.cc``."""

from __future__ import annotations

from byoc.errors import TypeInferenceError
from byoc.ir.expr import TypeData
from byoc.ir.module import IRModule
from byoc.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TupleType,
    Type,
    TypeCall,
    TypeKind,
    TypeRelation,
    TypeVar,
)


def check_kind(t: Type, mod: IRModule | None = None) -> TypeKind:
    """The kind of *t*, where all inside it is of the kind that its place asks for; *mod* has the data types.

    Raises TypeInferenceError that says what is of another kind. Source: ``relay.analysis.check_kind``.
    """
    if isinstance(t, (TypeVar, IncompleteType)):
        return t.kind
    if isinstance(t, TupleType):
        _expect(t.fields, TypeKind.Type, t, mod)
    elif isinstance(t, FuncType):
        _expect(t.type_params, None, t, mod)
        _expect((*t.arg_types, t.ret_type), TypeKind.Type, t, mod)
        _expect(t.type_constraints, TypeKind.Constraint, t, mod)
    elif isinstance(t, RefType):
        _expect((t.value,), TypeKind.Type, t, mod)
    elif isinstance(t, TypeRelation):
        _expect(t.args, TypeKind.Type, t, mod)
        return TypeKind.Constraint
    elif isinstance(t, TypeCall):
        _check_call(t, mod)
    elif isinstance(t, TypeData):
        _expect((t.header,), TypeKind.AdtHandle, t, mod)
        _expect(t.type_vars, TypeKind.Type, t, mod)
        for constructor in t.constructors:
            _expect((constructor.belong_to,), TypeKind.AdtHandle, t, mod)
            _expect(constructor.inputs, TypeKind.Type, t, mod)
        return TypeKind.TypeData
    return TypeKind.Type


def _expect(parts: tuple[Type, ...], kind: TypeKind | None, whole: Type, mod: IRModule | None) -> None:
    for part in parts:
        found = check_kind(part, mod)
        if kind is not None and found != kind:
            raise TypeInferenceError(
                f"{part!r} in {whole!r} is of kind {found.name}, where the kind {kind.name} is expected"
            )


def _check_call(call: TypeCall, mod: IRModule | None) -> None:
    if not isinstance(call.func, GlobalTypeVar):
        raise TypeInferenceError(f"{call.func!r} is applied to types: only the name of a data type can be")
    _expect((call.func,), TypeKind.AdtHandle, call, mod)
    _expect(call.args, TypeKind.Type, call, mod)
    if mod is None:
        return
    if call.func not in mod:
        raise TypeInferenceError(f"the module has no data type {call.func.name_hint!r}")
    expected = len(mod.type_definitions[call.func].type_vars)
    if len(call.args) != expected:
        raise TypeInferenceError(f"{call.func!r} takes {expected} types, got {len(call.args)}")
