"""Windows that reach over the edge of their tensor: their conditions as bounds of the loops over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from byoc.codegen.kernel.loops import For, Stmt
from byoc.codegen.kernel.polynomial import Polynomial
from byoc.codegen.kernel.reductions import neutral
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.te import Index, PrimExpr, maximum, minimum
from byoc.te.expr import COMPARISONS, INDEX, Binary, Const, Reduce, Select
from byoc.te.walk import unique_nodes


@dataclass
class FoldedWindow:
    """What is folded, and from where to where each axis runs; an axis without bounds runs from 0 to its extent."""

    body: PrimExpr
    first: dict[Index, PrimExpr] = field(default_factory=dict)
    end: dict[Index, PrimExpr] = field(default_factory=dict)

    def loops(self, axes: Sequence[Index], body: Sequence[Stmt]) -> list[Stmt]:
        """*body* inside the loops over *axes*, within their bounds."""
        result = list(body)
        for axis in reversed(axes):
            first, end = self.first.get(axis, 0), self.end.get(axis, axis.extent)
            result = [For(axis, end, result, start=first)]
        return result


def clipped(reduce: Reduce, lane: Index, simplify: Simplifier) -> FoldedWindow:
    """*reduce* without the conditions under which its body is neutral, as far as they bound one of its axes each.

    Conditions that depend on the axis *lane* stay where they are.
    """
    body = reduce.body
    if not isinstance(body, Select) or not _is_neutral(body.otherwise, reduce):
        return FoldedWindow(body)
    window = FoldedWindow(body.then)
    for condition in _conjuncts(body.cond):
        if not _bound(condition, reduce, lane, window, simplify):
            return FoldedWindow(body)
    return window


def _is_neutral(expr: PrimExpr, reduce: Reduce) -> bool:
    nothing = neutral(reduce.kind, reduce.dtype)
    return isinstance(expr, Const) and isinstance(nothing, Const) and expr.value == nothing.value


def _conjuncts(cond: PrimExpr) -> list[PrimExpr]:
    if isinstance(cond, Binary) and cond.op == "and":
        return [*_conjuncts(cond.left), *_conjuncts(cond.right)]
    return [cond]


def _bound(condition: PrimExpr, reduce: Reduce, lane: Index, window: FoldedWindow, simplify: Simplifier) -> bool:
    """Add what *condition* says to *window*; False where it bounds no single axis."""
    if not isinstance(condition, Binary) or condition.op not in COMPARISONS or condition.left.dtype != INDEX:
        return False
    nonnegative = _nonnegative(condition, simplify)
    if nonnegative is None:
        return False
    moving = [a for a in reduce.axes if nonnegative.coefficient(a) != 0]
    if len(moving) != 1 or nonnegative.coefficient(lane) != 0:
        return False
    axis, factor = moving[0], nonnegative.coefficient(moving[0])
    if factor is None or axis.extent == 1:
        return False
    rest = simplify.rebuild(nonnegative.without(axis))
    if any(n in reduce.axes for n in unique_nodes(rest)):
        return False
    if factor > 0:  # axis >= -rest / factor, rounded up
        bound = (factor - 1 - rest) // factor
        window.first[axis] = maximum(window.first.get(axis, 0), bound)
    else:
        window.end[axis] = minimum(window.end.get(axis, as_index(axis.extent)), rest // -factor + 1)
    return True


def _nonnegative(condition: Binary, simplify: Simplifier) -> Polynomial | None:
    """The polynomial that is at least 0 exactly where *condition* holds; None for (in)equality."""
    left, right = simplify.polynomial(condition.left), simplify.polynomial(condition.right)
    if condition.op in ("ge", "gt"):
        return left.add(right, -1).add(Polynomial(1 if condition.op == "gt" else 0), -1)
    if condition.op in ("le", "lt"):
        return right.add(left, -1).add(Polynomial(1 if condition.op == "lt" else 0), -1)
    return None
