"""Tensors by definition: a placeholder, or a computation of each element from others.

``compute((n, m), lambda i, j: a[i, j] + 1.0)`` says what one element is; nothing here says in what order elements are
computed, which is the schedule's matter (``byoc.codegen.kernel``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byoc.errors import InternalError
from byoc.ir.types import Any, TensorType
from byoc.te.expr import (
    INDEX,
    Const,
    Dimension,
    Index,
    Intrinsic,
    Number,
    PrimExpr,
    Reduce,
    Select,
    Size,
    as_expr,
    binary,
    const,
    shared_dtype,
)


class Tensor:
    """A tensor: ``shape`` (ints or sizes), ``dtype``, and for a computed one its ``axes`` and ``body``.

    ``tag`` names the kind of computation (``conv2d``, ``matmul``, ``pad``, …) for schedules that know it, and
    ``meta`` gives that schedule's parameters. ``known`` is a placeholder's array where it is a constant: what is in it
    may decide how others are computed.
    """

    __slots__ = ("axes", "body", "dtype", "known", "meta", "name", "shape", "tag")

    def __init__(
        self,
        name: str,
        shape: Sequence[Dimension],
        dtype: str,
        axes: Sequence[Index] = (),
        body: PrimExpr | None = None,
        tag: str = "",
        meta: dict[str, object] | None = None,
        known: np.ndarray | None = None,
    ):
        self.known = known
        self.name, self.shape, self.dtype = name, tuple(shape), dtype
        self.axes, self.body, self.tag, self.meta = tuple(axes), body, tag, dict(meta or {})

    @property
    def element(self) -> PrimExpr:
        """The body of a computed tensor. Raises InternalError for a placeholder."""
        if self.body is None:
            raise InternalError(f"te: {self.name} is an input: nothing says how its elements are computed")
        return self.body

    @property
    def is_finite(self) -> bool:
        """True where no element can be an infinity or a NaN: integers, and constants that hold none."""
        if self.known is None:
            return not self.dtype.startswith(("float", "bfloat"))
        return bool(np.isfinite(self.known).all())

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, indices: Number | tuple[Number, ...]) -> Load:
        index_tuple = indices if isinstance(indices, tuple) else (indices,)
        return Load(self, [as_expr(i, INDEX) for i in index_tuple])

    def __call__(self, *indices: Number) -> Load:
        return self[tuple(indices)]

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(_dim_text(d) for d in self.shape)}]"


class Load(PrimExpr):
    """The element of *tensor* at *indices*, one per dimension; as *dtype*, the word that begins there."""

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: Sequence[PrimExpr], dtype: str | None = None):
        self.tensor, self.indices, self.dtype = tensor, tuple(indices), dtype or tensor.dtype
        if len(self.indices) != len(tensor.shape):
            raise InternalError(f"{tensor.name} has {len(tensor.shape)} dimensions, indexed with {len(self.indices)}")

    @property
    def is_word(self) -> bool:
        """Whether it takes several elements at once, or an element's bits as they are."""
        return self.dtype != self.tensor.dtype

    def of(self, tensor: Tensor, indices: Sequence[PrimExpr]) -> Load:
        """The same kind of load of another place: a word stays one."""
        return Load(tensor, indices, self.dtype if self.is_word else None)


def _dim_text(dim: Dimension) -> str:
    return dim.name if isinstance(dim, Size) else str(dim) if isinstance(dim, int) else "<expr>"


def dimension(dim: int | Any) -> Dimension:
    """A dimension of a type as a te size. Raises InternalError for an unnamed dynamic one."""
    if not isinstance(dim, Any):
        return dim
    if not dim.name:
        raise InternalError("no code can be generated for an unnamed dynamic dimension")
    return Size(dim.name)


def shape_of(ty: TensorType) -> tuple[Dimension, ...]:
    """The shape of a tensor type as te sizes."""
    return tuple(dimension(d) for d in ty.shape)


def placeholder(
    shape: Sequence[Dimension], dtype: str = "float32", name: str = "placeholder", known: np.ndarray | None = None
) -> Tensor:
    """An input, or a constant whose array is *known*. Source: ``tvm.te.placeholder``."""
    return Tensor(name, shape, dtype, known=known)


def compute(
    shape: Sequence[Dimension],
    fcompute: Callable[..., Number],
    name: str = "compute",
    tag: str = "",
    meta: dict[str, object] | None = None,
) -> Tensor:
    """The tensor whose element at ``(i, j, …)`` is ``fcompute(i, j, …)``. Source: ``tvm.te.compute``.

    >>> a = placeholder((4,), name="a")
    >>> compute((4,), lambda i: a[i] * 2.0).dtype
    'float32'
    """
    axes = [Index(f"i{k}", extent) for k, extent in enumerate(shape)]
    body = fcompute(*axes)
    if not isinstance(body, PrimExpr):
        raise InternalError(f"te: the element of {name} must be an expression, got {body!r}")
    return Tensor(name, shape, body.dtype, axes, body, tag, meta)


def reduce_axis(extent: Dimension, name: str = "r") -> Index:
    """An axis to reduce over, from 0 to *extent*. Source: ``tvm.te.reduce_axis``."""
    return Index(name, extent)


def _reduction(kind: str) -> Callable[[PrimExpr, Index | Sequence[Index]], PrimExpr]:
    def reduce(body: PrimExpr, axis: Index | Sequence[Index]) -> PrimExpr:
        return Reduce(kind, body, [axis] if isinstance(axis, Index) else axis)

    reduce.__name__ = kind
    reduce.__doc__ = f"``{kind}`` of *body* over *axis*, one reduce axis or several."
    return reduce


sum = _reduction("sum")
prod = _reduction("prod")
max = _reduction("max")
min = _reduction("min")
any = _reduction("any")
all = _reduction("all")
argmax = _reduction("argmax")
argmin = _reduction("argmin")


def _intrinsic(name: str) -> Callable[..., PrimExpr]:
    def call(*args: PrimExpr) -> PrimExpr:
        return Intrinsic(name, args)

    call.__name__ = name
    call.__doc__ = f"The intrinsic ``{name}``."
    return call


exp, exp2, log, log2, log10 = (_intrinsic(n) for n in ("exp", "exp2", "log", "log2", "log10"))
log1p, expm1, sqrt, rsqrt = (_intrinsic(n) for n in ("log1p", "expm1", "sqrt", "rsqrt"))
sin, cos, tan, asin, acos, atan = (_intrinsic(n) for n in ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh = (_intrinsic(n) for n in ("sinh", "cosh", "tanh"))
asinh, acosh, atanh = (_intrinsic(n) for n in ("asinh", "acosh", "atanh"))
erf, sigmoid, floor, ceil, round, trunc = (_intrinsic(n) for n in ("erf", "sigmoid", "floor", "ceil", "round", "trunc"))
abs, sign, power, fmod, atan2 = (_intrinsic(n) for n in ("abs", "sign", "pow", "fmod", "atan2"))
isnan, isinf, isfinite, logical_not, bitwise_not = (
    _intrinsic(n) for n in ("isnan", "isinf", "isfinite", "not", "bit_not")
)


def bits(value: PrimExpr) -> PrimExpr:
    """The bits of *value* as an unsigned integer of its width."""
    return Intrinsic("bits", [value])


def of_bits(dtype: str, value: PrimExpr) -> PrimExpr:
    """What the bits of the unsigned integer *value* are as a *dtype*, one of ``OF_BITS``."""
    return Intrinsic(f"{dtype}_of_bits", [value])


def maximum(a: Number, b: Number) -> PrimExpr:
    """The larger of two; a NaN wins."""
    return binary("max", a, b)


def minimum(a: Number, b: Number) -> PrimExpr:
    """The smaller of two; a NaN wins."""
    return binary("min", a, b)


def if_then_else(cond: PrimExpr, then: Number, otherwise: Number) -> PrimExpr:
    """*then* where *cond* holds, else *otherwise*; only the chosen side is evaluated."""
    dtype = shared_dtype(then, otherwise)
    a, b = as_expr(then, dtype), as_expr(otherwise, dtype)
    if isinstance(cond, Const):
        return a if cond.value else b
    return Select(cond, a, b)


def all_of(*conditions: PrimExpr) -> PrimExpr:
    """The conjunction of conditions; true when there are none."""
    kept = [c for c in conditions if not (isinstance(c, Const) and c.value)]
    if not kept:
        return const(True, "bool")
    result = kept[0]
    for c in kept[1:]:
        result = binary("and", result, c)
    return result
