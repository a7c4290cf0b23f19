"""The loop nest of a contraction: blocks of rows and lanes over the team, in each a tile's sums, then its epilogue.

Every element is stored by one tile, and its terms are added in the same order whatever the tile and the team. Blocks at
the end of the row axis have a tile of their own; blocks at the end of the lane axis compute whole vectors over a panel,
which is padded, and store what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.codegen.c.contraction.guards import loop_bounds
from byoc.codegen.c.contraction.shape import PANEL, Contraction
from byoc.codegen.c.contraction.tile_choice import CACHE_BYTES, Tile
from byoc.codegen.c.contraction.word_products import with_term
from byoc.codegen.c.tiling.access import Access
from byoc.codegen.c.tiling.blocks import at, int_or
from byoc.codegen.c.tiling.team import shared_over
from byoc.codegen.kernel.inline import estimated_size
from byoc.codegen.kernel.loops import Alloc, For, IfThenElse, LetStmt, Prefetch, Stmt, VectorStore
from byoc.codegen.kernel.reductions import loops
from byoc.codegen.kernel.simplify import as_index
from byoc.ir.types import dtype_bytes
from byoc.te import Index, PrimExpr, Tensor, binary, const, placeholder
from byoc.te.expr import INDEX, Binary, Dimension, Intrinsic, Reduce, Select
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes

SHORT_EPILOGUE = 12  # operations that are written out for every vector of a tile
LONG_FUNCTION = 16  # operations of an exponential and its like
CACHE_LINE = 64  # bytes
FEWEST_STREAMED = 1 << 15  # bytes of panels that are worth fetching ahead
ENOUGH_PARTS = 32  # blocks to share among a team; more loops are not flattened for more


def contraction_nest(c: Contraction, tile: Tile, alone: bool = False) -> list[Stmt]:
    """The statements that fill the buffer of *c*'s stage, shared among the team, or for one thread *alone*."""
    blocks = Blocks(c, tile)
    return blocks.by_one() if alone else blocks.statements()


class Blocks:
    """The loops over the blocks. A kind of tile that is not computed in vectors has its own :meth:`tiles`."""

    def __init__(self, c: Contraction, tile: Tile):
        self.c, self.tile = c, tile
        self.lane_block = Index(f"{c.lane.name}_block", -(-int(c.lane.extent) // tile.width))
        rows = as_index(c.row_count)
        self.row_block = Index("row_block", int_or(binary("div", rows + (tile.rows - 1), tile.rows)))
        own = [a for a in c.batch if a not in c.shared_batch]
        inner = [*c.shared_batch, self.row_block]
        self.order = [*own, self.lane_block, *inner] if tile.lanes_first else [*own, *inner, self.lane_block]
        self.order = [a for a in self.order if a.extent != 1]

    def by_one(self) -> list[Stmt]:
        """One loop for each kind of block."""
        return loops(self.order, self.tiles())

    def statements(self) -> list[Stmt]:
        """The first loops as one shared index, until there are blocks enough; the others inside."""
        count, together = 1, 0
        while together < len(self.order) and count < ENOUGH_PARTS:
            extent = self.order[together].extent
            count *= extent if isinstance(extent, int) else 1  # it may be one
            together += 1
        return shared_over(self.order[:together], loops(self.order[together:], self.tiles()))

    def tiles(self) -> list[Stmt]:
        """The tile at one block: the common one, the one for what remains of the rows, and those at borders."""
        c, height = self.c, self.tile.rows
        if c.row is None:
            return self._body(1, None).statements()
        start = Index(c.row.name, c.row.extent)
        place = LetStmt(start, self.row_block * height)
        if not isinstance(c.row.extent, int):
            return [place, *self._rows_of_unknown_number(start)]
        full, remaining = divmod(c.row.extent, height)
        borders = border_blocks(c, height)
        code: list[Stmt] = [place]
        for number in borders:
            rows = height if number < full else remaining
            static = self._body(rows, start, number * height).statements()
            code.append(IfThenElse(binary("eq", self.row_block, const(number, INDEX)), static))
        inside = [n for n in range(full) if n not in borders]
        if inside:
            code.append(IfThenElse(self.among(inside), self._body(height, start).statements()))
        if remaining and full not in borders:
            code.append(IfThenElse(self.row_block >= full, self._body(remaining, start).statements()))
        return code

    def among(self, numbers: Sequence[int]) -> PrimExpr:
        """The condition that this block is one of *numbers*, which have no gap."""
        return binary("and", self.row_block >= numbers[0], self.row_block < numbers[-1] + 1)

    def _rows_of_unknown_number(self, start: Index) -> list[Stmt]:
        """Whole tiles, and what remains of the rows in tiles of eight, four, two and one: each at most once."""
        c, height = self.c, self.tile.rows
        assert c.row is not None
        left = as_index(c.row.extent) - start
        code: list[Stmt] = [IfThenElse(left >= height, self._body(height, start).statements())]
        rest: list[Stmt] = []
        rows = 1 << max((height - 1).bit_length() - 1, 0)
        while rows and height > 1:
            first = Index(c.row.name, c.row.extent)
            before = binary("mul", binary("div", left, 2 * rows), 2 * rows)  # those that larger tiles have done
            has_some = binary("ge", binary("mod", left, 2 * rows), rows)
            rest.append(IfThenElse(has_some, [LetStmt(first, start + before), *self._body(rows, first).statements()]))
            rows //= 2
        return [*code, IfThenElse(left < height, rest)] if rest else code

    def _body(self, rows: int, start: Index | None, number: int | None = None) -> TileBody:
        return TileBody(self.c, self.tile, rows, start, self.lane_block, number)


def border_blocks(c: Contraction, height: int) -> list[int]:
    """The blocks of *height* rows in which a guard does not hold for some row and term: their starts are known."""
    if c.row is None or not isinstance(c.row.extent, int):
        return []
    guards = [g for g in c.guards if g.position is c.row]
    found = {
        row // height
        for row in range(c.row.extent)
        for g in guards
        for k in range(int(g.axis.extent))
        if not g.holds(row, k)
    }
    return sorted(found)


def terms_written_out(c: Contraction, height: int) -> int:
    """How many terms the code of the tiles at borders names one by one, instead of in a loop."""
    axes = dict.fromkeys(g.axis for g in c.guards if g.position is not None and g.position is c.row)
    return len(border_blocks(c, height)) * estimated_size([a.extent for a in axes])


class TileBody:
    """One tile: *height* rows from *start* on, at the lanes of *block*; at a border *start* is the number *known*."""

    def __init__(
        self, c: Contraction, tile: Tile, height: int, start: Index | None, block: Index, known: int | None = None
    ):
        self.c, self.tile, self.height, self.start, self.block, self.known = c, tile, height, start, block, known
        self.lane = Index("lane", tile.lanes)
        self.ahead = _streamed(c, tile)
        self.step, self.share = Index("step", tile.width + 1), Index("share", 2 * tile.width * c.points)
        dtype = c.reduce.dtype
        self.sums = {
            (r, v): placeholder((tile.lanes,), dtype, f"sum_{r}_{v}")
            for r in range(height)
            for v in range(tile.vectors)
        }

    def places(self, r: int, v: int) -> dict[Index, PrimExpr]:
        """The axes at row *r* of the tile and at the lanes of vector *v*."""
        result: dict[Index, PrimExpr] = {self.c.lane: self.block * self.tile.width + (self.lane + v * self.tile.lanes)}
        if self.c.row is not None and self.start is not None:
            result[self.c.row] = self.start + r
        return result

    def statements(self) -> list[Stmt]:
        allocs: list[Stmt] = [Alloc(t, const(0, t.dtype), vector=True) for t in self.sums.values()]
        terms = self.summed(self.c.reduce.axes, {}, range(self.height))
        return [*allocs, *self._ahead_places(), *terms, *self.finish()]

    def summed(self, axes: Sequence[Index], fixed: dict[Index, PrimExpr], rows: Sequence[int]) -> list[Stmt]:
        """The terms of *rows* over *axes*: within the guards' bounds, term by term where these differ by row."""
        if not axes:
            return self.terms(fixed, rows)
        axis, inner = axes[0], axes[1:]
        by_row = [g for g in self.c.guards if g.axis is axis and g.position is not None and g.position is self.c.row]
        if by_row and self.known is not None:
            code: list[Stmt] = []
            for k in range(int(axis.extent)):
                alive = [r for r in rows if all(g.holds(self.known + r, k) for g in by_row)]
                if alive:
                    code += self.summed(inner, {**fixed, axis: const(k, INDEX)}, alive)
            return code
        start, end = loop_bounds([g for g in self.c.guards if g not in by_row], axis, {})
        return [For(axis, int_or(end), self.summed(inner, fixed, rows), start=int_or(start))]

    def terms(self, fixed: dict[Index, PrimExpr], rows: Sequence[int]) -> list[Stmt]:
        """One term of the sums of *rows*; what several sums share is loaded once."""
        code: list[Stmt] = []
        known: dict[tuple[object, ...], Tensor] = {}
        if self.ahead is not None:
            code += self._prefetch(self.ahead, fixed)
        for v in range(self.tile.vectors):
            for access in self.c.moving:
                if not self._by_row(access):
                    self.operand(access, (rows[0], v), fixed, known, code)
        for r in rows:
            for v in range(self.tile.vectors):

                def leaf(e: PrimExpr, r: int = r, v: int = v) -> PrimExpr | None:
                    if not isinstance(e, Load):
                        return None
                    access = next(a for a in (*self.c.moving, *self.c.standing) if a.load is e)
                    return self.operand(access, (r, v), fixed, known, code)

                total = self.sums[r, v]
                value = with_term(total[self.lane], map_expr(self.c.term, leaf))
                code.append(VectorStore(total, (self.lane,), value, self.lane))
        return code

    def _prefetch(self, access: Access, fixed: dict[Index, PrimExpr]) -> list[Stmt]:
        """A piece of the next panel at this term: the passes over the present one fetch it evenly, as it lies."""
        line = CACHE_LINE // dtype_bytes(access.load.dtype)
        term: PrimExpr = const(0, INDEX)
        for axis in self.c.reduce.axes:
            term = term * as_index(axis.extent) + fixed.get(axis, axis)
        turn, passes = self._passes()
        if isinstance(passes, int):
            step = -(-self.tile.width // passes)
            place, fetched = (turn * self.c.points + term) * step, range(0, step, line)
        else:
            place, fetched = self.share + term * self.step, range(1)  # a step is at most a line
        first: dict[Index, PrimExpr] = {a: const(0, INDEX) for a in self.c.reduce.axes}
        first[self.c.lane] = (self.block + 1) * self.tile.width
        *outer, last = (at(i, first) for i in access.load.indices)
        return [Prefetch(access.load.tensor, [*outer, last + place + k]) for k in fetched]

    def _passes(self) -> tuple[PrimExpr, Dimension]:
        """Which pass over the present panel this tile is, and how many there are."""
        assert self.start is not None
        turn = binary("div", self.start, self.tile.rows)
        passes: Dimension = binary("div", as_index(self.c.row_count) + (self.tile.rows - 1), self.tile.rows)
        for axis in reversed(self.c.shared_batch):
            turn, passes = turn + axis * passes, passes * axis.extent
        return turn, int_or(as_index(passes))

    def _ahead_places(self) -> list[Stmt]:
        """Where the number of passes is known only when it runs: what one of them fetches of the next panel, and where.

        As many passes as the panel is wide fetch an element at a term, fewer some more, at most a line. It is computed
        before the loop over terms, which then only moves a pointer.
        """
        if self.ahead is None or isinstance((found := self._passes())[1], int):
            return []
        turn, passes = found
        width, line = self.tile.width, CACHE_LINE // dtype_bytes(self.ahead.load.dtype)
        fetching = binary("min", binary("max", passes, -(-width // line)), width)
        last = binary("div", const(width - 1, INDEX), self.step)
        return [
            LetStmt(self.step, binary("div", fetching + (width - 1), fetching)),
            LetStmt(self.share, binary("min", turn, last) * self.c.points * self.step),
        ]

    def _by_row(self, access: Access) -> bool:
        return self.c.row is not None and access.steps[self.c.row] != 0

    def operand(
        self,
        access: Access,
        place: tuple[int, int],
        fixed: dict[Index, PrimExpr],
        known: dict[tuple[object, ...], Tensor],
        code: list[Stmt],
    ) -> PrimExpr:
        """A variable for a load at a row and a vector of the tile, declared where it is first needed."""
        r, v = place
        load, moves = access.load, access.steps[self.c.lane] != 0
        key = (load, r if self._by_row(access) else 0, v if moves else 0)
        if key not in known:
            shape = (self.tile.lanes,) if moves else ()
            known[key] = placeholder(shape, load.dtype, f"{load.tensor.name}_{v if moves else r}")
            placed = at(load, {**fixed, **self.places(r, v)})
            lane, held = (self.lane, self.height > 1 and not self._by_row(access)) if moves else (None, False)
            code.append(Alloc(known[key], placed, vector=moves, lane=lane, held=held))
        return known[key][self.lane] if moves else known[key][()]

    def finish(self) -> list[Stmt]:
        """The epilogue of every sum: on the registers where it is short, else in a loop over the sums in memory."""
        if _work(self.c.nest.value) <= SHORT_EPILOGUE:
            return self.by_end(lambda valid: [s for key, t in self.sums.items() for s in self._direct(key, t, valid)])
        sums = placeholder((self.height, self.tile.width), self.c.reduce.dtype, "sums")
        code: list[Stmt] = [Alloc(sums)]
        for (r, v), t in self.sums.items():
            place = (const(r, INDEX), self.lane + v * self.tile.lanes)
            code.append(VectorStore(sums, place, t[self.lane], self.lane))
        return [*code, *self.by_end(lambda valid: self.looped(sums, valid))]

    def by_end(self, stores: Callable[[int], list[Stmt]]) -> list[Stmt]:
        """*stores* of whole tiles, and where the last block of lanes ends raggedly, those of what it has."""
        width, extent = self.tile.width, int(self.c.lane.extent)
        last, rest = extent // width, extent % width
        if not rest:
            return stores(width)
        if not last:
            return stores(rest)
        return [IfThenElse(self.block < last, stores(width)), IfThenElse(self.block >= last, stores(rest))]

    def _direct(self, key: tuple[int, int], total: Tensor, valid: int) -> list[Stmt]:
        count = min(valid - key[1] * self.tile.lanes, self.tile.lanes)
        return [self._stored(total[self.lane], self.places(*key), count)] if count > 0 else []

    def looped(self, sums: Tensor, valid: int, first: PrimExpr | None = None) -> list[Stmt]:
        """The epilogue over the first *valid* lanes of *sums*, from the row *first* on."""
        y, lanes = Index("y", self.height), self.tile.lanes
        whole, rest = divmod(valid, lanes)
        x = Index("x", whole)
        inner: list[Stmt] = []
        for place, extent, count in ((x * lanes, whole, lanes), (const(whole * lanes, INDEX), int(rest > 0), rest)):
            if extent:
                places: dict[Index, PrimExpr] = {self.c.lane: self.block * self.tile.width + (place + self.lane)}
                if self.c.row is not None and self.start is not None:
                    places[self.c.row] = self.start + y
                stored = self._stored(sums[y, place + self.lane], places, count)
                inner += [For(x, whole, [stored])] if count == lanes else [stored]
        return loops([y], inner) if first is None else [For(y, self.height, inner, start=first)]

    def _stored(self, total: PrimExpr, places: dict[Index, PrimExpr], count: int) -> VectorStore:
        nest, reduce = self.c.nest, self.c.reduce
        value = map_expr(
            nest.value, lambda e: total if e is reduce else places.get(e) if isinstance(e, Index) else None
        )
        partial = count if count < self.tile.lanes else None
        return VectorStore(nest.stage, [at(i, places) for i in nest.indices], value, self.lane, partial)


def _work(value: PrimExpr) -> int:
    """How much an epilogue computes, in simple operations."""
    nodes = [
        n
        for n in unique_nodes(map_expr(value, lambda e: const(0, e.dtype) if isinstance(e, Reduce) else None))
        if n.dtype != INDEX
    ]
    work = [n for n in nodes if isinstance(n, Binary | Intrinsic | Select)]
    return sum(LONG_FUNCTION if isinstance(n, Intrinsic) else 1 for n in work)


def _streamed(c: Contraction, tile: Tile) -> Access | None:
    """The panels that are too large for a near cache and are read once each, so that the next is asked for early."""
    if not tile.lanes_first or c.row is None:
        return None
    panels = [a for a in c.moving if a.load.tensor.tag == PANEL]
    size = dtype_bytes(c.reduce.dtype)
    if 2 * c.points * tile.width * size > CACHE_BYTES:
        return None  # the next one would push the present one out
    large = [a for a in panels if a.size * size > FEWEST_STREAMED]
    return large[0] if large else None
