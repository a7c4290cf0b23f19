"""What a sum of products looks like to a tile: which axes are rows, which are columns, and what each operand reads.

Every convolution is a product here (implicit GEMM): its weights vary along rows and terms, its image along columns and
terms, whatever the image's positions are. An axis that both operands vary along is one of the batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.collapse import Nest, collapse_axes
from byoc.codegen.kernel.inline import estimated_size, substitute_axes
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.products.tile import is_worth_tiles
from byoc.te import Index, PrimExpr, Tensor, binary, const
from byoc.te.expr import Binary, Const, Reduce, Select
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes

DTYPES = ("float32", "float64", "int32")  # of sums that tiles compute


@dataclass(frozen=True)
class Operand:
    """A factor of every term; *lanes* are the output axes that it alone varies along, the rows or the columns.

    ``by_lane`` says that neighbours along the last lane lie nearer to each other in memory than neighbouring terms.
    """

    value: PrimExpr
    lanes: tuple[Index, ...]
    by_lane: bool


@dataclass(frozen=True)
class BlockProduct:
    """A nest whose value is an epilogue over ``reduce``, the sum of ``left * right``; columns hold the last axis."""

    nest: Nest
    reduce: Reduce
    left: Operand
    right: Operand
    batch: tuple[Index, ...]

    @property
    def rows(self) -> tuple[Index, ...]:
        return self.left.lanes

    @property
    def columns(self) -> tuple[Index, ...]:
        return self.right.lanes

    def sizes(self) -> tuple[int, int, int, int]:
        """Products, rows, columns and terms: numbers, with nominal ones for free sizes."""
        parts = (self.batch, self.rows, self.columns, self.reduce.axes)
        products, rows, columns, terms = (estimated_size([a.extent for a in axes]) for axes in parts)
        return products, rows, columns, terms


def block_product(nest: Nest, simplify: Simplifier) -> BlockProduct | None:
    """*nest* as a product of blocks; None where it is no sum of products of two operands with axes of their own."""
    found = [n for n in unique_nodes(nest.value) if isinstance(n, Reduce)]
    if len(found) != 1 or found[0].kind != "sum" or found[0].dtype not in DTYPES:
        return None
    nest = _divided(nest, simplify)
    (reduce,) = (n for n in unique_nodes(nest.value) if isinstance(n, Reduce))
    factors = factors_of(reduce.body)
    if factors is None:
        return None
    used = [_axes_of(f, nest.axes) for f in factors]
    moving = [a for a in nest.axes if a.extent != 1]
    own = [tuple(a for a in moving if a in used[k] and a not in used[1 - k]) for k in (0, 1)]
    if not own[0] or not own[1] or any(a not in _axes_of(reduce.body, reduce.axes) for a in reduce.axes):
        return None
    rows, columns = (1, 0) if moving[-1] in own[0] else (0, 1)
    batch = tuple(a for a in moving if a not in own[0] and a not in own[1])
    left, right = (Operand(factors[k], own[k], _by_lane(factors[k], own[k], reduce, simplify)) for k in (rows, columns))
    return BlockProduct(nest, reduce, left, right, batch)


def tiled_product(stage: Tensor, simplify: Simplifier) -> BlockProduct | None:
    """*stage* as a product that is computed by tiles; None where it is none."""
    if 0 in stage.shape:
        return None
    p = block_product(collapse_axes(stage, simplify), simplify)
    return p if p is not None and is_worth_tiles(p.sizes()) else None


def guarded(value: PrimExpr) -> tuple[list[PrimExpr], PrimExpr]:
    """The conditions without which *value* is 0, and what it is where they all hold."""
    guards = []
    while isinstance(value, Select) and isinstance(value.otherwise, Const) and value.otherwise.value == 0:
        guards.append(value.cond)
        value = value.then
    return guards, value


def _axes_of(value: PrimExpr, axes: Sequence[Index]) -> tuple[Index, ...]:
    inside = {id(n) for n in unique_nodes(value) if isinstance(n, Index)}
    return tuple(a for a in axes if id(a) in inside)


def factors_of(term: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
    """The two factors of *term*; a condition under which it is 0 otherwise is one of the second's."""
    if isinstance(term, Select) and isinstance(term.otherwise, Const) and term.otherwise.value == 0:
        inner = factors_of(term.then)
        if inner is None:
            return None
        return inner[0], Select(term.cond, inner[1], const(0, inner[1].dtype))
    if isinstance(term, Binary) and term.op == "mul":
        return term.left, term.right
    return None


def _by_lane(value: PrimExpr, lanes: Sequence[Index], reduce: Reduce, simplify: Simplifier) -> bool:
    loads = [n for n in unique_nodes(value) if isinstance(n, Load) and n.indices]
    steps = [(_step(n, lanes[-1], simplify), _step(n, reduce.axes[-1], simplify)) for n in loads]
    lane, term = (min((s[k] for s in steps if s[k]), default=math.inf) for k in (0, 1))
    return lane <= max(term, 2 if term == 1 and len(reduce.axes) > 1 else 0)


def _step(load: Load, axis: Index, simplify: Simplifier) -> float:
    """How far apart in memory neighbours along *axis* lie; 0 where they are the same, infinite where it varies."""
    step = simplify.flat_index(load.tensor, load.indices).coefficient(axis)
    return math.inf if step is None else abs(step)


def _divided(nest: Nest, simplify: Simplifier) -> Nest:
    """*nest* with each axis in two that a load takes apart by one number, as the groups of a convolution do."""
    axes: list[Index] = []
    table: dict[Index, PrimExpr] = {}
    for axis in nest.axes:
        width = _divisor(axis, nest, simplify)
        if width is None:
            axes.append(axis)
            continue
        outer, inner = Index(f"{axis.name}_group", int(axis.extent) // width), Index(axis.name, width)
        axes += [outer, inner]
        table[axis] = binary("add", binary("mul", outer, width), inner)
    if not table:
        return nest
    old, new = list(table), list(table.values())

    def leaf(expr: PrimExpr) -> PrimExpr | None:
        return simplify(expr) if isinstance(expr, Load) else None

    value = map_expr(substitute_axes(nest.value, old, new), leaf)
    return Nest(nest.stage, tuple(axes), tuple(substitute_axes(i, old, new) for i in nest.indices), value)


def _divisor(axis: Index, nest: Nest, simplify: Simplifier) -> int | None:
    """The number by which the loads of *nest* divide *axis*, where it is one and leaves no rest."""
    loads = [n for n in unique_nodes(nest.value) if isinstance(n, Load)]
    found = {
        int(n.right.value)
        for load in loads
        for i in load.indices
        for n in unique_nodes(simplify(i))
        if isinstance(n, Binary) and n.op in ("div", "mod") and n.left is axis and isinstance(n.right, Const)
    }
    width = found.pop() if len(found) == 1 else 0
    return width if width > 1 and isinstance(axis.extent, int) and axis.extent % width == 0 else None
