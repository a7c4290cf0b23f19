"""The kernel of a product: operands through local memory, sums in registers, the epilogue where a sum is complete.

Each work-item fetches its share of the next step's operands into registers while the group computes the present one;
local memory has both steps, so that one barrier a step is enough. Terms beyond the last are 0 in both operands; rows
and columns beyond the last repeat it, and their sums are not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.loops import UNROLL, Alloc, For, LetStmt, Stmt, Store
from byoc.codegen.kernel.reductions import combine
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, Range, unravel
from byoc.codegen.opencl.device.statements import CopyVector, LocalArray, LocalItem, WorkGroup
from byoc.codegen.opencl.products.shape import BlockProduct, Operand
from byoc.codegen.opencl.products.tile import VECTOR, DeviceTile
from byoc.codegen.opencl.products.tiled import TiledProduct, axes_at
from byoc.te import Index, PrimExpr, Tensor, binary, const, placeholder
from byoc.te.expr import Select
from byoc.te.walk import map_expr


def product_kernel(p: BlockProduct, tile: DeviceTile, simplify: Simplifier, when: tuple[Range, ...] = ()) -> KernelPlan:
    """The kernel that computes *p* by *tile*, for calls in which all of *when* holds."""
    return _ProductKernel(p, tile, simplify).plan(when)


LaneOf = Callable[[int], PrimExpr]


@dataclass(frozen=True)
class _Fetch:
    """One element that a work-item brings to local memory in each step: its registers, one for each step that is on its
    way, and where it lies in the tile.

    *value* is over *points*, the axes of the terms, which all fetches of one *term* share.
    """

    registers: tuple[Tensor, ...]
    lane: PrimExpr
    point: PrimExpr
    value: PrimExpr
    term: int
    points: tuple[Index, ...]


@dataclass(frozen=True)
class _Fetches:
    """What a work-item fetches of one operand, and the statements *before* the loop that say where its lanes are."""

    before: Sequence[Stmt]
    fetches: Sequence[_Fetch]


class _ProductKernel(TiledProduct):
    def __init__(self, p: BlockProduct, tile: DeviceTile, simplify: Simplifier):
        super().__init__(p, tile.rows, tile.columns, tile.points, simplify)
        self.tile = tile
        self.item = Index("item", tile.items)
        lines = (2, tile.points)
        self.left = placeholder((*lines, tile.line(tile.rows)), self.dtype, "left")
        self.right = placeholder((*lines, tile.line(tile.columns)), self.dtype, "right")
        self.sums = placeholder((tile.item_rows, tile.item_columns), self.dtype, "sums")

    def plan(self, when: tuple[Range, ...]) -> KernelPlan:
        p, tile = self.p, self.tile
        left = self._fetches(p.left, "l", tile.rows, self.row_block)
        right = self._fetches(p.right, "r", tile.columns, self.column_block)
        statements: list[Stmt] = [
            LocalArray(self.left),
            LocalArray(self.right),
            WorkGroup(self.group),
            *unravel(self.group, self.order),
            LocalItem(self.item),
            *left.before,
            *right.before,
            Alloc(self.sums, const(0, self.dtype)),
            *(Alloc(r) for f in (*left.fetches, *right.fetches) for r in f.registers),
            *self.pipeline(
                tile.ahead,
                lambda step, k: self._load(left.fetches, right.fetches, step, k),
                lambda side, k: self._to_local(left.fetches, right.fetches, side, k),
                self._multiply,
            ),
            *self._store(),
        ]
        return KernelPlan(f"product{tile}", statements, self.extent, True, when, tile.items)

    def _fetches(self, operand: Operand, name: str, lanes: int, block: Index) -> _Fetches:
        """What one work-item fetches of *operand*, whose tile has so many *lanes*."""
        tile, item, terms = self.tile, self.item, self.p.reduce.axes
        fast, _ = (lanes, tile.points) if operand.by_lane else (tile.points, lanes)
        before: list[Stmt] = []
        lanes_at: dict[int, list[Index]] = {}
        points_at: dict[int, tuple[Index, ...]] = {}
        fetches = []
        for k in range(lanes * tile.points // tile.items):
            if tile.items >= fast:
                quick: PrimExpr = item % fast
                quick_key, slow_key = 0, k
                other: PrimExpr = item // fast + k * (tile.items // fast)
            else:
                rounds = fast // tile.items
                quick, quick_key, slow_key = item + k % rounds * tile.items, k % rounds, k // rounds
                other = as_index(k // rounds)
            lane, point = (quick, other) if operand.by_lane else (other, quick)
            at_lane, at_point = (quick_key, slow_key) if operand.by_lane else (slow_key, quick_key)
            if at_lane not in lanes_at:
                lanes_at[at_lane] = self.lane_axes(operand.lanes, f"{name}{at_lane}", lane, lanes, block, before)
            if at_point not in points_at:
                points_at[at_point] = tuple(Index(f"{a.name}_{name}{at_point}", a.extent) for a in terms)
            value = substitute_axes(operand.value, [*operand.lanes, *terms], [*lanes_at[at_lane], *points_at[at_point]])
            names = [f"{name}{k}" if n == 0 else f"{name}{k}_{n}" for n in range(tile.ahead)]
            registers = tuple(placeholder((), self.dtype, own) for own in names)
            fetches.append(_Fetch(registers, lane, point, value, at_point, points_at[at_point]))
        return _Fetches(before, fetches)

    def _load(self, left: Sequence[_Fetch], right: Sequence[_Fetch], step: PrimExpr, k: int) -> list[Stmt]:
        """The elements of both operands at *step* go into the *k*-th registers."""
        statements: list[Stmt] = []
        whole = self.divides(self.terms, self.tile.points)
        for fetches in (left, right):
            terms: dict[int, Index] = {}
            for fetch in fetches:
                if fetch.term not in terms:
                    terms[fetch.term] = flat = Index("term", self.terms + self.tile.points)
                    statements += [LetStmt(flat, step * self.tile.points + fetch.point), *axes_at(flat, fetch.points)]
                value = fetch.value
                if not whole:
                    value = Select(binary("lt", terms[fetch.term], self.terms), value, const(0, self.dtype))
                statements.append(Store(fetch.registers[k], (), value))
        return statements

    def _to_local(self, left: Sequence[_Fetch], right: Sequence[_Fetch], side: PrimExpr, k: int) -> list[Stmt]:
        return [
            Store(tensor, (side, f.point, f.lane), f.registers[k][()])
            for tensor, fetches in ((self.left, left), (self.right, right))
            for f in fetches
        ]

    def _multiply(self, side: PrimExpr) -> list[Stmt]:
        tile = self.tile
        a, b = (placeholder((n,), self.dtype, name) for n, name in ((tile.item_rows, "a"), (tile.item_columns, "b")))
        point = Index("point", tile.points)
        body: list[Stmt] = [Alloc(a), Alloc(b)]
        body += self._registers(a, self.left, side, point, lambda k: self._down() * tile.item_rows + k)
        body += self._registers(b, self.right, side, point, self._column)
        row, column = Index("row", tile.item_rows), Index("column", tile.item_columns)
        total = combine("sum", self.sums[row, column], binary("mul", a[row], b[column]))
        body.append(
            For(row, row.extent, [For(column, column.extent, [Store(self.sums, (row, column), total)], UNROLL)], UNROLL)
        )
        return [For(point, tile.points, body, UNROLL)]

    def _registers(self, target: Tensor, source: Tensor, side: PrimExpr, point: Index, lane: LaneOf) -> list[Stmt]:
        """The elements of one line of *source* that this work-item multiplies."""
        count = int(target.shape[0])
        width = min(count, VECTOR)
        return [CopyVector(target, k, source, (side, point, lane(k)), width) for k in range(0, count, width)]

    def _across(self) -> PrimExpr:
        return self.item % self.tile.across

    def _down(self) -> PrimExpr:
        return self.item // self.tile.across

    def _column(self, k: int) -> PrimExpr:
        """Where the *k*-th column of a work-item lies in the tile: neighbours have neighbouring vectors."""
        width = min(self.tile.item_columns, VECTOR)
        return self._across() * width + (k // width * width * self.tile.across + k % width)

    def _store(self) -> list[Stmt]:
        """The epilogue of each sum."""
        p, tile = self.p, self.tile
        width = min(tile.item_columns, VECTOR)
        row, part, column = (
            Index("row", tile.item_rows),
            Index("part", tile.item_columns // width),
            Index("column", width),
        )
        place_row = self.row_block * tile.rows + (self._down() * tile.item_rows + row)
        across = part * (width * tile.across) + (self._across() * width + column)
        place_column = self.column_block * tile.columns + across
        value = map_expr(p.nest.value, lambda e: self.sums[row, part * width + column] if e is p.reduce else None)
        store = Store(p.nest.stage, p.nest.indices, value)
        body = self.at_lane("column", p.columns, place_column, tile.columns, [store])
        inner = For(part, part.extent, [For(column, width, body, UNROLL)], UNROLL)
        return [For(row, row.extent, self.at_lane("row", p.rows, place_row, tile.rows, [inner]), UNROLL)]
