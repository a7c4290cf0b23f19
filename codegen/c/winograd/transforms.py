"""The matrices of F(m, 3) and the linear forms that they stand for, in few operations.

``Y = A^T [(G g G^T) * (B^T d B)] A`` gives *m* x *m* outputs of a 3 x 3 convolution from ``m + 2`` squared products.
The matrices follow from the points at which polynomials are evaluated, one of them infinity. Their choice decides the
error: 0, +-3/4, +-3/2 for F(4, 3) keep the entries of one size and are exact in binary; the usual 0, +-1, +-2 give an
error four times as large. Points in pairs of one magnitude share half of their sums.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016, section 4; Barabasz, Anderson,
Soodhalter and Gregg, Error Analysis and Improving the Accuracy of Winograd Convolution, 2020, on points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from byoc.te import PrimExpr, const

KERNEL = 3
Matrix = tuple[tuple[Fraction, ...], ...]
_POINTS = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2)),
}
OUTPUTS = tuple(_POINTS)  # the m of each F(m, 3) that there is


class TileGrid:
    """Tiles of *outputs* x *outputs* results each over images of *height* x *width* results; a plan has such fields."""

    outputs: int
    height: int
    width: int

    @property
    def size(self) -> int:
        """The inputs along one side of a tile."""
        return self.outputs + KERNEL - 1

    @property
    def points(self) -> int:
        """The products of one tile."""
        return self.size * self.size

    @property
    def down(self) -> int:
        """The tiles from the top to the bottom of an image."""
        return -(-self.height // self.outputs)

    @property
    def across(self) -> int:
        """The tiles from its left to its right."""
        return -(-self.width // self.outputs)


@dataclass(frozen=True)
class Transforms:
    """``outputs`` of one dimension, and the matrices A^T [m, m + 2], G [m + 2, 3] and B^T [m + 2, m + 2]."""

    outputs: int
    inverse: Matrix
    kernel: Matrix
    input: Matrix

    @property
    def size(self) -> int:
        """The products of one dimension, and the inputs that a tile reads."""
        return self.outputs + KERNEL - 1


@cache
def transforms(outputs: int) -> Transforms:
    """The matrices of F(*outputs*, 3): Lagrange's interpolation at the points, with B^T monic."""
    points = _POINTS[outputs]
    inverse = tuple((*(p**r for p in points), Fraction(int(r == outputs - 1))) for r in range(outputs))
    kernel, rows = [], []
    for k, p in enumerate(points):
        others = points[:k] + points[k + 1 :]
        scale = Fraction(1)
        for q in others:
            scale *= p - q
        kernel.append(tuple(p**r / scale for r in range(KERNEL)))
        rows.append((*_monic(others), Fraction(0)))
    kernel.append((Fraction(0),) * (KERNEL - 1) + (Fraction(1),))
    rows.append(_monic(points))
    return Transforms(outputs, inverse, tuple(kernel), tuple(rows))


def _monic(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """The coefficients of the product of ``x - root``, the lowest power first."""
    result = [Fraction(1)]
    for root in roots:
        result = [a - root * b for a, b in zip([Fraction(0), *result], [*result, Fraction(0)], strict=True)]
    return tuple(result)


Keep = Callable[[PrimExpr], PrimExpr]


def linear_forms(matrix: Matrix, values: Sequence[PrimExpr], keep: Keep) -> list[PrimExpr]:
    """``matrix @ values``; *keep* gives the variable for a sum that several results use.

    Rows that differ in the signs of some columns only, ``e + o`` and ``e - o``, share ``e`` and ``o``; columns that
    differ in the signs of some rows only share the sum and the difference of their values.
    """
    columns = _pairs(tuple(zip(*matrix, strict=True)))
    if columns:
        return _by_columns(matrix, values, columns, keep)
    result: list[PrimExpr | None] = [None] * len(matrix)
    for a, b in _pairs(matrix):
        same = [Fraction(0) if x != y else x for x, y in zip(matrix[a], matrix[b], strict=True)]
        other = [Fraction(0) if x == y else x for x, y in zip(matrix[a], matrix[b], strict=True)]
        factor = next(x for x in reversed(other) if x)
        even = keep(_form(same, values))
        odd = keep(_form([x / factor for x in other], values))
        result[a] = even + _times(factor, odd)
        result[b] = even - _times(factor, odd)
    return [_form(row, values) if r is None else r for row, r in zip(matrix, result, strict=True)]


def _by_columns(
    matrix: Matrix, values: Sequence[PrimExpr], pairs: Sequence[tuple[int, int]], keep: Keep
) -> list[PrimExpr]:
    sums = {pair: (keep(values[pair[0]] + values[pair[1]]), keep(values[pair[0]] - values[pair[1]])) for pair in pairs}
    paired = {k for pair in pairs for k in pair}
    result = []
    for row in matrix:
        terms = [(row[k], values[k]) for k in range(len(row)) if k not in paired and row[k]]
        for a, b in pairs:
            if row[a]:
                terms.append((row[a], sums[a, b][0 if row[a] == row[b] else 1]))
        result.append(_sum(terms))
    return result


def _pairs(rows: Matrix) -> list[tuple[int, int]]:
    """Pairs of *rows* that agree but for signs, in some place and not in all."""
    found: list[tuple[int, int]] = []
    for a in range(len(rows)):
        for b in range(a + 1, len(rows)):
            taken = any(k in pair for k in (a, b) for pair in found)
            equal = all(abs(x) == abs(y) for x, y in zip(rows[a], rows[b], strict=True))
            signs = {x == y for x, y in zip(rows[a], rows[b], strict=True) if x}
            if not taken and equal and len(signs) == 2:
                found.append((a, b))
    return found


def _form(row: Sequence[Fraction], values: Sequence[PrimExpr]) -> PrimExpr:
    return _sum([(c, v) for c, v in zip(row, values, strict=True) if c])


def _sum(terms: Sequence[tuple[Fraction, PrimExpr]]) -> PrimExpr:
    """The sum of *terms*: one that needs no factor first, so that each other is one multiply-add."""
    ordered = sorted(terms, key=lambda term: term[0] != 1)
    total = _times(*ordered[0])
    for factor, value in ordered[1:]:
        total = total - _times(-factor, value) if factor < 0 else total + _times(factor, value)
    return total


def _times(factor: Fraction, value: PrimExpr) -> PrimExpr:
    return value if factor == 1 else value * const(float(factor), value.dtype)
