"""The roots of the expression classes, the name of a function in a module, and algebraic data types.

Expressions compare by identity: sharing a node is part of a graph's meaning. They never change after they are made;
``checked_type`` is a cache that type inference fills.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable

from byoc.ir.registry import get_global_func
from byoc.ir.span import AnySpan
from byoc.ir.types import GlobalTypeVar, Type, TypeVar


class RelayExpr:
    """The root of all expressions: a span (where it came from) and, after type inference, a type."""

    __slots__ = ("_checked_type", "span")

    def __init__(self, span: AnySpan | None = None):
        self.span = span
        self._checked_type: Type | None = None

    @property
    def checked_type(self) -> Type:
        """The inferred type. Raises ValueError before type inference, as Relay does."""
        if self._checked_type is None:
            raise ValueError("the type checker has not populated the checked_type of this node: run InferType first")
        return self._checked_type

    @property
    def checked_type_(self) -> Type | None:
        """The inferred type, or None where inference has not been here."""
        return self._checked_type

    def same_as(self, other: object) -> bool:
        """True when *other* is this very node. Source: ``Object.same_as``."""
        return self is other

    def astext(self, show_meta_data: bool = True, annotate: Callable[[RelayExpr], str] | None = None) -> str:
        """The expression in Relay's text format; *annotate* gives the text behind each node. Source: ``astext``."""
        return str(get_global_func("relay.ir.astext")(self, show_meta_data, annotate))

    def __str__(self) -> str:
        if type(self).__repr__ is not object.__repr__:  # a name or an operator says what it is itself
            return repr(self)
        return str(get_global_func("relay.ir.pretty_print")(self))


class GlobalVar(RelayExpr):
    """The name of a function in a module. Two functions of a module never share one."""

    __slots__ = ("name_hint",)

    def __init__(self, name_hint: str, span: AnySpan | None = None):
        super().__init__(span)
        self.name_hint = name_hint

    def __call__(self, *args: RelayExpr) -> RelayExpr:
        """The call of the function. Source: ``GlobalVar.__call__``."""
        call: RelayExpr = get_global_func("relay.ir.call")(self, args)
        return call

    def __repr__(self) -> str:
        return f"GlobalVar({self.name_hint})"


class BaseFunc(RelayExpr):
    """The root of functions, whatever their language."""

    __slots__ = ()


# Algebraic data types: a name, its type parameters, and its constructors. Source: ``tvm.ir.adt``.


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
