"""Simplification of index arithmetic with bounds, so that emitted indices are short and conditions that hold vanish.

An index is a polynomial: integer coefficients over products of atoms, where an atom is an axis, a size, or an
expression that is not linear. ``(i * 8 + j) // 8`` is ``i`` where ``0 <= j < 8``; ``i // 8 * 8 + i % 8`` is ``i``.
Axes run from 0 to their extent; sizes are at least 0. Every result equals its source for all values in bounds.

Data of the index dtype are values like any others: their sums and products wrap. Modulo 2**64 these are polynomials
too, but a quotient, a remainder, an extremum or a comparison of them says nothing about their terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from byoc.codegen.kernel.polynomial import Monomial, Polynomial
from byoc.te import Dimension, Index, PrimExpr, Size, Tensor, binary, const
from byoc.te.expr import COMPARISONS, INDEX, Binary, Cast, Checked, Const, Select
from byoc.te.tensor import Load
from byoc.te.walk import _WITH_OPERANDS, operands, unique_nodes

Bounds = tuple[float, float]
ANY: Bounds = (-math.inf, math.inf)


class Simplifier:
    """Simplification under known ranges of some indices (beside their extents)."""

    def __init__(self) -> None:
        self._memo: dict[int, tuple[PrimExpr, PrimExpr]] = {}

    def __call__(self, expr: PrimExpr) -> PrimExpr:
        """*expr* simplified."""
        known = self._memo.get(id(expr))
        if known is not None:
            return known[1]
        result = self._simplify(expr)
        self._memo[id(expr)] = (expr, result)
        return result

    def _simplify(self, expr: PrimExpr) -> PrimExpr:
        if expr.dtype == INDEX and isinstance(expr, Binary) and expr.op in _POLYNOMIAL:
            return self.rebuild(self.polynomial(expr))
        if isinstance(expr, Binary) and expr.op in COMPARISONS and expr.left.dtype == INDEX:
            return self._comparison(expr)
        if isinstance(expr, Index) and is_one(expr.extent):
            return const(0, INDEX)
        whole = self._restored(expr) if isinstance(expr, Cast) else None
        if whole is not None:
            return self(whole)
        inner = operands(expr)
        if not inner:
            return expr
        new = [self(e) for e in inner]
        if isinstance(expr, Binary) and expr.op in ("and", "or"):
            return _logic(expr, *new)
        if isinstance(expr, Select) and isinstance(new[0], Const):
            return new[1] if new[0].value else new[2]
        if all(a is b for a, b in zip(inner, new, strict=True)):
            return expr
        return _WITH_OPERANDS[type(expr)](expr, new)

    def polynomial(self, expr: PrimExpr) -> Polynomial:
        """*expr*, of the index dtype, as a polynomial."""
        if isinstance(expr, Const):
            return Polynomial(int(expr.value))
        if isinstance(expr, Index):
            return Polynomial() if is_one(expr.extent) else Polynomial.of_atom(id(expr), expr)
        if isinstance(expr, Size):
            return Polynomial.of_atom(expr.name, expr)
        if isinstance(expr, Binary) and expr.op in _POLYNOMIAL:
            return _POLYNOMIAL[expr.op](self, self.polynomial(expr.left), self.polynomial(expr.right))
        simple = self(expr)
        if isinstance(expr, Cast) and not isinstance(simple, Cast):
            return self.polynomial(simple)
        return Polynomial.of_atom(id(simple), simple)

    def _restored(self, expr: Cast) -> PrimExpr | None:
        """The index that *expr* gives back, which a narrower integer held whole; None where it is no such cast."""
        inner = expr.value
        if expr.dtype != INDEX or not isinstance(inner, Cast) or inner.value.dtype != INDEX:
            return None
        if not inner.dtype.startswith("int"):
            return None
        low, high = self.bounds(inner.value)
        limit = 2.0 ** (int(inner.dtype[3:]) - 1)
        return inner.value if -limit <= low and high < limit else None

    def flat_index(self, tensor: Tensor, indices: Sequence[PrimExpr]) -> Polynomial:
        """The row-major position of ``tensor[indices]``."""
        flat = Polynomial()
        for index, extent in zip(indices, tensor.shape, strict=True):
            flat = flat.multiply(self.polynomial(as_index(extent))).add(self.polynomial(index))
        return _recombine(flat)

    def rebuild(self, poly: Polynomial) -> PrimExpr:
        """A polynomial as an expression: terms in order, constant last."""
        poly = _recombine(poly)
        result: PrimExpr | None = None
        terms = {monomial: _signed(c) for monomial, c in poly.terms.items()}
        for monomial, c in sorted(terms.items(), key=lambda item: item[1] < 0):
            product = poly.atoms[monomial[0]]
            for k in monomial[1:]:
                product = binary("mul", product, poly.atoms[k])
            result = binary("mul", product, c) if result is None else _plus(result, product, c)
        constant = _signed(poly.constant)
        if result is None:
            return const(constant, INDEX)
        return _plus(result, const(1, INDEX), constant)

    def bounds(self, expr: PrimExpr) -> Bounds:
        """The least and greatest value that *expr*, of the index dtype, can take."""
        return self.poly_bounds(self.polynomial(expr))

    def poly_bounds(self, poly: Polynomial) -> Bounds:
        low = high = float(poly.constant)
        for monomial, c in poly.terms.items():
            term = (float(c), float(c))
            for k in monomial:
                term = _product(term, self._atom_bounds(poly.atoms[k]))
            low, high = low + term[0], high + term[1]
        return low, high

    def _atom_bounds(self, atom: PrimExpr) -> Bounds:
        if isinstance(atom, Index):
            extent = self.bounds(as_index(atom.extent))[1]
            return 0.0, max(extent - 1, 0.0)
        if isinstance(atom, Size):
            return 0.0, math.inf
        if isinstance(atom, Binary) and atom.op in _ATOM_BOUNDS:
            return _ATOM_BOUNDS[atom.op](self.bounds(atom.left), self.bounds(atom.right))
        if isinstance(atom, Select):
            a, b = self.bounds(atom.then), self.bounds(atom.otherwise)
            return min(a[0], b[0]), max(a[1], b[1])
        if isinstance(atom, Checked):
            return 0.0, max(self.bounds(atom.extent)[1] - 1, 0.0)
        if isinstance(atom, Cast) and atom.value.dtype == "bool":
            return 0.0, 1.0
        return ANY

    def _comparison(self, expr: Binary) -> PrimExpr:
        left, right = self.polynomial(expr.left), self.polynomial(expr.right)
        low, high = ANY if self._may_wrap(left, right) else self.poly_bounds(left.add(right, -1))
        verdict = _VERDICTS[expr.op](low, high)
        if verdict is not None:
            return const(verdict, "bool")
        return Binary(expr.op, self.rebuild(left), self.rebuild(right))

    def divide(self, left: Polynomial, right: Polynomial) -> Polynomial:
        """``floor(left / right)``."""
        left = _recombine(left)
        if self._may_wrap(left, right):
            return self._opaque("div", left, right)
        if not right.terms and right.constant > 0:
            quotient, rest = left.split(right.constant)
            low, high = self.poly_bounds(rest)
            if low >= 0 and high < right.constant:
                return quotient
            shared = math.gcd(right.constant, *rest.terms.values())
            if shared > 1:
                coarse, fine = rest.split(shared)
                assert not fine.terms
                rest, divisor = coarse, right.constant // shared
                return quotient.add(self._opaque("div", rest, Polynomial(divisor)))
            return quotient.add(self._divide_rest(rest, right.constant))
        exact = _divided_by_size(left, right)
        if exact is not None and self._below(exact[1], right):
            return exact[0]
        return self._opaque("div", left, right)

    def _divide_rest(self, rest: Polynomial, divisor: int) -> Polynomial:
        """Merge ``(g*a + b) // (g*k)`` into ``a // k`` where ``0 <= b < g``."""
        for g in sorted({abs(c) for c in rest.terms.values()}, reverse=True):
            if g > 1 and divisor % g == 0:
                coarse, fine = rest.split(g)
                low, high = self.poly_bounds(fine)
                if low >= 0 and high < g:
                    return self.divide(coarse, Polynomial(divisor // g))
        nested = rest.atoms[next(iter(rest.terms))[0]] if rest.single_term() else None
        if isinstance(nested, Binary) and nested.op == "div" and isinstance(nested.right, Const):
            inner = int(nested.right.value)
            if inner > 0:
                return self.divide(self.polynomial(nested.left), Polynomial(inner * divisor))
        return self._opaque("div", rest, Polynomial(divisor))

    def modulo(self, left: Polynomial, right: Polynomial) -> Polynomial:
        """``left mod right``, of the divisor's sign."""
        left = _recombine(left)
        if self._may_wrap(left, right):
            return self._opaque("mod", left, right)
        if not right.terms and right.constant > 0:
            rest = left.split(right.constant)[1]
            low, high = self.poly_bounds(rest)
            if low >= 0 and high < right.constant:
                return rest
            return self._opaque("mod", rest, right)
        exact = _divided_by_size(left, right)
        if exact is not None and self._below(exact[1], right):
            return exact[1]
        return self._opaque("mod", left, right)

    def _below(self, value: Polynomial, size: Polynomial) -> bool:
        """True where ``0 <= value < size`` for a *size* that is one product, as of a place within some extents.

        The place is read like a number's digits: ``i*n*4 + j*4 + k`` is below ``8*n*4``, where ``i < 8``, ``j < n`` and
        ``k < 4``.
        """
        rest, bound = value, size
        while bound.terms and rest.terms:
            found = next((d for m in rest.terms if (d := self._digit(rest, m, bound)) is not None), None)
            if found is None:
                return False
            rest, bound = found
        low, high = self.poly_bounds(rest)
        return low >= 0 and (high < bound.constant if not bound.terms else high == 0)

    def _digit(self, value: Polynomial, monomial: Monomial, bound: Polynomial) -> tuple[Polynomial, Polynomial] | None:
        """*value* without its leading digit, and what is now to be its bound, where *monomial* is that digit."""
        axes = [(k, atom) for k in monomial if isinstance(atom := value.atoms[k], Index)]
        if len(axes) != 1 or value.terms[monomial] <= 0:
            return None
        ((key, axis),) = axes
        weight = Polynomial.of_product([k for k in monomial if k != key], value.terms[monomial], value.atoms)
        span = weight.multiply(self.polynomial(as_index(axis.extent)))
        if span.constant or bound.constant or span.terms.keys() != bound.terms.keys() or len(span.terms) != 1:
            return None
        if next(iter(span.terms.values())) > next(iter(bound.terms.values())):
            return None
        return value.without_term(monomial), weight

    def extremum(self, op: str, left: Polynomial, right: Polynomial) -> Polynomial:
        if self._may_wrap(left, right):
            return self._opaque(op, left, right)
        low, high = self.poly_bounds(left.add(right, -1))
        if high <= 0:
            return left if op == "min" else right
        if low >= 0:
            return right if op == "min" else left
        return self._opaque(op, left, right)

    def _may_wrap(self, *polynomials: Polynomial) -> bool:
        """True where data stand in one of *polynomials* that may be any number of their type."""
        atoms = (poly.atoms[k] for poly in polynomials for monomial in poly.terms for k in monomial)
        return any(self._is_data(atom) for atom in atoms)

    def _is_data(self, atom: PrimExpr) -> bool:
        if isinstance(atom, Index | Size):
            return False
        return self._atom_bounds(atom) == ANY and any(isinstance(n, Load) for n in unique_nodes(atom))

    def _opaque(self, op: str, left: Polynomial, right: Polynomial) -> Polynomial:
        atom = binary(op, self.rebuild(left), self.rebuild(right))
        if isinstance(atom, Const):
            return Polynomial(int(atom.value))
        return Polynomial.of_atom((op, left.key(), right.key()), atom)


def is_one(extent: Dimension) -> bool:
    """True for the extent 1: such an axis is at 0 and needs no loop."""
    return extent == 1 or (isinstance(extent, Const) and extent.value == 1)


def as_index(value: Dimension) -> PrimExpr:
    """A dimension as an expression of the index dtype."""
    return value if isinstance(value, PrimExpr) else const(value, INDEX)


def _plus(result: PrimExpr, product: PrimExpr, factor: int) -> PrimExpr:
    """``result + factor * product``, as a difference where that has a smaller number."""
    if -(2**63) < factor < 0:
        return binary("sub", result, binary("mul", product, -factor))
    return binary("add", result, binary("mul", product, factor))


def _signed(number: int) -> int:
    """*number* as 64 bits with a sign hold it."""
    return (number + 2**63) % 2**64 - 2**63


def _recombine(poly: Polynomial) -> Polynomial:
    """``c*n*(x div n) + c*(x mod n)`` as ``c*x``."""
    for monomial, c in poly.terms.items():
        for position, k in enumerate(monomial):
            atom = poly.atoms[k]
            if not (isinstance(atom, Binary) and atom.op == "mod" and isinstance(atom.right, Const)):
                continue
            divisor = int(atom.right.value)
            if divisor <= 0 or not any(t == c * divisor for t in poly.terms.values()):
                continue
            factor = Polynomial(0 if len(monomial) > 1 else c)
            factor.atoms = poly.atoms
            if len(monomial) > 1:
                factor.terms = {(*monomial[:position], *monomial[position + 1 :]): c}
            simplify = Simplifier()
            whole = simplify.polynomial(atom.left)
            quotient = simplify.divide(whole, Polynomial(divisor))
            rest = simplify.modulo(whole, Polynomial(divisor))
            # x == n * (x div n) + x mod n, so this is equal whatever it looks like
            other = poly.add(factor.multiply(rest), -1).add(factor.multiply(quotient), -divisor)
            other = other.add(factor.multiply(whole))
            if _opaque_count(other) < _opaque_count(poly):
                return _recombine(other)
    return poly


def _opaque_count(poly: Polynomial) -> int:
    return sum(not isinstance(poly.atoms[k], Index | Size) for m in poly.terms for k in m)


def _divided_by_size(left: Polynomial, right: Polynomial) -> tuple[Polynomial, Polynomial] | None:
    """``(q, r)`` with ``left == q * right + r`` for a *right* that is one product of sizes, else None."""
    if len(right.terms) != 1 or right.constant:
        return None
    ((divisor, factor),) = right.terms.items()
    quotient, rest = Polynomial(), Polynomial(left.constant)
    quotient.atoms = rest.atoms = {**left.atoms, **right.atoms}
    for monomial, c in left.terms.items():
        remaining = list(monomial)
        fits = c % factor == 0
        for k in divisor:
            if k in remaining:
                remaining.remove(k)
            else:
                fits = False
        if not fits:
            rest.terms[monomial] = c
        elif remaining:
            quotient.terms[tuple(remaining)] = c // factor
        else:
            quotient.constant += c // factor
    return quotient, rest


def _logic(expr: Binary, left: PrimExpr, right: PrimExpr) -> PrimExpr:
    absorbing = expr.op == "or"
    for a, b in ((left, right), (right, left)):
        if isinstance(a, Const):
            return a if bool(a.value) == absorbing else b
    return Binary(expr.op, left, right)


def _product(a: Bounds, b: Bounds) -> Bounds:
    corners = [0.0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(corners), max(corners)


def _div_bounds(a: Bounds, b: Bounds) -> Bounds:
    if b[0] <= 0 or b[0] != b[1]:
        return (0.0, a[1]) if a[0] >= 0 and b[0] >= 0 else ANY
    return _floor(a[0], b[0]), _floor(a[1], b[0])


def _floor(bound: float, by: float) -> float:
    return bound if math.isinf(bound) else float(bound // by)


def _mod_bounds(a: Bounds, b: Bounds) -> Bounds:
    return (0.0, b[1] - 1) if b[0] > 0 or (b[0] >= 0 and b[1] == math.inf) else ANY


_ATOM_BOUNDS: dict[str, Callable[[Bounds, Bounds], Bounds]] = {
    "div": _div_bounds,
    "mod": _mod_bounds,
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "bit_xor": lambda a, b: (0.0, a[1] + b[1]) if min(*a, *b) >= 0 else ANY,  # without the bits that both have
}


def _verdict(always: bool, never: bool) -> bool | None:
    return True if always else False if never else None


# of the bounds of left - right
_VERDICTS: dict[str, Callable[[float, float], bool | None]] = {
    "lt": lambda low, high: _verdict(high < 0, low >= 0),
    "le": lambda low, high: _verdict(high <= 0, low > 0),
    "gt": lambda low, high: _verdict(low > 0, high <= 0),
    "ge": lambda low, high: _verdict(low >= 0, high < 0),
    "eq": lambda low, high: _verdict(low == high == 0, low > 0 or high < 0),
    "ne": lambda low, high: _verdict(low > 0 or high < 0, low == high == 0),
}
_POLYNOMIAL: dict[str, Callable[[Simplifier, Polynomial, Polynomial], Polynomial]] = {
    "add": lambda s, a, b: a.add(b),
    "sub": lambda s, a, b: a.add(b, -1),
    "mul": lambda s, a, b: a.multiply(b),
    "div": Simplifier.divide,
    "mod": Simplifier.modulo,
    "min": lambda s, a, b: s.extremum("min", a, b),
    "max": lambda s, a, b: s.extremum("max", a, b),
}


def same_size(left: Dimension, right: Dimension) -> bool:
    """Whether two extents are the same, whatever the free sizes are."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    simplify = Simplifier()
    return simplify.polynomial(as_index(left)).key() == simplify.polynomial(as_index(right)).key()
