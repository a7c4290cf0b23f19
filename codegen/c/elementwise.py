"""Stages without a reduction: vectors along the innermost axis, and pieces in which no condition is left.

An axis on which conditions depend (padding, concatenation) is cut where they change, so that each piece copies, fills
or computes without asking. What is then contiguous is one axis. A load that strides along the innermost axis, as in a
transpose, is done in tiles, so that whole cache lines are read and written. The last vector of a row is moved back so
that it fits; at the end of a single axis it is a part of one.
"""

from __future__ import annotations

from dataclasses import replace

from byoc.codegen.c.rows.blocks import at, block_of
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.vectors.lane_analysis import LARGEST_VECTOR, LaneAnalysis, can_be_vector, values
from byoc.codegen.kernel.collapse import Nest, collapse_nest
from byoc.codegen.kernel.cuts import cuts
from byoc.codegen.kernel.loops import For, Stmt, Store, VectorStore
from byoc.codegen.kernel.reductions import loops
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.ir.types import dtype_bytes
from byoc.te import Index, PrimExpr
from byoc.te.expr import Reduce
from byoc.te.tensor import Load

SMALLEST_LANES, SMALLEST_VECTOR = 4, 16
MOST_CUTS = 16  # of one axis; with more of them the code would be larger than the work
TILE = 16


def elementwise(nest: Nest, simplify: Simplifier, machine: Machine, outermost: bool = True) -> list[Stmt]:
    """The loop nest of *nest*, or nothing where it has reductions, no axis, or the machine no vectors.

    *outermost*: nothing stands around it, so that its loops are shared by threads.
    """
    if not nest.axes or machine.vector_bytes < SMALLEST_VECTOR:
        return []
    if any(isinstance(n, Reduce) for n in values(nest.value)):
        return []
    return _pieces(nest, simplify, machine, outermost)


def _pieces(nest: Nest, simplify: Simplifier, machine: Machine, outermost: bool) -> list[Stmt]:
    """*nest* cut along the first axis that conditions depend on, and so on; then each piece by vectors."""
    value = simplify(nest.value)
    for k, axis in enumerate(nest.axes):
        places = cuts(value, axis, simplify)
        if not places or len(places) > MOST_CUTS:
            continue
        outer = [a for a in nest.axes[:k] if a.extent != 1]  # an axis of one position is written as 0
        pieces: list[Stmt] = []
        for low, high in zip([0, *places], [*places, int(axis.extent)], strict=True):
            part = Index(axis.name, high - low)
            moved: dict[Index, PrimExpr] = {axis: part + low}
            inner = Nest(
                nest.stage, (part, *nest.axes[k + 1 :]), tuple(at(i, moved) for i in nest.indices), at(value, moved)
            )
            pieces += _pieces(inner, simplify, machine, outermost and not outer)
        return loops(outer, pieces)
    whole = collapse_nest(Nest(nest.stage, nest.axes, nest.indices, value), simplify)
    return vector_loops(whole, simplify, machine, outermost)


def lane_count(value: PrimExpr, stored: str, axis: Index, machine: Machine, simplify: Simplifier) -> int:
    """How many elements of *value* along *axis*, stored as *stored*, one vector of the widest dtype in it holds."""
    analysis = LaneAnalysis(axis, 1, simplify)
    widest = max([dtype_bytes(stored), *(dtype_bytes(n.dtype) for n in values(value) if analysis.varies(n))])
    return min(machine.vector_bytes, LARGEST_VECTOR) // widest


def vector_loops(nest: Nest, simplify: Simplifier, machine: Machine, outermost: bool = False) -> list[Stmt]:
    """Loops over all axes, the innermost by vectors where its expression allows it.

    *outermost*: nothing stands around them, so that a single axis may be shared by threads.
    """
    axis = nest.axes[-1]
    lanes = lane_count(nest.value, nest.stage.dtype, axis, machine, simplify)
    while isinstance(axis.extent, int) and lanes > axis.extent:
        lanes //= 2
    if lanes < SMALLEST_LANES or not _fits(nest, axis, lanes, simplify):
        return loops(nest.axes, [Store(nest.stage, nest.indices, nest.value)])
    across = _crossing_axis(nest, axis, simplify)
    if across is not None:
        return _tiles(nest, axis, across, lanes)
    return loops(nest.axes[:-1], row(nest, axis, lanes, alone=outermost and len(nest.axes) == 1))


def _fits(nest: Nest, axis: Index, lanes: int, simplify: Simplifier) -> bool:
    """Whether vectors alone compute the value, and its elements lie next to each other."""
    if simplify.flat_index(nest.stage, nest.indices).coefficient(axis) != 1:
        return False
    block, lane = Index("block", _blocks(axis, lanes)), Index("lane", lanes)
    placed = at(nest.value, {axis: block * lanes + lane})
    return can_be_vector(simplify(placed), lane, lanes, simplify)


def _blocks(axis: Index, lanes: int) -> int | PrimExpr:
    return axis.extent // lanes if isinstance(axis.extent, int) else as_index(axis.extent) // lanes


def row(nest: Nest, axis: Index, lanes: int, alone: bool) -> list[Stmt]:
    """*nest* along *axis*, by vectors; its last elements by a vector moved back, or a part of one where *alone*."""
    lane, block = Index("lane", lanes), Index(f"{axis.name}_block", _blocks(axis, lanes))

    def store(place: PrimExpr, count: int | None = None) -> Stmt:
        placed: dict[Index, PrimExpr] = {axis: place}
        indices = [at(i, placed) for i in nest.indices]
        return VectorStore(nest.stage, indices, at(nest.value, placed), lane, count)

    code: list[Stmt] = [For(block, block.extent, [store(block * lanes + lane)])]
    if not isinstance(axis.extent, int):
        rest = Index(axis.name, as_index(axis.extent) % lanes)
        placed: dict[Index, PrimExpr] = {axis: rest + block.extent * lanes}
        last = Store(nest.stage, [at(i, placed) for i in nest.indices], at(nest.value, placed))
        return [*code, For(rest, rest.extent, [last])]
    count = axis.extent % lanes
    if count and alone:
        return [*code, For(Index("end", 1), 1, [store(lane + (axis.extent - count), count)])]
    return [*code, store(lane + (axis.extent - lanes))] if count else code


def _crossing_axis(nest: Nest, axis: Index, simplify: Simplifier) -> Index | None:
    """The axis along which a load is contiguous that strides along *axis*."""
    for node in values(nest.value):
        if not isinstance(node, Load):
            continue
        flat = simplify.flat_index(node.tensor, node.indices)
        if flat.coefficient(axis) in (0, 1):
            continue
        for other in nest.axes[:-1]:
            if flat.coefficient(other) == 1 and isinstance(other.extent, int) and other.extent >= SMALLEST_LANES:
                return other if isinstance(axis.extent, int) else None
    return None


def _tiles(nest: Nest, axis: Index, across: Index, lanes: int) -> list[Stmt]:
    """Tiles of *across* and *axis*: a cache line of either is used up while it is near."""
    width, height = int(axis.extent), int(across.extent)
    tall = min(TILE, height)
    columns = replace(block_of(axis, lanes), start=Index(axis.name, width - lanes + 1))
    lines = replace(block_of(across, tall), start=Index(across.name, height - tall + 1))
    lane, step = Index("lane", lanes), Index(f"{across.name}_step", tall)
    places: dict[Index, PrimExpr] = {axis: columns.start + lane, across: lines.start + step}
    store = VectorStore(nest.stage, [at(i, places) for i in nest.indices], at(nest.value, places), lane)
    inner = columns.around([columns.let(), lines.let(), For(step, tall, [store])])
    return loops([a for a in nest.axes[:-1] if a is not across], [lines.around([inner])])
