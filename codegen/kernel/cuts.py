"""Where along an axis the conditions of an expression change: between two cuts each of them is constant along it."""

from __future__ import annotations

from byoc.codegen.kernel.inline import unique_nodes
from byoc.codegen.kernel.simplify import Simplifier
from byoc.te import Index, PrimExpr
from byoc.te.expr import COMPARISONS, INDEX, Binary


def cuts(value: PrimExpr, axis: Index, simplify: Simplifier) -> list[int]:
    """The positions of *axis*, above 0 and below its extent, at which a comparison of it with a number changes.

    Comparisons of *axis* with anything that is no number are not looked at; an axis of symbolic extent has no cuts.
    """
    if not isinstance(axis.extent, int):
        return []
    found: set[int] = set()
    for node in unique_nodes(value):
        if isinstance(node, Binary) and node.op in COMPARISONS and node.left.dtype == INDEX:
            found.update(_changes(node, axis, simplify))
    return sorted(c for c in found if 0 < c < axis.extent)


def _changes(comparison: Binary, axis: Index, simplify: Simplifier) -> list[int]:
    difference = simplify.polynomial(comparison.left).add(simplify.polynomial(comparison.right), -1)
    if list(difference.terms) != [(id(axis),)]:
        return []
    factor, constant = difference.terms[(id(axis),)], difference.constant
    root = -constant // factor  # where the sides are equal, or the last position before they would be
    if constant % factor:
        return [root + 1]
    if comparison.op in ("eq", "ne"):
        return [root, root + 1]
    return [root if (factor > 0) == (comparison.op in ("lt", "ge")) else root + 1]
