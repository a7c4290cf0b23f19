"""Scalar expressions: how one element of a tensor is computed.

Meaning, node by node:

- ``Const``: a number of a dtype. ``Index``: the position along one axis of the element, or of a reduction.
- ``Size``: a dimension known only at run time, by its name; the same name is the same number everywhere.
- ``Binary``: ``add sub mul div mod min max`` and the comparisons and logic of :data:`BINARY`. On integers ``div``
  rounds toward minus infinity and ``mod`` takes the divisor's sign (Python's ``//`` and ``%``; for non-negative
  operands also C's).
- ``Intrinsic``: a function of :data:`INTRINSICS` on numbers. ``Cast``: conversion as C's (floats to ints truncate).
- ``Select``: *then* where *cond* holds, else *otherwise*; the other side is not evaluated, so it may guard a load.
- ``Checked``: an index counted from the end where it is negative, and moved to the nearest element where it is outside
  its dimension; that it was is an error of the whole run, under the name of the check.
- ``Load`` (``tensor.py``): the element of a tensor at integer indices, or, with a wider dtype, the *word* of several
  elements that begins there, as they lie in memory. ``Reduce``: the fold of *body* over every point of the axes.

Nodes are immutable and shared freely.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Union

from byoc.errors import InternalError
from byoc.ir.types import STORED, dtype_bytes

INDEX = "int64"
COMPARISONS = frozenset(["lt", "le", "gt", "ge", "eq", "ne"])
LOGIC = frozenset(["and", "or"])
BITS = frozenset(["bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"])
ARITHMETIC = frozenset(["add", "sub", "mul", "div", "mod", "min", "max"])
BINARY = COMPARISONS | LOGIC | BITS | ARITHMETIC

# functions on floats, beside ``abs`` (any number), ``not`` (bool), ``bit_not`` (ints), ``pow`` and ``fmod``, ``atan2``
INTRINSICS = frozenset(
    "exp exp2 log log2 log10 log1p expm1 sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "erf sigmoid floor ceil round trunc abs not bit_not isnan isinf isfinite pow fmod atan2 sign bits".split()
)
BOOL_INTRINSICS = frozenset(["not", "isnan", "isinf", "isfinite"])
# the floats of 16 bits and fewer: ``from_<dtype>(bits)`` is the number as a float32, ``to_<dtype>(x)`` are the bits of
# a float32 or a float64 that was rounded once
FROM_BITS = {f"from_{dtype}": "float32" for dtype in STORED if "float" in dtype}
TO_BITS = {f"to_{dtype}": stored for dtype, stored in STORED.items() if "float" in dtype}
# ``bits(x)``: the bits of *x* as an unsigned integer of its width; ``<dtype>_of_bits(n)``: what they are as that dtype
OF_BITS = {f"{dtype}_of_bits": dtype for dtype in ("float32", "float64", *STORED)}
# ``dot(a, b, sum)``: *sum* and the products of the numbers in two words, by the dtype of the sum
DOTS = {"dot_bf16": "float32", "dot_u8s8": "int32"}
_RESULTS = {**DOTS, **FROM_BITS, **TO_BITS, **OF_BITS}  # the dtypes of those whose name says it

Number = Union["PrimExpr", int, float, bool]


class PrimExpr:
    """The root of scalar expressions; every node has a dtype. Python's operators build more of them."""

    __slots__ = ("dtype",)
    dtype: str

    def __add__(self, other: Number) -> PrimExpr:
        return binary("add", self, other)

    def __radd__(self, other: Number) -> PrimExpr:
        return binary("add", other, self)

    def __sub__(self, other: Number) -> PrimExpr:
        return binary("sub", self, other)

    def __rsub__(self, other: Number) -> PrimExpr:
        return binary("sub", other, self)

    def __mul__(self, other: Number) -> PrimExpr:
        return binary("mul", self, other)

    def __rmul__(self, other: Number) -> PrimExpr:
        return binary("mul", other, self)

    def __truediv__(self, other: Number) -> PrimExpr:
        return binary("div", self, other)

    def __rtruediv__(self, other: Number) -> PrimExpr:
        return binary("div", other, self)

    def __floordiv__(self, other: Number) -> PrimExpr:
        return binary("div", self, other)

    def __mod__(self, other: Number) -> PrimExpr:
        return binary("mod", self, other)

    def __neg__(self) -> PrimExpr:
        return binary("sub", const(0, self.dtype), self)

    def __lt__(self, other: Number) -> PrimExpr:
        return binary("lt", self, other)

    def __le__(self, other: Number) -> PrimExpr:
        return binary("le", self, other)

    def __gt__(self, other: Number) -> PrimExpr:
        return binary("gt", self, other)

    def __ge__(self, other: Number) -> PrimExpr:
        return binary("ge", self, other)

    def __int__(self) -> int:
        raise TypeError(f"te: a {type(self).__name__} is no number before the program runs")

    def equal(self, other: Number) -> PrimExpr:
        return binary("eq", self, other)

    def astype(self, dtype: str) -> PrimExpr:
        return cast(dtype, self)


class Const(PrimExpr):
    """A number."""

    __slots__ = ("value",)

    def __init__(self, value: int | float | bool, dtype: str):
        self.value, self.dtype = value, dtype


class Index(PrimExpr):
    """The position along an axis that runs from 0 to *extent*; identity makes the axis."""

    __slots__ = ("extent", "name")

    def __init__(self, name: str, extent: Dimension):
        self.name, self.extent, self.dtype = name, extent, INDEX


class Size(PrimExpr):
    """A dimension known at run time; two of the same name are the same."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name, self.dtype = name, INDEX

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and other.name == self.name

    def __hash__(self) -> int:
        return hash(("Size", self.name))


Dimension = int | PrimExpr


class Binary(PrimExpr):
    """*op* of :data:`BINARY` on two operands of one dtype."""

    __slots__ = ("left", "op", "right")

    def __init__(self, op: str, left: PrimExpr, right: PrimExpr):
        if op not in BINARY:
            raise InternalError(f"te has no binary operation {op!r}")
        self.op, self.left, self.right = op, left, right
        self.dtype = "bool" if op in COMPARISONS or op in LOGIC else left.dtype


class Intrinsic(PrimExpr):
    """The function *name* of :data:`INTRINSICS` on *args*."""

    __slots__ = ("args", "name")

    def __init__(self, name: str, args: Sequence[PrimExpr]):
        if name not in INTRINSICS and name not in _RESULTS:
            raise InternalError(f"te has no intrinsic {name!r}")
        self.name, self.args = name, tuple(args)
        self.dtype = "bool" if name in BOOL_INTRINSICS else _RESULTS.get(name, self.args[0].dtype)
        if name == "bits":
            self.dtype = f"uint{8 * dtype_bytes(self.args[0].dtype)}"


class Cast(PrimExpr):
    """*value* converted to *dtype*."""

    __slots__ = ("value",)

    def __init__(self, dtype: str, value: PrimExpr):
        self.dtype, self.value = dtype, value


class Select(PrimExpr):
    """*then* where *cond* holds, else *otherwise*, evaluated lazily."""

    __slots__ = ("cond", "otherwise", "then")

    def __init__(self, cond: PrimExpr, then: PrimExpr, otherwise: PrimExpr):
        self.cond, self.then, self.otherwise, self.dtype = cond, then, otherwise, then.dtype


class Checked(PrimExpr):
    """*index* of the index dtype as a position below *extent*, a number or a size; *check* names it in an error."""

    __slots__ = ("check", "extent", "index")

    def __init__(self, index: PrimExpr, extent: PrimExpr, check: str):
        self.index, self.extent, self.check, self.dtype = index, extent, check, INDEX


class Reduce(PrimExpr):
    """The fold of *body* over all points of *axes* with ``sum prod min max any all``, or ``argmin argmax``.

    The arg-reductions give the int64 position along their single axis of the first least or greatest *body*. A NaN
    wins ``min`` and ``max``, as in numpy.
    """

    __slots__ = ("axes", "body", "kind")
    KINDS = frozenset(["sum", "prod", "min", "max", "any", "all", "argmin", "argmax"])

    def __init__(self, kind: str, body: PrimExpr, axes: Sequence[Index]):
        if kind not in self.KINDS:
            raise InternalError(f"te has no reduction {kind!r}")
        self.kind, self.body, self.axes = kind, body, tuple(axes)
        self.dtype = INDEX if kind.startswith("arg") else body.dtype


def const(value: int | float | bool, dtype: str) -> Const:
    """A constant of *dtype*."""
    return Const(value, dtype)


def as_expr(value: Number, dtype: str) -> PrimExpr:
    """*value* itself if it is an expression, else a constant of *dtype*."""
    return value if isinstance(value, PrimExpr) else Const(value, dtype)


def cast(dtype: str, value: PrimExpr) -> PrimExpr:
    """*value* as *dtype*; nothing where it is already."""
    return value if value.dtype == dtype else Cast(dtype, value)


def shared_dtype(left: Number, right: Number) -> str:
    """The dtype of the first that is no number of Python. Raises InternalError where both are."""
    if isinstance(left, PrimExpr):
        return left.dtype
    if isinstance(right, PrimExpr):
        return right.dtype
    raise InternalError(f"te: {left} and {right} are numbers of Python, one of them must be an expression")


def binary(op: str, left: Number, right: Number) -> PrimExpr:
    """*op* on two values; a Python number takes the other side's dtype, and int constants fold.

    Raises InternalError when the dtypes of two expressions differ.
    """
    dtype = shared_dtype(left, right)
    a, b = as_expr(left, dtype), as_expr(right, dtype)
    if a.dtype != b.dtype:
        raise InternalError(f"te: {op} of {a.dtype} and {b.dtype}: cast one of them")
    return _fold(op, a, b) or Binary(op, a, b)


_FOLD: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
}


def _fold(op: str, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """Index arithmetic without ``0 +`` and ``1 *``: only on the index dtype, whose numbers never overflow."""
    if a.dtype != INDEX:
        return None
    if isinstance(a, Const) and isinstance(b, Const) and op in _FOLD and not (op in ("div", "mod") and b.value == 0):
        return Const(_FOLD[op](a.value, b.value), INDEX)
    if isinstance(b, Const):
        if b.value == 0 and op in ("add", "sub"):
            return a
        if b.value == 1 and op in ("mul", "div"):
            return a
        if (b.value == 0 and op == "mul") or (b.value == 1 and op == "mod"):
            return Const(0, INDEX)
    if isinstance(a, Const):
        if a.value == 0 and op == "add":
            return b
        if a.value == 1 and op == "mul":
            return b
        if a.value == 0 and op == "mul":
            return a
    return None
