"""Terms of a sum that count only inside their tensor, as at the borders of an image: conditions as bounds of loops.

``0 <= oh + kh - 1 < 56`` says from where to where ``kh`` runs for a given ``oh``. A term whose factor is
``condition ? load : 0`` is nothing outside, so it need not be computed there, and no padded copy is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.te import Index, PrimExpr, binary, const
from byoc.te.expr import DOTS, INDEX, Binary, Const, Intrinsic, Select
from byoc.te.walk import unique_nodes


@dataclass(frozen=True)
class Guard:
    """A term counts where ``place + step * axis >= 0``: *axis* is reduced, *position* moves *place* by *stride*."""

    axis: Index
    step: int
    position: Index | None
    stride: int
    constant: int

    def bounds(self, place: PrimExpr) -> tuple[PrimExpr | None, PrimExpr | None]:
        """From where, and up to where, *axis* fulfils it where the position is *place*."""
        known = place * self.stride + self.constant
        if self.step > 0:  # axis >= -known / step, rounded up
            return binary("div", (self.step - 1) - known, self.step), None
        return None, binary("div", known, -self.step) + 1

    def holds(self, place: int, value: int) -> bool:
        """Whether it is fulfilled at numbers."""
        return place * self.stride + self.step * value + self.constant >= 0


def without_guards(body: PrimExpr) -> tuple[PrimExpr, list[PrimExpr]] | None:
    """A product with its guarded factors bare, and the conditions; None for what is no such product."""
    conditions: list[PrimExpr] = []

    def bare(expr: PrimExpr) -> PrimExpr | None:
        if isinstance(expr, Select) and isinstance(expr.otherwise, Const) and expr.otherwise.value == 0:
            conditions.append(expr.cond)
            return bare(expr.then)
        if isinstance(expr, Binary) and expr.op == "mul":
            left, right = bare(expr.left), bare(expr.right)
            return None if left is None or right is None else binary("mul", left, right)
        if isinstance(expr, Intrinsic) and expr.name in DOTS:
            args = [inner for a in expr.args if (inner := bare(a)) is not None]
            return Intrinsic(expr.name, args) if len(args) == len(expr.args) else None
        return None if any_select(expr) else expr

    result = bare(body)
    return None if result is None else (result, conditions)


def any_select(expr: PrimExpr) -> bool:
    """Whether a Select stands anywhere in *expr*."""
    return any(isinstance(n, Select) for n in unique_nodes(expr))


def guards_of(
    conditions: Sequence[PrimExpr], reduced: Sequence[Index], simplify: Simplifier
) -> tuple[Guard, ...] | None:
    """*conditions* as guards; None where one is something else."""
    found: list[Guard] = []
    pending = list(conditions)
    while pending:
        condition = simplify(pending.pop(0))
        if isinstance(condition, Const) and condition.value:
            continue
        if isinstance(condition, Binary) and condition.op == "and":
            pending[:0] = [condition.left, condition.right]
            continue
        guard = _guard(condition, reduced, simplify)
        if guard is None:
            return None
        found.append(guard)
    return tuple(found)


def _guard(condition: PrimExpr, reduced: Sequence[Index], simplify: Simplifier) -> Guard | None:
    if not isinstance(condition, Binary) or condition.left.dtype != INDEX or condition.op not in _SIGNS:
        return None
    sign, constant = _SIGNS[condition.op]
    poly = simplify.polynomial(binary("sub", condition.left, condition.right))
    axis: tuple[Index, int] | None = None
    position: tuple[Index, int] | None = None
    for monomial, c in poly.terms.items():
        atom = poly.atoms[monomial[0]]
        if len(monomial) != 1 or not isinstance(atom, Index):
            return None
        if atom in reduced and axis is None:
            axis = (atom, c * sign)
        elif atom not in reduced and position is None:
            position = (atom, c * sign)
        else:
            return None
    if axis is None:
        return None
    place, stride = position or (None, 0)
    return Guard(axis[0], axis[1], place, stride, poly.constant * sign + constant)


_SIGNS = {"ge": (1, 0), "gt": (1, -1), "le": (-1, 0), "lt": (-1, -1)}  # as `sign * (left - right) + constant >= 0`


def loop_bounds(guards: Sequence[Guard], axis: Index, places: dict[Index, PrimExpr]) -> tuple[PrimExpr, PrimExpr]:
    """From where to where *axis* runs under those of *guards* that are about it."""
    start: PrimExpr = const(0, INDEX)
    end = as_index(axis.extent)
    for guard in guards:
        if guard.axis is axis:
            place = const(0, INDEX) if guard.position is None else places.get(guard.position, guard.position)
            low, high = guard.bounds(place)
            start = start if low is None else binary("max", start, low)
            end = end if high is None else binary("min", end, high)
    return start, end
