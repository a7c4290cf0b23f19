"""What a sum of products looks like to its schedule: which axis vectors run along, which positions share their loads.

A product of two operands is computed by tiles: *lane* is the output axis along which vectors run (the innermost one),
and a block of *row* positions shares every load of the operand that moves with the lanes. A matrix product has its
columns as lanes; a convolution in a channels-last layout its output channels; a depthwise one its channels, on both
operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.c.contraction.guards import Guard, guards_of, without_guards
from byoc.codegen.c.tiling.access import VECTOR_DTYPES, Access, accesses, is_product_sum
from byoc.codegen.c.tiling.blocks import at
from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.inline import estimated_size
from byoc.codegen.kernel.simplify import Simplifier
from byoc.te import Dimension, Index, PrimExpr
from byoc.te.expr import Binary, Const, Reduce
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes

PANEL = "panel"  # the tag of an operand that was packed for its tile; its last extent is the tile's width


@dataclass(frozen=True)
class Contraction:
    """A nest whose value is an epilogue over one sum of products, with what each load does along each axis.

    *term* is what is summed, where the *guards* hold.
    """

    nest: Nest
    reduce: Reduce
    term: PrimExpr
    guards: tuple[Guard, ...]
    lane: Index
    row: Index | None
    moving: tuple[Access, ...]  # loads that move with the lanes
    standing: tuple[Access, ...]  # loads that are the same for all lanes

    @property
    def batch(self) -> tuple[Index, ...]:
        """The output axes that are neither lanes nor rows."""
        return tuple(a for a in self.nest.axes if a is not self.lane and a is not self.row)

    @property
    def shared_batch(self) -> tuple[Index, ...]:
        """Those of :attr:`batch` along which a moving operand stands still, as the rows of an image do."""
        return tuple(a for a in self.batch if any(x.steps[a] == 0 for x in self.moving))

    @property
    def points(self) -> int:
        """The terms of one sum."""
        return estimated_size([a.extent for a in self.reduce.axes])

    @property
    def row_count(self) -> Dimension:
        return 1 if self.row is None else self.row.extent


def contraction(nest: Nest, simplify: Simplifier) -> Contraction | None:
    """*nest* as a contraction, its reduced axes in the order in which the standing operand lies; None for another.

    An axis that a load takes apart (``c // 32``, as in a grouped convolution) is divided there first.
    """
    if not nest.axes or _sum(nest) is None:
        return None
    nest = _divided(nest, simplify)
    reduce = _sum(nest)
    assert reduce is not None
    lane = nest.axes[-1]
    if not isinstance(lane.extent, int) or lane.extent < 2:
        return None
    bare = without_guards(reduce.body)
    if bare is None:
        bare = reduce.body, []
    guards = guards_of(bare[1], reduce.axes, simplify)
    if guards is None or not is_product_sum(bare[0]):
        return None
    loads = accesses(bare[0], (*nest.axes, *reduce.axes), simplify)
    standing = tuple(a for a in loads if a.steps[lane] == 0)
    moving = tuple(a for a in loads if a.steps[lane] != 0)
    if not moving or any(g.position is lane for g in guards):
        return None
    row = _row(nest.axes[:-1], moving, loads)
    by_row = [g for g in guards if g.position is not None and g.position is row]
    if row is not None and not all(isinstance(e, int) for g in by_row for e in (g.axis.extent, row.extent)):
        return None  # where a border lies must be known: tiles there are written out
    nest, reduce = _ordered(nest, reduce, standing or moving)
    return Contraction(nest, reduce, bare[0], guards, lane, row, moving, standing)


def reads_whole_vectors(c: Contraction) -> bool:
    """Whether every operand that moves with the lanes lies in panels, or so that neighbours lie side by side."""
    return all(a.load.tensor.tag == PANEL or a.steps[c.lane] == 1 for a in c.moving)


def _sum(nest: Nest) -> Reduce | None:
    """The one reduction of *nest*, where it is a sum in a type that vectors have."""
    found = [n for n in unique_nodes(nest.value) if isinstance(n, Reduce)]
    return found[0] if len(found) == 1 and found[0].kind == "sum" and found[0].dtype in VECTOR_DTYPES else None


def _divided(nest: Nest, simplify: Simplifier) -> Nest:
    """*nest* with its innermost axis divided where a load outside of panels takes it apart by one number."""
    lane = nest.axes[-1]
    reduce = _sum(nest)
    assert reduce is not None
    loads = [n for n in unique_nodes(reduce.body) if isinstance(n, Load) and n.tensor.tag != PANEL]
    found = {
        int(n.right.value)
        for load in loads
        for i in load.indices
        for n in unique_nodes(simplify(i))
        if isinstance(n, Binary) and n.op in ("div", "mod") and n.left is lane and isinstance(n.right, Const)
    }
    if len(found) != 1 or not isinstance(lane.extent, int):
        return nest
    width = found.pop()
    if width < 2 or lane.extent % width:
        return nest
    outer, inner = Index(f"{lane.name}_group", lane.extent // width), Index(lane.name, width)
    table = {lane: outer * width + inner}
    # simplified now, since the lanes of a tile may go beyond the part that is left of the axis
    value = map_expr(at(nest.value, table), lambda e: simplify(e) if isinstance(e, Load) else None)
    return Nest(nest.stage, (*nest.axes[:-1], outer, inner), tuple(at(i, table) for i in nest.indices), value)


def _ordered(nest: Nest, reduce: Reduce, loads: Sequence[Access]) -> tuple[Nest, Reduce]:
    """The reduced axes with the longest strides of the first operand first, so that it is read as it lies."""
    steps = loads[0].steps
    if any(steps[a] is None for a in reduce.axes):
        return nest, reduce
    axes = sorted(reduce.axes, key=lambda a: -abs(steps[a] or 0))
    if tuple(axes) == reduce.axes:
        return nest, reduce
    new = Reduce(reduce.kind, reduce.body, axes)
    value = map_expr(nest.value, lambda e: new if e is reduce else None)
    return Nest(nest.stage, nest.axes, nest.indices, value), new


def _row(axes: Sequence[Index], moving: Sequence[Access], loads: Sequence[Access]) -> Index | None:
    """The innermost axis along which a moving operand stands still, so that its loads are shared; the longest first."""
    moved = [a for a in axes if a.extent != 1 and any(x.steps[a] != 0 for x in loads)]
    shared = [a for a in moved if any(x.steps[a] == 0 for x in moving)]
    numbers = [a for a in shared if isinstance(a.extent, int)]
    best = max(numbers, key=lambda a: min(int(a.extent), 14), default=None)
    inner = [a for a in numbers if best is not None and int(a.extent) >= min(int(best.extent), 7)]
    return inner[-1] if inner else best if best is not None else shared[-1] if shared else None
