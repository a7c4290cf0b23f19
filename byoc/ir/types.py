"""Types: of tensors with static and dynamic dimensions, of tuples, functions and references.

Types are immutable and compare by structure. A dimension is a Python int, or :class:`Any` where it is known only at
run time. A *named* Any (``Any("batch")``) stands for one size wherever the name occurs, so that a free batch
dimension can flow through a graph and into generated code; an unnamed one says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from byoc.errors import UserError

DTYPES = frozenset(
    ["bool", "float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64"]
    + ["uint8", "uint16", "uint32", "uint64", "string"]
)


class Any:
    """A dimension known only at run time.

    Source: ``tvm.tir.Any``; names are ours. Every unnamed Any equals every other, as in Relay's structural equality.
    """

    __slots__ = ("name",)

    def __init__(self, name: str = ""):
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Any) and other.name == self.name

    def __hash__(self) -> int:
        return hash(("Any", self.name))

    def __repr__(self) -> str:
        return f"?{self.name}"


Dim = int | Any


class Type:
    """The root of all types."""

    __slots__ = ("_hash",)

    def _key(self) -> tuple[object, ...]:
        raise NotImplementedError

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
    """``Tensor[(1, 3, ?), float32]``: a shape and the dtype of each element."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Iterable[Dim], dtype: str = "float32"):
        self.shape = tuple(d if type(d) is int or isinstance(d, Any) else _checked_dim(d) for d in shape)
        self.dtype = str(dtype)
        if self.dtype not in DTYPES:
            raise UserError(f"unknown dtype {dtype!r}; known: {', '.join(sorted(DTYPES))}")
        if any(type(d) is int and d < 0 for d in self.shape):
            raise UserError(f"a shape has no negative dimension, got {self.shape}")

    def _key(self) -> tuple[object, ...]:
        return (self.shape, self.dtype)

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape as ints. Raises UserError when a dimension is dynamic."""
        if not self.is_static:
            raise UserError(f"{self} has a dynamic dimension where a static shape is needed")
        return self.shape  # type: ignore[return-value]

    @property
    def is_static(self) -> bool:
        """True when every dimension is a number."""
        return all(type(d) is int for d in self.shape)

    @property
    def is_symbolic(self) -> bool:
        """True when every dimension is a number or a named symbol, so that code can be generated for it."""
        return all(type(d) is int or d.name for d in self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        dims = ", ".join(map(repr, self.shape)) + ("," if len(self.shape) == 1 else "")
        return f"Tensor[({dims}), {self.dtype}]" if self.shape else self.dtype


def _checked_dim(dim: object) -> Dim:
    try:
        return int(dim)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise UserError(f"a dimension is an int or Any, got {dim!r}") from None


class TupleType(Type):
    """The type of a tuple: one type per field."""

    __slots__ = ("fields",)

    def __init__(self, fields: Iterable[Type]):
        self.fields = tuple(fields)

    def _key(self) -> tuple[object, ...]:
        return self.fields

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.fields))}{',' if len(self.fields) == 1 else ''})"


class FuncType(Type):
    """``fn (A, B) -> C``."""

    __slots__ = ("arg_types", "ret_type", "type_params")

    def __init__(self, arg_types: Iterable[Type], ret_type: Type, type_params: Sequence[Type] = ()):
        self.arg_types = tuple(arg_types)
        self.ret_type = ret_type
        self.type_params = tuple(type_params)

    def _key(self) -> tuple[object, ...]:
        return (self.arg_types, self.ret_type, self.type_params)

    def __repr__(self) -> str:
        return f"fn ({', '.join(map(repr, self.arg_types))}) -> {self.ret_type!r}"


class RefType(Type):
    """The type of a mutable reference to a value."""

    __slots__ = ("value",)

    def __init__(self, value: Type):
        self.value = value

    def _key(self) -> tuple[object, ...]:
        return (self.value,)

    def __repr__(self) -> str:
        return f"ref({self.value!r})"


def tensor_types(ty: Type) -> tuple[TensorType, ...]:
    """The tensors in *ty*, tuples flattened, in order. Raises UserError for a function or a reference."""
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


ITEM_BYTES = {"bool": 1, "bfloat16": 2}


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element; raises UserError for strings, which have no size."""
    if dtype == "string":
        raise UserError("a string tensor has no element size")
    return ITEM_BYTES.get(dtype) or int("".join(c for c in dtype if c.isdigit())) // 8
