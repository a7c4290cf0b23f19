"""Functors over types: one method a class of type. Source: ``tvm.relay.type_functor``.

Types nest as deep as their text does, so the walks recurse.
"""

from __future__ import annotations

import typing

from byoc.errors import InternalError
from byoc.ir.expr import Constructor, TypeData
from byoc.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeConstraint,
    TypeRelation,
    TypeVar,
)

T = typing.TypeVar("T", bound=Type)
R = typing.TypeVar("R", covariant=True)


class TypeFunctor(typing.Generic[R]):
    """One method per class of type; :meth:`visit` finds it. Source: ``relay.TypeFunctor``."""

    def visit(self, typ: Type) -> R:
        """The result for *typ*. Raises InternalError for a class of type without a method."""
        for kind in type(typ).__mro__:
            if kind in _METHODS:
                result: R = getattr(self, _METHODS[kind])(typ)
                return result
        raise InternalError(f"{type(self).__name__} has no method for a {type(typ).__name__}")

    def _missing(self, typ: Type) -> typing.NoReturn:
        raise NotImplementedError(f"{type(self).__name__} does not say what to do with a {type(typ).__name__}")

    def visit_type_var(self, tv: TypeVar) -> object:
        """For a type parameter."""
        return self._missing(tv)

    def visit_incomplete_type(self, it: IncompleteType) -> object:
        """For a type that is not known yet."""
        return self._missing(it)

    def visit_tensor_type(self, tt: TensorType) -> object:
        """For the type of a tensor."""
        return self._missing(tt)

    def visit_func_type(self, ft: FuncType) -> object:
        """For the type of a function."""
        return self._missing(ft)

    def visit_tuple_type(self, tt: TupleType) -> object:
        """For the type of a tuple."""
        return self._missing(tt)

    def visit_type_relation(self, tr: TypeRelation) -> object:
        """For a relation between types."""
        return self._missing(tr)

    def visit_ref_type(self, rt: RefType) -> object:
        """For the type of a reference."""
        return self._missing(rt)

    def visit_global_type_var(self, gtv: GlobalTypeVar) -> object:
        """For the name of a data type."""
        return self._missing(gtv)

    def visit_type_call(self, tc: TypeCall) -> object:
        """For a data type applied to types."""
        return self._missing(tc)

    def visit_type_data(self, td: TypeData) -> object:
        """For the definition of a data type."""
        return self._missing(td)


_METHODS: dict[type, str] = {
    GlobalTypeVar: "visit_global_type_var",
    TypeVar: "visit_type_var",
    IncompleteType: "visit_incomplete_type",
    TensorType: "visit_tensor_type",
    FuncType: "visit_func_type",
    TupleType: "visit_tuple_type",
    TypeRelation: "visit_type_relation",
    RefType: "visit_ref_type",
    TypeCall: "visit_type_call",
    TypeData: "visit_type_data",
}


class TypeVisitor(TypeFunctor[None]):
    """Visits everything inside a type; override what is of interest. Source: ``relay.TypeVisitor``."""

    def visit_type_var(self, tv: TypeVar) -> None:
        """Nothing inside."""

    def visit_incomplete_type(self, it: IncompleteType) -> None:
        """Nothing inside."""

    def visit_tensor_type(self, tt: TensorType) -> None:
        """Nothing inside."""

    def visit_func_type(self, ft: FuncType) -> None:
        for part in (*ft.arg_types, ft.ret_type, *ft.type_params, *ft.type_constraints):
            self.visit(part)

    def visit_tuple_type(self, tt: TupleType) -> None:
        for field in tt.fields:
            self.visit(field)

    def visit_type_relation(self, tr: TypeRelation) -> None:
        for arg in tr.args:
            self.visit(arg)

    def visit_ref_type(self, rt: RefType) -> None:
        self.visit(rt.value)

    def visit_global_type_var(self, gtv: GlobalTypeVar) -> None:
        """Nothing inside."""

    def visit_type_call(self, tc: TypeCall) -> None:
        self.visit(tc.func)
        for arg in tc.args:
            self.visit(arg)

    def visit_type_data(self, td: TypeData) -> None:
        self.visit(td.header)
        for var in td.type_vars:
            self.visit(var)
        for constructor in td.constructors:
            self.visit(constructor.belong_to)
            for field in constructor.inputs:
                self.visit(field)


class TypeMutator(TypeFunctor[Type]):
    """Makes a type again; override what is to be replaced. Source: ``relay.TypeMutator``."""

    def visit_type_var(self, tv: TypeVar) -> Type:
        return tv

    def visit_incomplete_type(self, it: IncompleteType) -> Type:
        return it

    def visit_tensor_type(self, tt: TensorType) -> Type:
        return tt

    def visit_func_type(self, ft: FuncType) -> Type:
        args = [self.visit(arg) for arg in ft.arg_types]
        result = self.visit(ft.ret_type)
        params = [_as(TypeVar, self.visit(param)) for param in ft.type_params]
        constraints = [_as(TypeConstraint, self.visit(constraint)) for constraint in ft.type_constraints]
        return FuncType(args, result, params, constraints)

    def visit_tuple_type(self, tt: TupleType) -> Type:
        return TupleType([self.visit(field) for field in tt.fields])

    def visit_type_relation(self, tr: TypeRelation) -> Type:
        return TypeRelation(tr.func, [self.visit(a) for a in tr.args], tr.num_inputs, tr.attrs)

    def visit_ref_type(self, rt: RefType) -> Type:
        return RefType(self.visit(rt.value))

    def visit_global_type_var(self, gtv: GlobalTypeVar) -> Type:
        return gtv

    def visit_type_call(self, tc: TypeCall) -> Type:
        func = self.visit(tc.func)
        return TypeCall(func, [self.visit(arg) for arg in tc.args])

    def visit_type_data(self, td: TypeData) -> Type:
        header = _as(GlobalTypeVar, self.visit(td.header))
        params = [_as(TypeVar, self.visit(var)) for var in td.type_vars]
        made = [Constructor(c.name_hint, [self.visit(t) for t in c.inputs], header, c.span) for c in td.constructors]
        return TypeData(header, params, made)


def _as(kind: type[T], ty: Type) -> T:
    """*ty*, which stands where a *kind* must. Raises InternalError for another."""
    if not isinstance(ty, kind):
        raise InternalError(f"a {kind.__name__} is needed, and what the mutator made of it is a {type(ty).__name__}")
    return ty


__all__ = ["TypeFunctor", "TypeMutator", "TypeVisitor"]
