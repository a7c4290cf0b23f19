"""Structural equality and hash of types: the same up to the identity of type parameters.

Type parameters are paired where a function, a function type or a data type binds them; free ones, and types not
known yet, by identity, or at their first meeting with *map_free_vars*. Data types are the same by name. Invariant: what
is equal has the same key. Source: ``src/node/structural_equal.cc`` and the ``SEqualReduce`` of each type in TVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from byoc.ir.expr import TypeData
from byoc.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    TensorType,
    Type,
    TypeRelation,
    TypeVar,
    type_children,
)

SameValue = Callable[[object, object], bool]


class TypePairs:
    """Which type variables of two sides stand for each other; *same_value* compares what is no type."""

    def __init__(self, map_free_vars: bool, same_value: SameValue):
        self._map_free_vars, self._same_value = map_free_vars, same_value
        self._right: dict[Type, Type] = {}
        self._left: dict[Type, Type] = {}

    def bind(self, left: Sequence[Type], right: Sequence[Type]) -> bool:
        """Pair the parameters of two binders; False where their number or kinds differ."""
        if len(left) != len(right) or any(_kind(a) != _kind(b) for a, b in zip(left, right, strict=True)):
            return False
        for a, b in zip(left, right, strict=True):
            self._right[a], self._left[b] = b, a
        return True

    def same(self, a: Type, b: Type) -> bool:
        """Whether two types are the same where paired variables stand for each other."""
        if type(a) is not type(b):
            return False
        if isinstance(a, TensorType):
            return a == b
        if isinstance(a, GlobalTypeVar) and isinstance(b, GlobalTypeVar):
            return a.name_hint == b.name_hint and a.kind == b.kind
        if isinstance(a, (TypeVar, IncompleteType)):
            return self._same_variable(a, b)
        if isinstance(a, TypeData) and isinstance(b, TypeData):
            return self._same_data(a, b)
        if isinstance(a, FuncType) and isinstance(b, FuncType) and len(a.arg_types) == len(b.arg_types):
            if not self.bind(a.type_params, b.type_params):
                return False
        if isinstance(a, TypeRelation) and isinstance(b, TypeRelation) and not self._same_relation(a, b):
            return False
        inner_a, inner_b = type_children(a), type_children(b)
        return len(inner_a) == len(inner_b) and all(map(self.same, inner_a, inner_b))

    def _same_variable(self, a: Type, b: Type) -> bool:
        if a in self._right or b in self._left:
            return self._right.get(a) is b
        if self._map_free_vars and _kind(a) == _kind(b):
            return self.bind([a], [b])
        return a is b

    def _same_data(self, a: TypeData, b: TypeData) -> bool:
        if not self.same(a.header, b.header) or len(a.constructors) != len(b.constructors):
            return False
        if not self.bind(a.type_vars, b.type_vars):
            return False
        return all(
            x.name_hint == y.name_hint and len(x.inputs) == len(y.inputs) and all(map(self.same, x.inputs, y.inputs))
            for x, y in zip(a.constructors, b.constructors, strict=True)
        )

    def _same_relation(self, a: TypeRelation, b: TypeRelation) -> bool:
        same_func = a.func is b.func or relation_name(a.func) == relation_name(b.func)
        return same_func and a.num_inputs == b.num_inputs and self._same_value(a.attrs, b.attrs)


def _kind(ty: Type) -> object:
    return getattr(ty, "kind", None)


def _kinds(variables: Sequence[TypeVar]) -> tuple[int, ...]:
    return tuple(int(var.kind) for var in variables)


def relation_name(func: object) -> str:
    """What identifies a type relation's function: its name."""
    return str(getattr(func, "name", None) or getattr(func, "__qualname__", type(func).__name__))


def free_types(ty: Type) -> list[Type]:
    """The type variables of *ty* that nothing in it binds, and what is not known yet, in order of their first use."""
    found: dict[Type, None] = {}
    stack: list[tuple[Type, frozenset[Type]]] = [(ty, frozenset())]
    while stack:
        top, bound = stack.pop()
        if isinstance(top, (TypeVar, IncompleteType)) and not isinstance(top, GlobalTypeVar) and top not in bound:
            found[top] = None
        if isinstance(top, FuncType):
            bound = bound | set(top.type_params)
        stack.extend((inner, bound) for inner in reversed(type_children(top)))
    return list(found)


def bound_names(params: Iterable[Type], names: Mapping[Type, str]) -> dict[Type, str]:
    """*names* and new ones for *params*, by their place among all that are bound."""
    new = list(params)
    return {**names, **{v: f"#{len(names) + i}:{_kind(v)}" for i, v in enumerate(new)}} if new else dict(names)


def type_key(ty: Type, names: Mapping[Type, str], value_key: Callable[[object], object]) -> object:
    """What makes *ty* the same as another: hashable and the same in every process, but for types not known yet.

    *names* stand for bound variables; free ones count by their names.
    """
    if isinstance(ty, TensorType):
        return repr(ty)
    if ty in names:
        return names[ty]
    if isinstance(ty, TypeVar):
        return (type(ty).__name__, ty.name_hint, int(ty.kind))
    if isinstance(ty, IncompleteType):
        return ("?", int(ty.kind), id(ty))
    if isinstance(ty, TypeData):
        inner = bound_names(ty.type_vars, names)
        rows = tuple((c.name_hint, tuple(type_key(t, inner, value_key) for t in c.inputs)) for c in ty.constructors)
        return ("TypeData", ty.header.name_hint, _kinds(ty.type_vars), rows)
    extra: tuple[object, ...] = ()
    if isinstance(ty, FuncType):
        names, extra = bound_names(ty.type_params, names), (_kinds(ty.type_params), len(ty.arg_types))
    if isinstance(ty, TypeRelation):
        extra = (relation_name(ty.func), ty.num_inputs, value_key(ty.attrs))
    return (type(ty).__name__, *extra, *(type_key(t, names, value_key) for t in type_children(ty)))
