"""Sizes as variables, as shapes are written with in TVM: a dimension with a name and a dtype, and arithmetic on it.

What arithmetic on variables gives is a dimension without a name, so that no code is generated for it; it knows how it
was computed, and is equal to what was computed alike. What type relations compute of other named sizes has a name
(:func:`derived`). Sums, differences and products are kept as polynomials, so that ``(n * 2) * 3``
is ``n * 6`` whatever the order; everything else (:func:`size_of`) is equal where operator and operands are.
Source: ``tvm.tir.Var``, ``tvm.tir.SizeVar``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeGuard

from byoc.ir.attrs import AttrObject
from byoc.ir.dims import Any, Dim, dimension
from byoc.runtime.core.derived_size import SizePolynomial, extreme, name_of, polynomial, quotient
from byoc.runtime.core.derived_size import broadcast as size_of_both
from byoc.runtime.core.derived_size import truncated as toward_zero
from byoc.runtime.core.derived_size import windowed as at_least_once
from byoc.runtime.core.size_forms import exact_quotient, folded

# factors (the same one may stand twice) -> how often their product is counted
Terms = Mapping[tuple["SizeExpr", ...], int]


class SizeExpr(Any, AttrObject):
    """A size that is computed from others when the program runs. Source: ``tvm.tir.PrimExpr``.

    *key* says what it is: the terms of a polynomial, or an operator with its operands. Without one nothing is known.
    """

    __slots__ = ("key",)

    def __init__(self, key: object = None, name: str = ""):
        super().__init__(name)
        self.key = key

    def __eq__(self, other: object) -> bool:
        if self.name or not isinstance(other, SizeExpr):
            return super().__eq__(other) and (bool(self.name) or self.key is None)
        return not other.name and self.key == other.key

    def __hash__(self) -> int:
        return Any.__hash__(self) if self.name or self.key is None else hash(("Any", self.key))

    def __add__(self, other: object) -> Dim:
        return _polynomial(self, other, lambda a, b: _sum(a, b, 1))

    def __sub__(self, other: object) -> Dim:
        return _polynomial(self, other, lambda a, b: _sum(a, b, -1))

    def __rsub__(self, other: object) -> Dim:
        return _polynomial(self, other, lambda a, b: _sum(b, a, -1))

    def __mul__(self, other: object) -> Dim:
        return size_of("mul", self, other) if isinstance(other, float) else _polynomial(self, other, _product)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Dim:
        return self * -1

    def __floordiv__(self, other: object) -> Any:
        return self if other == 1 else size_of("floordiv", self, other)

    def __rfloordiv__(self, other: object) -> Any:
        return size_of("floordiv", other, self)

    def __mod__(self, other: object) -> Any:
        return size_of("floormod", self, other)

    def __rmod__(self, other: object) -> Any:
        return size_of("floormod", other, self)

    __truediv__, __rtruediv__ = __floordiv__, __rfloordiv__


class Var(SizeExpr):
    """A size with a name: one size wherever the name occurs. Source: ``tvm.tir.Var``."""

    __slots__ = ("dtype", "span")

    def __init__(self, name: str, dtype: str = "int32", span: object | None = None):
        super().__init__(name=str(name))
        self.dtype, self.span = str(dtype), span


class SizeVar(Var):
    """A size that is not negative. Source: ``tvm.tir.SizeVar``."""

    __slots__ = ()


def size_of(operator: str, *operands: object) -> Any:
    """What *operator* gives of sizes and numbers; unknown where an operand is of no known origin."""
    unknown = any(isinstance(o, Any) and not isinstance(o, SizeExpr) for o in operands)
    return SizeExpr() if unknown else SizeExpr((operator, *operands))


def _terms(value: object) -> Terms | None:
    """*value* as a polynomial; None for a size of unknown origin."""
    if isinstance(value, int):
        return {(): int(value)} if value else {}
    if not isinstance(value, SizeExpr) or (not value.name and value.key is None):
        return None
    if not value.name and isinstance(value.key, frozenset):
        return dict(value.key)
    return {(value,): 1}


def _polynomial(a: object, b: object, combine: Callable[[Terms, Terms], Terms]) -> Dim:
    if not isinstance(a, (int, Any)) or not isinstance(b, (int, Any)):
        return NotImplemented  # type: ignore[no-any-return]
    left, right = _terms(a), _terms(b)
    if left is None or right is None:
        return SizeExpr()
    terms = {factors: count for factors, count in combine(left, right).items() if count}
    if set(terms) <= {()}:
        return dimension(terms.get((), 0))
    if len(terms) == 1:
        ((factors, count),) = terms.items()
        if count == 1 and len(factors) == 1:
            return factors[0]
    return SizeExpr(frozenset(terms.items()))


def _sum(a: Terms, b: Terms, sign: int) -> dict[tuple[SizeExpr, ...], int]:
    return {key: a.get(key, 0) + sign * b.get(key, 0) for key in (*a, *b)}


def _product(a: Terms, b: Terms) -> dict[tuple[SizeExpr, ...], int]:
    result: dict[tuple[SizeExpr, ...], int] = {}
    for one, m in a.items():
        for two, n in b.items():
            factors = tuple(sorted((*one, *two), key=lambda size: (size.name, hash(size))))
            result[factors] = result.get(factors, 0) + m * n
    return result


def plus(a: Dim, b: Dim) -> Dim:
    """The sum of two sizes, as type relations give it: a number, a size that follows from named ones, or unknown."""
    if _is_computable(a) and _is_computable(b):
        return a + b
    return derived(lambda x, y: x + y, a, b)


def minus(a: Dim, b: Dim) -> Dim:
    """The difference of two sizes; see :func:`plus`."""
    if _is_computable(a) and _is_computable(b):
        return a - b
    return derived(lambda x, y: x + -y, a, b)


def times(a: Dim, b: Dim) -> Dim:
    """The product of two sizes; see :func:`plus`."""
    if _is_computable(a) and _is_computable(b):
        return a * b
    return derived(lambda x, y: x * y, a, b)


def parted(a: Dim, b: int) -> Dim:
    """The quotient of two sizes, rounded down; see :func:`plus`."""
    if _is_computable(a):
        return a // b
    return derived(lambda x: quotient(x, b), a) if b > 0 else Any()


def truncated(a: Dim, b: Dim) -> Dim:
    """The quotient of two sizes, rounded towards 0; see :func:`plus`. Of two names it is known where it is whole."""
    if _is_computable(a) and _is_computable(b):
        return size_of("truncdiv", a, b)
    if isinstance(b, Any):
        whole = None if not a or not b.name else exact_quotient(_of_dim(a), _of_dim(b))
        return Any() if whole is None else derived(lambda: whole)
    return derived(lambda x: toward_zero(x, b), a) if b > 0 else Any()


def lesser(a: Dim, b: Dim) -> Dim:
    """The smaller of two sizes; see :func:`plus`."""
    return _extreme("min", a, b)


def greater(a: Dim, b: Dim) -> Dim:
    """The larger of two sizes; see :func:`plus`."""
    return _extreme("max", a, b)


def _extreme(function: str, a: Dim, b: Dim) -> Dim:
    if any(isinstance(size, SizeExpr) and not size.name for size in (a, b)):
        return a if a == b else size_of(function, a, b)
    return derived(lambda x, y: extreme(function, x, y), a, b)


def broadcast(a: Dim, b: Dim) -> Dim:
    """The size of two axes that are broadcast together; see :func:`plus`."""
    return derived(size_of_both, a, b)


def windowed(size: Dim) -> Dim:
    """How often a window fits, which is at least once, or the inputs are refused; see :func:`plus`."""
    return size if isinstance(size, (int, SizeExpr)) else derived(at_least_once, size)


def derived(combine: Callable[..., SizePolynomial], *sizes: Dim) -> Dim:
    """What *combine* makes of sizes as polynomials, as a dimension; unknown where one of them has no name.

    Source: :mod:`byoc.runtime.core.derived_size`.
    """
    if any(isinstance(size, Any) and not size.name for size in sizes):
        return Any()
    found = combine(*map(_of_dim, sizes))
    found = folded(found)
    return Any(name_of(found)) if found.number is None else dimension(found.number)


def _of_dim(size: Dim) -> SizePolynomial:
    return polynomial(size.name if isinstance(size, Any) else int(size))


def _is_computable(size: Dim) -> TypeGuard[int | SizeExpr]:
    return isinstance(size, (int, SizeExpr))
