"""The reader of types and of the definitions of data types, with the scopes of type parameters.

A name is a type parameter in scope, a dtype, or a data type, which may be defined later in the text. Types nest at most
200 deep. Source: Relay's text format 0.0.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.ir.expr import Constructor, TypeData
from byoc.ir.module import IRModule
from byoc.ir.types import (
    DTYPES,
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeKind,
    TypeVar,
    is_dtype,
)
from byoc.relay.text.atoms import AtomReader, nearest
from byoc.relay.text.lexer import Tokens


class TypeReader(AtomReader):
    """Reads types; *module* has the data types that exist already."""

    def __init__(self, tokens: Tokens, meta: Mapping[str, Sequence[object]], module: IRModule | None = None):
        super().__init__(tokens, meta)
        self.module = module if module is not None else IRModule()
        self._type_scope: dict[str, list[TypeVar]] = {}
        self._data_types = {header.name_hint: header for header in self.module.get_global_type_vars()}
        self._data_type_uses: dict[str, int] = {}
        self._constructors = {
            constructor.name_hint: constructor
            for data in self.module.type_definitions.values()
            for constructor in data.constructors
        }

    # types --------------------------------------------------------------------------------------------------------

    def type(self) -> Type | None:
        """A type; None for ``_``, which leaves it to inference."""
        return self._nested(self._type)

    def _inner(self) -> Type:
        """A type inside another."""
        return self._nested(self._type) or IncompleteType()

    def _type(self) -> Type | None:
        if self.skip("("):
            fields, trailing = self.listed(")", self._inner)
            return fields[0] if len(fields) == 1 and not trailing else TupleType(fields)
        at = self._at
        if self._kinds[at] == "string":
            self._at += 1
            return self._applied(self._data_type(self.unquoted(self._texts[at]), at))
        if self._kinds[at] == "dim" and self._texts[at] == "?":
            self._at += 1
            return IncompleteType()
        name = self.take_kind("name", "a type such as Tensor[(1, 3), float32], int64, (A, B) or fn (A) -> B")
        if self._type_scope.get(name):
            return self._applied(self._type_scope[name][-1])
        if name == "Tensor":
            return self._tensor_type()
        if name == "fn":
            return self._function_type()
        if name == "ref":
            self.take("(")
            value = self._inner()
            self.take(")")
            return RefType(value)
        if name == "_":
            return None
        return TensorType((), name) if is_dtype(name) else self._applied(self._data_type(name, at))

    def _function_type(self) -> FuncType:
        params = self.type_params()
        self.take("(")
        arguments, _ = self.listed(")", self._inner)
        self.take("->")
        result = self._inner()
        self.close_type_params(params)
        return FuncType(arguments, result, params)

    def _applied(self, head: TypeVar) -> Type:
        """*head* with the type arguments that follow; a data type without any is applied to none."""
        args = self.type_args()
        return TypeCall(head, args) if args or isinstance(head, GlobalTypeVar) else head

    def type_args(self) -> list[Type]:
        """``[A, B]`` where that is next, else nothing."""
        return self.listed("]", self._inner)[0] if self.skip("[") else []

    def _data_type(self, name: str, at: int) -> GlobalTypeVar:
        self._data_type_uses.setdefault(name, at)
        return self._data_types.setdefault(name, GlobalTypeVar(name))

    def check_data_types(self) -> None:
        """Raises TextError at the first use of a data type that nobody defined."""
        for name, at in self._data_type_uses.items():
            if self._data_types[name] not in self.module:
                raise self.error(f"unknown type {name!r}{nearest(name, [*DTYPES, 'Tensor', *self._data_types])}", at)

    def _tensor_type(self) -> TensorType:
        self.take("[")
        self.take("(")
        dims, _ = self.listed(")", self._dim)
        self.take(",")
        at = self._at
        dtype = self.take_kind("name", "a dtype such as float32")
        if not is_dtype(dtype):
            raise self.error(f"unknown type {dtype!r}{nearest(dtype, DTYPES)}", at)
        self.take("]")
        return TensorType(dims, dtype)

    def _dim(self) -> int | Any:
        if self._kinds[self._at] == "dim":
            self._at += 1
            return Any(self.unquoted(self._texts[self._at - 1][1:]))
        if self.skip("meta"):
            at, size = self._at - 1, self.meta_entry()
            if not isinstance(size, Any):
                raise self.error("a dimension is a size of the metadata, such as meta[tir.SizeVar][0]", at)
            return size
        text = self.take_kind("number", "a dimension: a number, ? or ?name")
        if not text.isdigit():
            raise self.error(f"a dimension is a whole number, got {text}", self._at - 1)
        return int(text)

    # type parameters ----------------------------------------------------------------------------------------------

    def type_params(self) -> list[TypeVar]:
        """``[A, B]`` where type parameters are bound; they are in scope from here."""
        return self.listed("]", self._type_param)[0] if self.skip("[") else []

    def _type_param(self) -> TypeVar:
        name = self.take_kind("name", "the name of a type parameter")
        kind = TypeKind.Type
        if self.skip(":"):
            at = self._at
            text = self.take_kind("name", "the kind of a type parameter")
            if text not in TypeKind.__members__:
                raise self.error(f"unknown kind {text!r}{nearest(text, list(TypeKind.__members__))}", at)
            kind = TypeKind[text]
        var = TypeVar(name, kind)
        self._type_scope.setdefault(name, []).append(var)
        return var

    def close_type_params(self, params: Sequence[TypeVar]) -> None:
        """Leave the scope of *params*."""
        for var in reversed(params):
            self._type_scope[var.name_hint].pop()

    # definitions --------------------------------------------------------------------------------------------------

    def type_definition(self, external: bool) -> None:
        """What follows ``type``: name, type parameters, and constructors unless *external*; added to the module.

        Raises TextError for a second type or constructor of one name.
        """
        at = self._at
        name = self.unquoted(self._name_or_string("the name of a type"), at)
        header = self._data_types.setdefault(name, GlobalTypeVar(name))
        if header in self.module:
            raise self.error(f"the type {name} is defined twice", at)
        params = self.type_params()
        constructors: list[Constructor] = []
        if not external or self.next_is("{"):
            self.take("{")
            constructors, _ = self.listed("}", lambda: self._constructor(header))
        else:
            self.skip(";")
        self.close_type_params(params)
        self.module[header] = TypeData(header, params, constructors)

    def _constructor(self, header: GlobalTypeVar) -> Constructor:
        at = self._at
        name = self.unquoted(self._name_or_string("the name of a constructor"), at)
        fields = self.listed(")", self._inner)[0] if self.skip("(") else []
        if name in self._constructors:
            raise self.error(f"the constructor {name} is defined twice", at)
        made = self._constructors[name] = Constructor(name, fields, header)
        return made

    def _name_or_string(self, what: str) -> str:
        kind = "string" if self._kinds[self._at] == "string" else "name"
        return self.take_kind(kind, what)
