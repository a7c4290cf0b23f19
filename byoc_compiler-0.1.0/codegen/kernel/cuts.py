"""Where along an axis the conditions of an expression change: between two cuts each of them is constant along it."""

from __future__ import annotations

import math

from byoc.codegen.kernel.simplify import Simplifier
from byoc.te import Index, PrimExpr
from byoc.te.expr import COMPARISONS, INDEX, Binary
from byoc.te.walk import unique_nodes


def cuts(value: PrimExpr, axis: Index, simplify: Simplifier) -> list[int]:
    """The positions of *axis*, above 0 and below its extent, at which a comparison of it with a number changes.

    Where a comparison depends on other indices too, it is the same for all of these outside of two positions. An axis
    of symbolic extent has no cuts.
    """
    if not isinstance(axis.extent, int):
        return []
    found: set[int] = set()
    for node in unique_nodes(value):
        if isinstance(node, Binary) and node.op in COMPARISONS and node.left.dtype == INDEX:
            found.update(_changes(node, axis, simplify))
    return sorted(c for c in found if 0 < c < axis.extent)


def _changes(comparison: Binary, axis: Index, simplify: Simplifier) -> list[int]:
    """Where *comparison* changes along *axis*; where others move it too, from where on it may and up to where."""
    difference = simplify.polynomial(comparison.left).add(simplify.polynomial(comparison.right), -1)
    factor = difference.coefficient(axis)
    if not factor:
        return []
    low, high = simplify.poly_bounds(difference.without(axis))
    if math.isinf(low) or math.isinf(high):
        return []
    return [place for rest in {int(low), int(high)} for place in _roots(comparison.op, factor, rest)]


def _roots(op: str, factor: int, rest: int) -> list[int]:
    """Where ``factor * axis + rest`` against 0 changes."""
    root = -rest // factor  # where the sides are equal, or the last position before they would be
    if rest % factor:
        return [root + 1]
    if op in ("eq", "ne"):
        return [root, root + 1]
    return [root if (factor > 0) == (op in ("lt", "ge")) else root + 1]
