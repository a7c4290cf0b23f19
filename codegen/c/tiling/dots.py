"""Tiles of dot products: the lanes run along a summed axis, a block of two output axes shares the loads.

Each sum is kept as one vector of partial sums, added up once at the end; what does not fill a vector is added to that,
element by element.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from byoc.codegen.c.tiling.blocks import Block, at, epilogue, int_or
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.loops import AddLanes, Alloc, For, Stmt, Store, VectorStore
from byoc.codegen.kernel.reductions import loops
from byoc.codegen.kernel.simplify import as_index
from byoc.ir.types import dtype_bytes
from byoc.te import Index, PrimExpr, Tensor, binary, const, minimum, placeholder
from byoc.te.expr import INDEX, Binary, Const, Reduce
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, mentions

Position = tuple[int, ...]
CHUNK = 4  # blocks of columns


def dot_nest(nest: Nest, reduce: Reduce, axis: Index, blocks: Sequence[Block], machine: Machine) -> list[Stmt]:
    """The loop nest of *nest* whose lanes run along *axis*, with a tile over *blocks* (at most two)."""
    body = _DotTile(nest, reduce, axis, blocks, machine).statements()
    blocked = {b.axis for b in blocks}
    if len(blocks) == 2 and not any(b.overlaps for b in blocks) and not isinstance(blocks[1].loop.extent, int):
        body = _in_chunks(blocks[0], blocks[1], body)
    else:
        for block in reversed(blocks):
            body = [block.over(body)]
    return loops([a for a in nest.axes if a not in blocked], body)


def _in_chunks(rows: Block, columns: Block, body: Sequence[Stmt]) -> list[Stmt]:
    """*body* at all blocks, a few of the *columns* at all rows before the next: their operand stays in the cache."""
    count = as_index(columns.loop.extent)
    chunk = Index(f"{columns.axis.name}_chunk", int_or((count + (CHUNK - 1)) // CHUNK))
    end = minimum(chunk * CHUNK + CHUNK, count)
    inner = For(columns.loop, end, [columns.let(), *body], start=chunk * CHUNK)
    return [For(chunk, chunk.extent, [rows.over([inner])])]


class _DotTile:
    def __init__(self, nest: Nest, reduce: Reduce, axis: Index, blocks: Sequence[Block], machine: Machine):
        self.nest, self.reduce, self.axis, self.blocks = nest, reduce, axis, blocks
        self.lanes = machine.lanes(dtype_bytes(reduce.dtype))
        whole = binary("div", as_index(axis.extent), self.lanes)
        self.steps, self.left = int_or(whole), int_or(binary("mod", as_index(axis.extent), self.lanes))
        self.positions: list[Position] = list(itertools.product(*(range(b.count) for b in blocks)))
        self.acc = {
            p: placeholder((self.lanes,), reduce.dtype, "_".join(("acc", *map(str, p)))) for p in self.positions
        }
        self.sums = placeholder([b.count for b in blocks], reduce.dtype, "sums")

    def places(self, position: Position) -> dict[Index, PrimExpr]:
        """The output axes at *position* of the tile."""
        return {b.axis: b.start + k for b, k in zip(self.blocks, position, strict=True)}

    def statements(self) -> list[Stmt]:
        others = [a for a in self.reduce.axes if a is not self.axis]
        step = Index(self.axis.name, self.steps)
        code: list[Stmt] = [Alloc(t, const(0, t.dtype), vector=True) for t in self.acc.values()]
        code += loops([*others, step], self.step(step))
        code.append(Alloc(self.sums))
        code += [AddLanes(self.sums, _numbers(p), t) for p, t in self.acc.items()]
        if self.left != 0:
            rest = Index(self.axis.name, self.left)
            code += loops([*others, rest], self.tail(rest))
        return [*code, *self.finish()]

    def step(self, step: Index) -> list[Stmt]:
        """One vector of every sum; each operand is loaded once."""
        lane = Index("lane", self.lanes)
        code: list[Stmt] = []
        known: dict[tuple[object, ...], Tensor] = {}
        for position, acc in self.acc.items():
            places = {**self.places(position), self.axis: step * self.lanes + lane}

            def leaf(e: PrimExpr, places: dict[Index, PrimExpr] = places) -> PrimExpr | None:
                return self.operand(e, places, lane, known, code) if isinstance(e, Load) else None

            value = binary("add", acc[lane], map_expr(self.reduce.body, leaf))
            code.append(VectorStore(acc, (lane,), value, lane))
        return code

    def operand(
        self,
        load: Load,
        places: dict[Index, PrimExpr],
        lane: Index,
        known: dict[tuple[object, ...], Tensor],
        code: list[Stmt],
    ) -> PrimExpr:
        """A variable for *load*; positions at which it reads the same elements share one."""
        moving = [b.axis for b in self.blocks if mentions(load, b.axis)]
        key = (load, *(_offset(places[a]) for a in moving))
        along = mentions(load, self.axis)
        if key not in known:
            name = "_".join((load.tensor.name, *(str(k) for k in key[1:])))
            known[key] = placeholder((self.lanes,) if along else (), load.dtype, name)
            held = along and any(b.axis not in moving and b.count > 1 for b in self.blocks)
            code.append(Alloc(known[key], at(load, places), vector=along, lane=lane if along else None, held=held))
        return known[key][lane] if along else known[key][()]

    def tail(self, rest: Index) -> list[Stmt]:
        """What does not fill a vector."""
        start = as_index(self.steps) * self.lanes
        return [
            Store(self.sums, _numbers(p), binary("add", self.sums(*p), at(self.reduce.body, places)))
            for p in self.positions
            for places in [{**self.places(p), self.axis: rest + start}]
        ]

    def finish(self) -> list[Stmt]:
        axes = [Index(f"x{k}", b.count) for k, b in enumerate(self.blocks)]
        places: dict[Index, PrimExpr] = {b.axis: b.start + x for b, x in zip(self.blocks, axes, strict=True)}
        return loops(axes, [epilogue(self.nest, self.reduce, self.sums(*axes), places)])


def _numbers(position: Position) -> tuple[PrimExpr, ...]:
    return tuple(const(k, INDEX) for k in position)


def _offset(place: PrimExpr) -> int:
    """The number added to the start of a block."""
    if isinstance(place, Index):
        return 0
    assert isinstance(place, Binary) and isinstance(place.right, Const)
    return int(place.right.value)
