"""How types are written: tensors, tuples, functions, references, data types, and what stands for a type.

Invariant: ``byoc.relay.text.type_reader`` reads each of them back to the same type. Type parameters of one name are
distinguished by a number (``A``, ``A1``), as Relay does; their names mean nothing. Source: Relay's text format 0.0.5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from byoc.ir.expr import TypeData
from byoc.ir.size_var import Var as SizeVariable
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
)
from byoc.relay.text.metadata import MetaTable
from byoc.relay.text.spelling import SIMPLE, quoted

RESERVED = frozenset([*DTYPES, "Tensor", "fn", "ref", "_"])
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_]")


class TypeNames:
    """The names of type parameters in one text; *taken* are the names of data types, which they must not hide.

    *meta* takes the sizes that are variables, as Relay does; without it they are written by their names.
    """

    def __init__(self, taken: Iterable[str] = (), meta: MetaTable | None = None):
        self._meta = meta
        self._names: dict[TypeVar, str] = {}
        self._taken = {*RESERVED, *taken}
        self._tensors: dict[TensorType, str] = {}

    def declared(self, params: Iterable[Type]) -> str:
        """``[A, B]`` for type parameters where they are bound; nothing where there are none."""
        texts = []
        for var in params:
            if isinstance(var, TypeVar):
                kind = f": {var.kind.name}" if var.kind != TypeKind.Type else ""
                texts.append(self._name(var) + kind)
        return f"[{', '.join(texts)}]" if texts else ""

    def _name(self, var: TypeVar) -> str:
        known = self._names.get(var)
        if known is not None:
            return known
        hint = _NOT_A_NAME.sub("_", var.name_hint)
        if not hint or not (hint[0].isalpha() or hint[0] == "_"):
            hint = "t" + hint
        name, number = hint, 0
        while name in self._taken:
            number += 1
            name = f"{hint}{number}"
        self._taken.add(name)
        self._names[var] = name
        return name

    def text(self, ty: Type) -> str:
        """A type as Relay prints it: ``Tensor[(1, ?N), float32]``, ``int64``, ``(A, B)``, ``fn (A) -> B``."""
        if type(ty) is TensorType:
            known = self._tensors.get(ty)
            if known is None:
                known = self._tensors[ty] = self._tensor(ty)
            return known
        write = _TYPE_TEXT.get(type(ty))
        return write(self, ty) if write is not None else repr(ty)

    def _tensor(self, ty: TensorType) -> str:
        return f"Tensor[({', '.join(map(self._dim, ty.shape))}), {ty.dtype}]" if ty.shape else ty.dtype

    def _dim(self, dim: int | Any) -> str:
        if self._meta is not None and isinstance(dim, SizeVariable):
            return self._meta.size_variable(dim)
        return dim_text(dim)

    def texts(self, types: Iterable[Type]) -> str:
        """Types, separated by commas."""
        return ", ".join(map(self.text, types))


def dim_text(dim: int | Any) -> str:
    """A dimension: a number, ``?`` or ``?N`` for the named one."""
    if not isinstance(dim, Any):
        return str(dim)
    return "?" + (dim.name if not dim.name or SIMPLE.fullmatch(dim.name) else quoted(dim.name, in_comment=True))


def global_type_text(var: GlobalTypeVar) -> str:
    """The name of a data type; quoted where it could be read as something else."""
    return var.name_hint if SIMPLE.fullmatch(var.name_hint) and var.name_hint not in RESERVED else quoted(var.name_hint)


def _tuple_text(names: TypeNames, ty: TupleType) -> str:
    return f"({names.texts(ty.fields)}{',' if len(ty.fields) == 1 else ''})"


def _func_text(names: TypeNames, ty: FuncType) -> str:
    params = names.declared(ty.type_params)
    return f"fn {params}({names.texts(ty.arg_types)}) -> {names.text(ty.ret_type)}"


# type class -> its text
_TYPE_TEXT: dict[type, Callable[..., str]] = {
    TupleType: _tuple_text,
    FuncType: _func_text,
    RefType: lambda names, ty: f"ref({names.text(ty.value)})",
    TypeVar: lambda names, ty: names._name(ty),
    GlobalTypeVar: lambda names, ty: global_type_text(ty),
    TypeCall: lambda names, ty: f"{names.text(ty.func)}[{names.texts(ty.args)}]",
    IncompleteType: lambda names, ty: "?",
    TypeData: lambda names, ty: type_definition_text(ty).rstrip(),
}


def type_text(ty: Type) -> str:
    """A type that stands alone, as Relay prints it; see :meth:`TypeNames.text`."""
    return TypeNames().text(ty)


def type_definition_text(data: TypeData, taken: Iterable[str] = ()) -> str:
    """``type List[A] { Cons(A, List[A]), Nil, }``, one constructor a line; *taken* are the names of all data types."""
    names = TypeNames([*taken, data.header.name_hint])
    lines = [f"type {global_type_text(data.header)}{names.declared(data.type_vars)} {{\n"]
    for constructor in data.constructors:
        fields = f"({names.texts(constructor.inputs)})" if constructor.inputs else ""
        lines.append(f"  {constructor_text(constructor.name_hint)}{fields},\n")
    return "".join([*lines, "}\n"])


def constructor_text(name: str) -> str:
    """The name of a constructor; quoted where it is no identifier."""
    return name if SIMPLE.fullmatch(name) else quoted(name)
