"""Algebraic data types: a name, its type parameters, and its constructors. Source: ``tvm.ir.adt``."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from byoc.ir.expr import RelayExpr
from byoc.ir.registry import get_global_func
from byoc.ir.span import AnySpan
from byoc.ir.types import GlobalTypeVar, Type, TypeVar


class Constructor(RelayExpr):
    """One way to make a value of a data type, from fields of the types *inputs*; identity makes it.

    ``tag`` is set by the module that gets the data type: the same in every process, and different within a module.
    """

    __slots__ = ("belong_to", "inputs", "name_hint", "tag")

    def __init__(self, name_hint: str, inputs: Iterable[Type], belong_to: GlobalTypeVar, span: AnySpan | None = None):
        super().__init__(span)
        self.name_hint, self.inputs, self.belong_to = str(name_hint), tuple(inputs), belong_to
        self.tag = -1

    def __call__(self, *args: RelayExpr) -> RelayExpr:
        """The call that makes a value. Source: ``Constructor.__call__``."""
        call: RelayExpr = get_global_func("relay.ir.call")(self, args)
        return call

    def __repr__(self) -> str:
        return f"Constructor({self.name_hint})"


class TypeData(Type):
    """The definition of a data type: *header* is its name in the module, *type_vars* what it is generic over."""

    __slots__ = ("constructors", "header", "type_vars")

    def __init__(self, header: GlobalTypeVar, type_vars: Iterable[TypeVar], constructors: Iterable[Constructor]):
        self.header, self.type_vars, self.constructors = header, tuple(type_vars), tuple(constructors)

    def _key(self) -> tuple[object, ...]:
        return (self.header, self.type_vars, self.constructors)

    def __repr__(self) -> str:
        return f"type {self.header!r}"


def number_constructors(data: TypeData) -> None:
    """Give each constructor its tag: a byte from the type's name, then its place, as in Relay."""
    first = (zlib.crc32(data.header.name_hint.encode()) & 0xFF) << 24
    for index, constructor in enumerate(data.constructors):
        constructor.tag = first | index
