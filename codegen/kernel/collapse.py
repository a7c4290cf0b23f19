"""Adjacent axes as one, where every access runs through both without a gap: fewer and longer loops.

A 1x1 convolution over ``[56, 56]`` becomes a matrix product over 3136 columns. Ensures: each element is computed from
the same elements as before. A collapsed stage is written through :class:`Nest`, whose axes are those of the loops and
whose indices are those of the buffer; an access through a collapsed axis is written as ``(0, ..., 0, position)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.te import Index, PrimExpr, Tensor, const
from byoc.te.expr import INDEX, Reduce
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, operands, reachable, unique_nodes


@dataclass(frozen=True)
class Nest:
    """A stage as the loops see it: *axes* to run over, where each element goes, and its value."""

    stage: Tensor
    axes: tuple[Index, ...]
    indices: tuple[PrimExpr, ...]
    value: PrimExpr


def nest_at_step(stage: Tensor, step: Index) -> Nest:
    """The elements of *stage*, of a recurrence, at one *step*."""
    inner = stage.axes[1:]
    places = (step, *inner)
    return Nest(stage, inner, places, substitute_axes(stage.element, stage.axes, places))


def collapse_axes(stage: Tensor, simplify: Simplifier) -> Nest:
    """The nest of *stage* over as few axes as its accesses allow; reductions over as few as theirs allow."""
    return collapse_nest(Nest(stage, stage.axes, tuple(stage.axes), stage.element), simplify)


def collapse_nest(nest: Nest, simplify: Simplifier) -> Nest:
    """*nest* over as few axes as its accesses allow."""
    axes, indices, value = list(nest.axes), nest.indices, nest.value
    k = len(axes) - 2
    while k >= 0:
        merged = _merge(axes[k], axes[k + 1], simplify, (value, Load(nest.stage, indices)))
        if merged is not None:
            axes[k : k + 2] = [merged[0]]
            value, place = merged[1]
            assert isinstance(place, Load)
            indices = place.indices
        k -= 1
    return Nest(nest.stage, tuple(axes), indices, _collapse_reductions(value, simplify))


def merge_axes(
    axes: Sequence[Index], exprs: Sequence[PrimExpr], simplify: Simplifier
) -> tuple[Index, list[PrimExpr]] | None:
    """One axis for all *axes*, and *exprs* over it; None where an access has a gap or an axis is used as a number."""
    left, new = list(axes), list(exprs)
    while len(left) > 1:
        merged = _merge(left[-2], left[-1], simplify, new)
        if merged is None:
            return None
        left[-2:], new = [merged[0]], merged[1]
    return left[0], new


def _collapse_reductions(value: PrimExpr, simplify: Simplifier) -> PrimExpr:
    def leaf(expr: PrimExpr) -> PrimExpr | None:
        if not isinstance(expr, Reduce) or len(expr.axes) < 2:
            return None
        axes, body = list(expr.axes), expr.body
        k = len(axes) - 2
        while k >= 0:
            merged = _merge(axes[k], axes[k + 1], simplify, (body,))
            if merged is not None:
                axes[k : k + 2] = [merged[0]]
                body = merged[1][0]
            k -= 1
        return Reduce(expr.kind, body, axes)

    return map_expr(value, leaf)


def _merge(
    outer: Index, inner: Index, simplify: Simplifier, exprs: Sequence[PrimExpr]
) -> tuple[Index, list[PrimExpr]] | None:
    """One axis for two, and *exprs* over it; None where an access has a gap or an axis is used as a number.

    An inner axis of free size is joined with any outer one: a product of a free batch of sequences is one of all their
    rows.
    """
    if not _only_in_loads(exprs, (outer, inner)):
        return None
    if not isinstance(inner.extent, int):
        return _merge_free(outer, inner, simplify, exprs)
    if not isinstance(outer.extent, int) or 0 in (outer.extent, inner.extent):
        return None
    axis = Index(outer.name, outer.extent * inner.extent)
    table: dict[PrimExpr, PrimExpr] = {outer: axis // inner.extent, inner: axis % inner.extent}
    new = [map_expr(e, lambda n: table.get(n) if isinstance(n, Index) else None) for e in exprs]
    loads = [n for e in new for n in unique_nodes(e) if isinstance(n, Load)]
    flat = {id(n): simplify.flat_index(n.tensor, n.indices) for n in loads}
    if any(position.coefficient(axis) is None for position in flat.values()):
        return None

    def by_position(expr: PrimExpr) -> PrimExpr | None:
        if not isinstance(expr, Load) or id(expr) not in flat:
            return None
        start = [const(0, INDEX)] * (len(expr.indices) - 1)
        return expr.of(expr.tensor, (*start, simplify.rebuild(flat[id(expr)]))) if expr.indices else expr

    return axis, [map_expr(e, by_position) for e in new]


def _merge_free(
    outer: Index, inner: Index, simplify: Simplifier, exprs: Sequence[PrimExpr]
) -> tuple[Index, list[PrimExpr]] | None:
    """As :func:`_merge`, where the extent of *inner* is known when the code runs."""
    length = simplify.polynomial(as_index(inner.extent))
    axis = Index(outer.name, simplify.rebuild(simplify.polynomial(as_index(outer.extent)).multiply(length)))
    flat: dict[int, PrimExpr] = {}
    for load in (n for e in exprs for n in unique_nodes(e) if isinstance(n, Load) and n.indices):
        position = simplify.flat_index(load.tensor, load.indices)
        step = position.coefficient(inner)
        if step is None:
            return None
        rest = position.add(length.multiply(simplify.polynomial(outer)), -step).without(inner)
        if rest.coefficient(outer) != 0:
            return None
        flat[id(load)] = simplify.rebuild(rest.add(simplify.polynomial(axis), step))

    def by_position(expr: PrimExpr) -> PrimExpr | None:
        if not isinstance(expr, Load) or id(expr) not in flat:
            return None
        return expr.of(expr.tensor, (*[const(0, INDEX)] * (len(expr.indices) - 1), flat[id(expr)]))

    return axis, [map_expr(e, by_position) for e in exprs]


def _only_in_loads(exprs: Sequence[PrimExpr], axes: Sequence[Index]) -> bool:
    """True when *axes* stand only in the indices of loads, outside of loads within these."""

    def inner(node: PrimExpr) -> Sequence[PrimExpr]:
        if isinstance(node, Load):
            return [i for i in node.indices if any(isinstance(n, Load) for n in unique_nodes(i))]
        return operands(node)

    return not any(node in axes for node in reachable(exprs, inner))
