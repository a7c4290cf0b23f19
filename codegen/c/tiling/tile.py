"""Register tiles for sums of products: convolutions, matrix products, and all that is shaped like them.

By columns: the lanes are the innermost output axis, and a block of another output axis shares their loads. By dot
products: the lanes are a summed axis along which every operand is contiguous, and a block of two output axes shares
loads. A tile's accumulators are vector variables by name. The last tile of an axis is moved back so that it fits,
and computes some elements twice; an axis of symbolic extent has a second nest for what remains.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.c.tiling.access import Access, accesses, column_tile, dot_tile, single_sum
from byoc.codegen.c.tiling.blocks import Block, at, block_of, epilogue
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.inline import estimated_size
from byoc.codegen.kernel.loops import Alloc, Stmt, VectorStore
from byoc.codegen.kernel.reductions import loops
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.ir.types import dtype_bytes
from byoc.te import Index, PrimExpr, Tensor, binary, const, placeholder
from byoc.te.expr import INDEX, Reduce
from byoc.te.tensor import Load
from byoc.te.walk import map_expr

SMALLEST_LANES = 4
MANY = 64  # positions of an axis of free size
LONGEST_SUM = 32768  # a longer one needs more digits than its type has, and gets them in lanes.py


def tile(nest: Nest, simplify: Simplifier, machine: Machine) -> list[Stmt]:
    """The tiled loop nest of *nest*, or nothing where it is not a sum of products with lanes to use."""
    reduce = single_sum(nest)
    if reduce is None or not nest.axes or machine.lanes(dtype_bytes(reduce.dtype)) == 1:
        return []
    loads = accesses(reduce.body, (*nest.axes, *reduce.axes), simplify)
    column = nest.axes[-1]
    known = all(step is not None for a in loads for step in a.steps.values())  # else some are sizes of the run
    wide = known and isinstance(column.extent, int) and column.extent >= SMALLEST_LANES
    if wide and all(a.steps[column] in (0, 1) for a in loads):
        return _columns(nest, reduce, loads, simplify, machine)
    if estimated_size([a.extent for a in reduce.axes]) > LONGEST_SUM:
        return []
    dot = _dot_axis(reduce, loads, machine)
    if dot is not None:
        return _dots(nest, reduce, loads, dot, machine)
    if wide:
        return _columns(nest, reduce, loads, simplify, machine)
    return []


def _lane_count(extent: int, dtype: str, machine: Machine) -> int:
    lanes = machine.lanes(dtype_bytes(dtype))
    while lanes > extent:
        lanes //= 2
    return lanes


def _row_axis(nest: Nest, loads: Sequence[Access], column: Index) -> Index | None:
    """The output axis whose block shares most: what moves along the columns stands still along it."""
    shared = [
        a
        for a in nest.axes[:-1]
        if all(x.steps[a] == 0 or x.steps[column] == 0 for x in loads) and any(x.steps[a] for x in loads)
    ]
    numbers = [a for a in shared if isinstance(a.extent, int) and a.extent > 1]
    symbolic = [a for a in shared if not isinstance(a.extent, int)]
    return max(numbers, key=lambda a: a.extent, default=symbolic[0] if symbolic else None)


def _columns(nest: Nest, reduce: Reduce, loads: Sequence[Access], simplify: Simplifier, machine: Machine) -> list[Stmt]:
    column = nest.axes[-1]
    lanes = _lane_count(int(column.extent), reduce.dtype, machine)
    row = _row_axis(nest, loads, column)
    rows = 1 if row is None else row.extent if isinstance(row.extent, int) else 4
    height, vectors = column_tile(int(column.extent), rows, lanes, machine)
    columns = block_of(column, lanes * vectors)
    if row is None:
        return _column_nest(nest, reduce, loads, columns, None, lanes)
    if isinstance(row.extent, int):
        return _column_nest(nest, reduce, loads, columns, block_of(row, height), lanes)
    full = _column_nest(nest, reduce, loads, columns, block_of(row, height), lanes)
    remaining = _remaining(nest, row, height)
    again = single_sum(remaining)
    assert again is not None
    tail = accesses(again.body, (*remaining.axes, *again.axes), simplify)
    return [*full, *_column_nest(remaining, again, tail, columns, None, lanes)]


def _column_nest(
    nest: Nest, reduce: Reduce, loads: Sequence[Access], columns: Block, row: Block | None, lanes: int
) -> list[Stmt]:
    """Loops over the blocks; inside, the accumulators, the sum, and the epilogue."""
    body = _ColumnTile(nest, reduce, loads, columns, row, lanes).statements()
    outer = [a for a in nest.axes[:-1] if row is None or a is not row.axis]
    inner: list[Stmt] = [columns.over(body)]
    if row is None:
        return loops(outer, inner)
    by_row = sum(a.size for a in loads if a.steps[row.axis])
    by_column = sum(a.size for a in loads if not a.steps[row.axis])
    if by_row >= by_column:  # the larger operand is read once
        return [row.over(loops(outer, inner))]
    return loops(outer, [columns.over([row.over(body)])])


class _ColumnTile:
    def __init__(
        self, nest: Nest, reduce: Reduce, loads: Sequence[Access], columns: Block, row: Block | None, lanes: int
    ):
        self.nest, self.reduce, self.loads = nest, reduce, loads
        self.columns, self.row, self.lanes = columns, row, lanes
        self.vectors = columns.count // lanes
        self.height = row.count if row else 1
        self.lane = Index("lane", lanes)
        names = ((r, v) for r in range(self.height) for v in range(self.vectors))
        self.acc = {(r, v): placeholder((lanes,), reduce.dtype, f"acc_{r}_{v}") for r, v in names}

    def places(self, r: int, v: int) -> dict[Index, PrimExpr]:
        """The axes at row *r* of the block and at the lanes of vector *v*."""
        result = {self.columns.axis: self.columns.start + (self.lane + v * self.lanes)}
        if self.row is not None:
            result[self.row.axis] = self.row.start + r
        return result

    def statements(self) -> list[Stmt]:
        allocs: list[Stmt] = [Alloc(t, const(0, t.dtype), vector=True) for t in self.acc.values()]
        return [*allocs, *loops(self.reduce.axes, self.step()), *self.finish()]

    def step(self) -> list[Stmt]:
        """One step of every sum: the vectors are loaded once and shared by the rows."""
        code: list[Stmt] = []
        known: dict[tuple[object, ...], Tensor] = {}
        for r in range(self.height):
            for v in range(self.vectors):

                def leaf(e: PrimExpr, r: int = r, v: int = v) -> PrimExpr | None:
                    return self.operand(e, r, v, known, code) if isinstance(e, Load) else None

                acc = self.acc[r, v]
                value = binary("add", acc[self.lane], map_expr(self.reduce.body, leaf))
                code.append(VectorStore(acc, (self.lane,), value, self.lane))
        return code

    def operand(
        self, load: Load, r: int, v: int, known: dict[tuple[object, ...], Tensor], code: list[Stmt]
    ) -> PrimExpr:
        """A variable for *load* at row *r* and vector *v*, declared where it is first needed."""
        access = next(a for a in self.loads if a.load is load)
        placed = at(load, self.places(r, v))
        moves = bool(access.steps[self.columns.axis])
        by_row = self.row is not None and bool(access.steps[self.row.axis])
        key = (load, r if by_row else 0, v if moves else 0)
        if key not in known:
            shape = (self.lanes,) if moves else ()
            known[key] = placeholder(shape, load.dtype, f"{load.tensor.name}_{v if moves else r}")
            if moves:
                held = self.height > 1 and not by_row
                code.append(Alloc(known[key], placed, vector=True, lane=self.lane, held=held))
            else:
                code.append(Alloc(known[key], placed))
        return known[key][self.lane] if moves else known[key][()]

    def finish(self) -> list[Stmt]:
        """Store the sums, or first put them where the epilogue can take them one by one."""
        if self.nest.value is self.reduce:
            return [
                VectorStore(self.nest.stage, [at(i, places) for i in self.nest.indices], t[self.lane], self.lane)
                for (r, v), t in self.acc.items()
                for places in [self.places(r, v)]
            ]
        width = self.columns.count
        sums = placeholder((self.height, width), self.reduce.dtype, "sums")
        code: list[Stmt] = [Alloc(sums)]
        for (r, v), t in self.acc.items():
            place = (const(r, INDEX), self.lane + v * self.lanes)
            code.append(VectorStore(sums, place, t[self.lane], self.lane))
        y, x = Index("y", self.height), Index("x", width)
        places: dict[Index, PrimExpr] = {self.columns.axis: self.columns.start + x}
        if self.row is not None:
            places[self.row.axis] = self.row.start + y
        return [*code, *loops([y, x], [epilogue(self.nest, self.reduce, sums[y, x], places)])]


def _dot_axis(reduce: Reduce, loads: Sequence[Access], machine: Machine) -> Index | None:
    """The innermost summed axis if it is long and every operand is contiguous along it or stands still.

    One of free size is taken for products of operands.
    """
    axis = reduce.axes[-1]
    lanes = machine.lanes(dtype_bytes(reduce.dtype))
    fits = 2 * lanes <= axis.extent if isinstance(axis.extent, int) else len(loads) > 1
    return axis if fits and all(a.steps[axis] in (0, 1) for a in loads) else None


def _dots(nest: Nest, reduce: Reduce, loads: Sequence[Access], axis: Index, machine: Machine) -> list[Stmt]:
    from byoc.codegen.c.tiling.dots import dot_nest

    moving = [a for a in nest.axes if a.extent != 1]
    columns = moving[-1] if moving else None
    rows = next((a for a in reversed(moving) if a is not columns and _apart(a, columns, loads)), None)
    tile = dot_tile(_count(rows), _count(columns), machine)
    nests: list[tuple[Nest, list[Block]]] = [(nest, [])]
    for a, count in zip((rows, columns), tile, strict=True):
        if a is None or (count == 1 and not isinstance(a.extent, int)):
            continue
        rest = [] if isinstance(a.extent, int) else [(_remaining(n, a, count), blocks) for n, blocks in nests]
        nests = [*((n, [*blocks, block_of(a, count)]) for n, blocks in nests), *rest]
    sums = [(n, single_sum(n), blocks) for n, blocks in nests]
    return [s for n, own, blocks in sums if own is not None for s in dot_nest(n, own, own.axes[-1], blocks, machine)]


def _count(axis: Index | None) -> int:
    """The positions of *axis*; of a free one as many as make the best tile for many."""
    if axis is None:
        return 1
    return axis.extent if isinstance(axis.extent, int) else MANY


def _remaining(nest: Nest, axis: Index, count: int) -> Nest:
    """What whole blocks of *count* positions leave of *nest* along *axis*, of free size."""
    rest = Index(axis.name, as_index(axis.extent) % count)
    moved = {axis: binary("add", rest, as_index(axis.extent) // count * count)}
    axes = tuple(rest if a is axis else a for a in nest.axes)
    return Nest(nest.stage, axes, tuple(at(i, moved) for i in nest.indices), at(nest.value, moved))


def _apart(a: Index, b: Index | None, loads: Sequence[Access]) -> bool:
    """True when no operand moves along both axes, so that a block of the two shares loads."""
    return b is not None and all(x.steps[a] == 0 or x.steps[b] == 0 for x in loads)
