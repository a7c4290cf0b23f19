"""The kernel of a product with matrix units: lines of terms in local memory, sums in the registers of warps.

A work-item moves chunks of 16 bytes, neighbouring terms of one lane: each goes from memory to registers while the
group multiplies the present step, and from there, as the unit's numbers, to local memory, which has both steps. Terms
beyond the last are 0 in both operands; lanes beyond the last repeat it, and their sums are not stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.loops import UNROLL, Alloc, For, Stmt, Store
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, Range, unravel
from byoc.codegen.opencl.device.statements import LocalArray, LocalItem, StoreVector, WorkGroup
from byoc.codegen.opencl.products.matrix_format import COLUMNS, ROWS, WARP
from byoc.codegen.opencl.products.matrix_statements import (
    PAIRED,
    ChunkToLocal,
    MatrixStep,
    SeeStored,
    VectorLoad,
    VectorRegisters,
    vectors_of,
)
from byoc.codegen.opencl.products.matrix_terms import ChunkTerms, DirectLoad, Terms
from byoc.codegen.opencl.products.matrix_tile import MatrixTile
from byoc.codegen.opencl.products.shape import BlockProduct, Operand
from byoc.codegen.opencl.products.tiled import TiledProduct
from byoc.te import Index, PrimExpr, Tensor, const, placeholder
from byoc.te.expr import Select
from byoc.te.walk import map_expr


def matrix_kernel(
    p: BlockProduct, tile: MatrixTile, simplify: Simplifier, units: str, when: tuple[Range, ...] = ()
) -> KernelPlan:
    """The kernel that computes *p* by *tile* on *units*, for calls in which all of *when* holds."""
    return MatrixKernel(p, tile, simplify, units).plan(when)


@dataclass(frozen=True)
class Chunk:
    """What a work-item moves of one lane in each step: its *registers*, a set for each step that is on its way, the
    lane's *line* in local memory, and where.

    *number* is which chunk of the line it is, *key* what is equal for chunks of the same number; *value* is over the
    axes of the terms. With *direct* the registers are vectors, which memory has as they are.
    """

    registers: tuple[tuple[Tensor, ...], ...]
    line: PrimExpr
    number: PrimExpr
    key: int
    value: PrimExpr
    direct: DirectLoad | None

    def declared(self) -> list[Stmt]:
        """The declarations of its registers."""
        flat = [r for own in self.registers for r in own]
        if not flat:
            return []
        return [Alloc(r) for r in flat] if self.direct is None else [VectorRegisters(flat, self.direct.raw)]


Chunks = Mapping[Tensor, Sequence[Chunk]]  # by where they go in local memory


class MatrixKernel(TiledProduct):
    """Operands by registers; another way to local memory has its own :meth:`steps_of`."""

    sets: int  # of registers of a chunk

    def __init__(self, p: BlockProduct, tile: MatrixTile, simplify: Simplifier, units: str):
        super().__init__(p, tile.rows, tile.columns, tile.points, simplify)
        self.tile, self.units = tile, units
        self.format = tile.format
        self.item = Index("item", tile.items)
        self.all_terms = Terms.of(p.reduce.axes, self.format, tile.points, simplify)
        self.sets = 0 if tile.copied else tile.ahead
        self.left = placeholder((tile.sides, tile.rows, tile.line), "uint32", "left")
        self.right = placeholder((tile.sides, tile.columns, tile.line), "uint32", "right")
        self.sums = placeholder((tile.high, tile.wide, 4), self.dtype, "sums")

    def plan(self, when: tuple[Range, ...]) -> KernelPlan:
        p, tile = self.p, self.tile
        before: list[Stmt] = []
        left = self._chunks(p.left, "l", tile.rows, self.row_block, before)
        right = self._chunks(p.right, "r", tile.columns, self.column_block, before)
        chunks = {self.left: left, self.right: right}
        statements: list[Stmt] = [
            LocalArray(self.left, tile.alignment),
            LocalArray(self.right, tile.alignment),
            WorkGroup(self.group),
            *unravel(self.group, self.order),
            LocalItem(self.item),
            *before,
            Alloc(self.sums, const(0, self.dtype)),
            *(stmt for c in (*left, *right) for stmt in c.declared()),
            *self.steps_of(chunks),
            *self._store(),
        ]
        return KernelPlan(f"matrix{tile}", statements, self.extent, True, when, tile.items)

    def steps_of(self, chunks: Chunks) -> Sequence[Stmt]:
        """The loop over the steps, in which what a work-item moves goes to local memory, and the sums grow."""
        return self.pipeline(
            self.tile.ahead,
            lambda step, k: self._load(chunks, step, k),
            lambda side, k: self._to_local(chunks, side, k),
            lambda side: [self.multiply(side)],
        )

    def multiply(self, side: PrimExpr) -> Stmt:
        """The products of the step that *side* of local memory has."""
        return MatrixStep(self.sums, self.left, self.right, side, self.item, self.tile, self.units)

    def _chunks(self, operand: Operand, name: str, lanes: int, block: Index, before: list[Stmt]) -> list[Chunk]:
        """What one work-item moves of *operand*, whose tile has so many *lanes*."""
        items, item, per_lane = self.tile.items, self.item, self.tile.chunks
        lanes_at: dict[int, list[Index]] = {}
        direct = DirectLoad.of(operand, self.all_terms, self.simplify)
        chunks = []
        for k in range(lanes * per_lane // items):
            if not operand.by_lane or direct is not None:
                lane, number, lane_key, key = item // per_lane + k * (items // per_lane), item % per_lane, k, 0
            elif items >= lanes:
                lane, number, lane_key, key = item % lanes, item // lanes + k * (items // lanes), 0, k
            else:
                rounds = lanes // items
                lane, number, lane_key, key = item + k % rounds * items, as_index(k // rounds), k % rounds, k // rounds
            if lane_key not in lanes_at:
                lanes_at[lane_key] = self.lane_axes(operand.lanes, f"{name}{lane_key}", lane, lanes, block, before)
            count = self.format.chunk if direct is None else vectors_of(self.format, direct)
            registers = tuple(
                tuple(placeholder((), "float32", f"{name}{k}_{j}_{n}") for j in range(count)) for n in range(self.sets)
            )
            value = substitute_axes(operand.value, operand.lanes, lanes_at[lane_key])
            own = None if direct is None else direct.over(operand.lanes, lanes_at[lane_key])
            chunks.append(Chunk(registers, lane, number, key, value, own))
        return chunks

    def _load(self, chunks: Chunks, step: PrimExpr, k: int) -> list[Stmt]:
        """The chunks of both operands at *step* go into the *k*-th registers."""
        statements: list[Stmt] = []
        for tensor, own in chunks.items():
            known: dict[int, ChunkTerms] = {}
            for c in own:
                if c.key not in known:
                    known[c.key] = self.all_terms.at(step, c.number, f"{tensor.name[0]}{c.key}_{k}")
                    statements += known[c.key].before
                statements += self._chunk_loaded(c, known[c.key], c.registers[k])
        return statements

    def _chunk_loaded(self, chunk: Chunk, terms: ChunkTerms, registers: Sequence[Tensor]) -> list[Stmt]:
        axes = self.p.reduce.axes
        if chunk.direct is not None:
            direct = chunk.direct.over(axes, terms.indices[0])
            exists = [] if terms.inside[0] is None else [terms.inside[0]]
            return [VectorLoad(registers, direct, [*exists, *direct.guards])]
        loaded: list[Stmt] = []
        for register, indices, inside in zip(registers, terms.indices, terms.inside, strict=True):
            value = substitute_axes(chunk.value, axes, indices)
            if inside is not None:
                value = Select(inside, value, const(0, value.dtype))
            loaded.append(Store(register, (), value))
        return loaded

    def _to_local(self, chunks: Chunks, side: PrimExpr, k: int) -> list[Stmt]:
        stored: list[Stmt] = [
            ChunkToLocal(tensor, (side, c.line, c.number), c.registers[k], self.tile, self.units, c.direct)
            for tensor, own in chunks.items()
            for c in own
        ]
        return [*stored, SeeStored(self.units)] if self.tile.warpgroups else stored

    def _stores_pairs(self) -> Index | None:
        """The axis of the columns where an even one and the next lie side by side, where a vector may begin."""
        p = self.p
        moving = [a for a in p.columns if a.extent != 1]
        if len(moving) != 1 or p.nest.stage.dtype not in PAIRED or not self.divides(self.count(p.columns), 2):
            return None
        place = self.simplify.flat_index(p.nest.stage, p.nest.indices)
        rest = place.terms.values()
        odd = [n for n in (place.constant, *rest) if n % 2]
        return moving[0] if place.coefficient(moving[0]) == 1 and odd == [1] else None

    def _store(self) -> list[Stmt]:
        """The epilogue of each sum: of an instruction's 16 by 8, a work-item has two neighbours in two rows."""
        p, tile = self.p, self.tile
        lane, warp = self.item % WARP, self.item // WARP
        high, lower, wide, next_ = (
            Index(name, n) for name, n in (("high", tile.high), ("lower", 2), ("wide", tile.wide), ("next", 2))
        )
        row = warp // tile.across * (tile.high * ROWS) + (high * ROWS + lower * 8) + lane // 4
        column = warp % tile.across * (tile.wide * COLUMNS) + wide * COLUMNS + lane % 4 * 2
        place = self.column_block * tile.columns + column

        def value(neighbour: PrimExpr) -> PrimExpr:
            sums = self.sums[high, wide, lower * 2 + neighbour]
            return map_expr(p.nest.value, lambda e: sums if e is p.reduce else None)

        pair = self._stores_pairs()
        if pair is not None:
            values = value(as_index(0)), substitute_axes(value(as_index(1)), [pair], [pair + 1])
            both = StoreVector(p.nest.stage, p.nest.indices, values)
            stores: list[Stmt] = self.at_lane("column", p.columns, place, tile.columns, [both])
        else:
            one = Store(p.nest.stage, p.nest.indices, value(next_))
            stores = [For(next_, 2, self.at_lane("column", p.columns, place + next_, tile.columns, [one]), UNROLL)]
        inner = For(wide, wide.extent, stores, UNROLL)
        at_row = self.at_lane("row", p.rows, self.row_block * tile.rows + row, tile.rows, [inner])
        return [For(high, high.extent, [For(lower, 2, at_row, UNROLL)], UNROLL)]
