"""Types: of tensors, tuples, functions and references; variables of types, and types not known yet.

Types are immutable and compare by structure; type variables and types that are not known yet compare by identity, and
functions by structure up to the names of their type parameters. Dimensions are those of :mod:`byoc.ir.dims`. The types
of algebraic data stand in :mod:`byoc.ir.expr`. Source: ``tvm.ir.type``, ``tvm.relay.ty``.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from byoc.errors import UserError
from byoc.ir.dims import Any as Any
from byoc.ir.dims import Dim as Dim
from byoc.ir.dims import IntImm as IntImm
from byoc.ir.dims import dimension
from byoc.runtime.core.small_types import BITS, SMALL

DTYPES = frozenset(
    [
        "bool",
        "float16",
        "float32",
        "float64",
        "bfloat16",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "string",
        *SMALL,
    ]
)
# the dtypes that lie in memory as bits of which no language computes directly, and the integers that hold them
STORED: Mapping[str, str] = {"float16": "uint16", "bfloat16": "uint16", **dict.fromkeys(SMALL, "uint8")}
# other names of dtypes, as in TVM's DataType: a number without its width has 32 bits, one unsigned bit is a bool
_OTHER_NAMES = {"float": "float32", "int": "int32", "uint": "uint32", "uint1": "bool"}
_VECTOR = re.compile(r"(?:bool|(?:int|uint|float)[0-9]+)x[0-9]+")


def is_dtype(name: str) -> bool:
    """True for the name of a dtype; vectors (``int8x4``) can only be named in types."""
    return name in DTYPES or name in _OTHER_NAMES or _VECTOR.fullmatch(name) is not None


class Type:
    """The root of all types."""

    __slots__ = ("_hash",)
    _hash: int

    def _key(self) -> tuple[object, ...]:
        raise NotImplementedError

    def same_as(self, other: object) -> bool:
        """True when *other* is this very type, not only an equal one. Source: ``Object.same_as``."""
        return self is other

    @property
    def span(self) -> None:
        """None: types have no place in a source. Source: ``Type.span``."""
        return None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = hash((type(self).__name__, self._key()))
            return self._hash


class TensorType(Type):
    """``Tensor[(1, 3, ?), float32]``: a shape and the dtype of each element.

    Attributes:
        is_static: True when every dimension is a number.
        is_symbolic: True when every dimension is a number or a named symbol, so that code can be generated for it.
    """

    __slots__ = ("dtype", "is_static", "is_symbolic", "shape")

    def __init__(self, shape: Iterable[Dim], dtype: str = "float32"):
        self.shape = tuple([d if type(d) is IntImm or type(d) is Any else dimension(d) for d in shape])
        self.dtype = _OTHER_NAMES.get(str(dtype), str(dtype))
        if not is_dtype(self.dtype):
            raise UserError(f"unknown dtype {dtype!r}; known: {', '.join(sorted(DTYPES))}")
        self.is_static = self.is_symbolic = True
        for d in self.shape:
            if isinstance(d, Any):
                self.is_static = False
                self.is_symbolic = self.is_symbolic and bool(d.name)
            elif d < 0:
                raise UserError(f"a shape has no negative dimension, got {self.shape}")

    def _key(self) -> tuple[object, ...]:
        return (self.shape, self.dtype)

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape as ints. Raises UserError when a dimension is dynamic."""
        if not self.is_static:
            raise UserError(f"{self} has a dynamic dimension where a static shape is needed")
        return cast("tuple[int, ...]", self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        dims = ", ".join(map(repr, self.shape)) + ("," if len(self.shape) == 1 else "")
        return f"Tensor[({dims}), {self.dtype}]" if self.shape else self.dtype


class TupleType(Type):
    """The type of a tuple: one type per field."""

    __slots__ = ("fields",)

    def __init__(self, fields: Iterable[Type]):
        self.fields = tuple(fields)

    def _key(self) -> tuple[object, ...]:
        return self.fields

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.fields))}{',' if len(self.fields) == 1 else ''})"


class TypeKind(enum.IntEnum):
    """What a type variable stands for. Source: ``relay.TypeKind``."""

    Type = 0
    ShapeVar = 1
    BaseType = 2
    Shape = 3
    Constraint = 4
    AdtHandle = 5
    TypeData = 6


class TypeVar(Type):
    """A type parameter of a function or of algebraic data; identity makes it. Source: ``relay.TypeVar``."""

    __slots__ = ("kind", "name_hint")

    def __init__(self, var: str, kind: TypeKind = TypeKind.Type):
        self.name_hint, self.kind = str(var), TypeKind(kind)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __call__(self, *args: Type) -> TypeCall:
        """The application of this variable to *args*."""
        return TypeCall(self, args)

    def __repr__(self) -> str:
        return self.name_hint


class GlobalTypeVar(TypeVar):
    """The name of an algebraic data type in a module. Source: ``relay.GlobalTypeVar``."""

    __slots__ = ()

    def __init__(self, var: str, kind: TypeKind = TypeKind.AdtHandle):
        super().__init__(var, kind)


class TypeCall(Type):
    """``List[Tensor[(3), float32]]``: a data type applied to types. Source: ``relay.TypeCall``."""

    __slots__ = ("args", "func")

    def __init__(self, func: Type, args: Iterable[Type]):
        self.func, self.args = func, tuple(args)

    def _key(self) -> tuple[object, ...]:
        return (self.func, self.args)

    def __repr__(self) -> str:
        return f"{self.func!r}[{', '.join(map(repr, self.args))}]"


class IncompleteType(Type):
    """A type that inference is to find; identity makes it. Source: ``relay.IncompleteType``."""

    __slots__ = ("kind",)

    def __init__(self, kind: TypeKind = TypeKind.Type):
        self.kind = TypeKind(kind)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return "IncompleteType"


class TypeConstraint(Type):
    """The root of what restricts types without being the type of a value. Source: ``tvm.ir.TypeConstraint``."""

    __slots__ = ()


class TypeRelation(TypeConstraint):
    """*func* relates the types *args*, the first *num_inputs* of which are inputs. Source: ``relay.TypeRelation``."""

    __slots__ = ("args", "attrs", "func", "num_inputs")

    def __init__(self, func: object, args: Iterable[Type], num_inputs: int, attrs: object | None = None):
        self.func, self.args, self.num_inputs, self.attrs = func, tuple(args), int(num_inputs), attrs

    def _key(self) -> tuple[object, ...]:
        return (id(self.func), self.args, self.num_inputs, type(self.attrs), str(self.attrs))

    def __repr__(self) -> str:
        return f"TypeRelation({', '.join(map(repr, self.args))})"


class FuncType(Type):
    """``fn <T> (A, B) -> C``. Source: ``tvm.ir.FuncType``."""

    __slots__ = ("arg_types", "ret_type", "type_constraints", "type_params")

    def __init__(
        self,
        arg_types: Iterable[Type],
        ret_type: Type,
        type_params: Sequence[TypeVar] = (),
        type_constraints: Sequence[TypeConstraint] = (),
    ):
        self.arg_types = tuple(arg_types)
        self.ret_type = ret_type
        self.type_params = tuple(type_params or ())
        self.type_constraints = tuple(type_constraints or ())

    def _key(self) -> tuple[object, ...]:
        parts = (*self.arg_types, self.ret_type, *self.type_constraints)
        if self.type_params:
            bound: dict[Type, Type] = {
                var: _Bound(len(self.type_params), i, var.kind) for i, var in enumerate(self.type_params)
            }
            parts = tuple(substitute_types(part, bound) for part in parts)
        return (len(self.arg_types), len(self.type_params), parts)

    def __repr__(self) -> str:
        params = f"<{', '.join(map(repr, self.type_params))}> " if self.type_params else ""
        return f"fn {params}({', '.join(map(repr, self.arg_types))}) -> {self.ret_type!r}"


class _Bound(Type):
    """What stands for a bound type parameter while two function types are compared."""

    __slots__ = ("index", "kind", "of")

    def __init__(self, of: int, index: int, kind: TypeKind):
        self.of, self.index, self.kind = of, index, kind

    def _key(self) -> tuple[object, ...]:
        return (self.of, self.index, self.kind)

    def __repr__(self) -> str:
        return f"#{self.index}"


class RefType(Type):
    """The type of a mutable reference to a value. Source: ``relay.RefType``."""

    __slots__ = ("value",)

    def __init__(self, value: Type):
        self.value = value

    def _key(self) -> tuple[object, ...]:
        return (self.value,)

    def __repr__(self) -> str:
        return f"ref({self.value!r})"


def type_children(ty: Type) -> tuple[Type, ...]:
    """The types directly inside *ty*; type parameters of a function are not among them."""
    if isinstance(ty, TupleType):
        return ty.fields
    if isinstance(ty, FuncType):
        return (*ty.arg_types, ty.ret_type, *ty.type_constraints)
    if isinstance(ty, TypeCall):
        return (ty.func, *ty.args)
    if isinstance(ty, TypeRelation):
        return ty.args
    return (ty.value,) if isinstance(ty, RefType) else ()


def rebuild_type(ty: Type, new: Sequence[Type]) -> Type:
    """*ty* over other :func:`type_children`; *ty* itself where none differs."""
    if all(a is b for a, b in zip(type_children(ty), new, strict=True)):
        return ty
    if isinstance(ty, TupleType):
        return TupleType(new)
    if isinstance(ty, FuncType):
        count = len(ty.arg_types)
        return FuncType(new[:count], new[count], ty.type_params, new[count + 1 :])  # type: ignore[arg-type]
    if isinstance(ty, TypeCall):
        return TypeCall(new[0], new[1:])
    if isinstance(ty, TypeRelation):
        return TypeRelation(ty.func, new, ty.num_inputs, ty.attrs)
    return RefType(new[0])


def substitute_types(ty: Type, replacements: Mapping[Type, Type]) -> Type:
    """*ty* with each type variable or incomplete type of *replacements* replaced; nested as deep as the type is."""
    if ty in replacements:
        return replacements[ty]
    inner = type_children(ty)
    return rebuild_type(ty, [substitute_types(t, replacements) for t in inner]) if inner else ty


def contains_type(ty: Type, kind: type[Type] | tuple[type[Type], ...]) -> bool:
    """True when *ty* is a *kind* or has one inside."""
    stack = [ty]
    while stack:
        top = stack.pop()
        if isinstance(top, kind):
            return True
        stack.extend(type_children(top))
    return False


def tensor_types(ty: Type) -> tuple[TensorType, ...]:
    """The tensors in *ty*, tuples flattened, in order. Raises UserError for a function or a reference."""
    if isinstance(ty, TensorType):  # what nearly every type is
        return (ty,)
    flat: list[TensorType] = []
    stack = [ty]
    while stack:
        top = stack.pop()
        if isinstance(top, TensorType):
            flat.append(top)
        elif isinstance(top, TupleType):
            stack.extend(reversed(top.fields))
        else:
            raise UserError(f"{top!r} is not a tensor nor a tuple of tensors")
    return tuple(flat)


RelayRefType = RefType


@functools.lru_cache(maxsize=64)
def dtype_bits(dtype: str) -> int:
    """Bits of the value of one element, 1 of a bool; raises UserError for strings, which have no size.

    >>> dtype_bits("float32"), dtype_bits("int4"), dtype_bits("float8_e4m3fn")
    (32, 4, 8)
    """
    if dtype == "string":
        raise UserError("a string tensor has no element size")
    if dtype == "bool":
        return 1
    return BITS.get(dtype) or int("".join(c for c in dtype if c.isdigit()))


@functools.lru_cache(maxsize=64)
def dtype_bytes(dtype: str) -> int:
    """Bytes that one element takes in memory, at least 1; raises UserError for strings, which have no size."""
    return (dtype_bits(dtype) + 7) // 8
