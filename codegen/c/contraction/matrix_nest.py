"""The loop nest of a contraction whose sums matrix registers hold: as ``nest.py``, but for the tile itself.

A block has as many rows as any other, since the registers' shapes are given once: the last block of an axis that blocks
do not divide begins so early that it ends with the axis, and stores only the rows that no other block stores. The sums
go through a small local array, on which the epilogue runs in vectors. Each sum adds its words in the same order in
every block. Zeros stand for the rows that a border leaves out. Where the number of rows is known only at run time and
there are fewer than in a block, vectors do them.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.c.contraction.matrix_products import WORDS, MatrixProduct, right_registers
from byoc.codegen.c.contraction.nest import Blocks, TileBody
from byoc.codegen.c.contraction.shape import Contraction
from byoc.codegen.c.contraction.tile_choice import Tile
from byoc.codegen.c.tiling.blocks import at
from byoc.codegen.kernel.loops import (
    Alloc,
    For,
    IfThenElse,
    LetStmt,
    MatrixDot,
    MatrixLoad,
    MatrixRelease,
    MatrixShapes,
    MatrixStore,
    MatrixZero,
    Stmt,
)
from byoc.codegen.kernel.reductions import loops
from byoc.codegen.kernel.simplify import as_index
from byoc.te import Index, PrimExpr, Tensor, binary, const, minimum, placeholder
from byoc.te.expr import INDEX
from byoc.te.tensor import Load


def matrix_nest(c: Contraction, tile: Tile, plain: Tile, product: MatrixProduct, alone: bool = False) -> list[Stmt]:
    """The statements that fill the buffer of *c*'s stage, shared among the team, or for one thread *alone*.

    *plain* is the tile for vectors.
    """
    registers = _Registers(tile, product)
    blocks = _MatrixBlocks(c, tile, plain, product, registers)
    inside = blocks.by_one() if alone else blocks.statements()
    return [MatrixShapes(registers.shapes()), *inside, MatrixRelease()]


class _Registers:
    """The numbers of the matrix registers: the sums', then those of rows, then those of lanes."""

    def __init__(self, tile: Tile, product: MatrixProduct):
        self.rows, self.step = tile.matrix_rows, product.step
        self.matrices, self.vectors = tile.rows // tile.matrix_rows, tile.vectors
        self.rights = right_registers(self.matrices, self.vectors)

    def total(self, matrix: int, vector: int) -> int:
        return matrix * self.vectors + vector

    def left(self, matrix: int) -> int:
        return self.matrices * self.vectors + matrix

    def right(self, vector: int) -> int:
        return self.matrices * self.vectors + self.matrices + vector % self.rights

    def shapes(self) -> list[tuple[int, int]]:
        """Of every register, the rows and the words in one."""
        sums = [(self.rows, WORDS)] * (self.matrices * self.vectors)
        return [*sums, *[(self.rows, self.step)] * self.matrices, *[(self.step, WORDS)] * self.rights]


class _MatrixBlocks(Blocks):
    def __init__(self, c: Contraction, tile: Tile, plain: Tile, product: MatrixProduct, registers: _Registers):
        super().__init__(c, tile)
        self.plain, self.product, self.registers = plain, product, registers

    def tiles(self) -> list[Stmt]:
        """The tile at one block: the common one, and those at borders."""
        row, height = self.c.row, self.tile.rows
        assert row is not None
        if not isinstance(row.extent, int):
            return self._rows_known_at_run_time(row)
        extent = row.extent
        start, count = Index(row.name, row.extent), -(-extent // height)
        place: PrimExpr = self.row_block * height
        first: PrimExpr | None = None  # the row of the block from which on it is stored
        if extent % height:
            place, first = minimum(place, extent - height), self.row_block * height - start
        code: list[Stmt] = [LetStmt(start, place)]
        borders = [n for n in range(count) if self._at_border(min(n * height, extent - height))]
        for number in borders:
            known = min(number * height, extent - height)
            own = const(number * height - known, INDEX) if extent % height else None
            static = _MatrixBody(self, start, own, known).statements()
            code.append(IfThenElse(binary("eq", self.row_block, const(number, INDEX)), static))
        inside = [n for n in range(count) if n not in borders]
        if inside:
            code.append(IfThenElse(self.among(inside), _MatrixBody(self, start, first).statements()))
        return code

    def _rows_known_at_run_time(self, row: Index) -> list[Stmt]:
        count, height = as_index(row.extent), self.tile.rows
        start = Index(row.name, row.extent)
        place = LetStmt(start, minimum(self.row_block * height, count - height))
        whole = _MatrixBody(self, start, self.row_block * height - start).statements()
        few = Blocks(self.c, self.plain)
        few.lane_block = self.lane_block  # its width is that of the panels for both
        return [
            IfThenElse(count >= height, [place, *whole]),
            IfThenElse(count < height, loops([few.row_block], few.tiles())),
        ]

    def _at_border(self, start: int) -> bool:
        """Whether a guard fails for some row of the block from *start* on, and some term."""
        guards = [g for g in self.c.guards if g.position is not None and g.position is self.c.row]
        terms = [(g, k) for g in guards for k in range(int(g.axis.extent))]
        return any(not g.holds(start + r, k) for g, k in terms for r in range(self.tile.rows))


class _MatrixBody(TileBody):
    """One tile from the row *start* on, stored from its row *first* on; at a border *start* is the number *known*."""

    def __init__(self, blocks: _MatrixBlocks, start: Index, first: PrimExpr | None, known: int | None = None):
        super().__init__(blocks.c, blocks.tile, blocks.tile.rows, start, blocks.lane_block, known)
        self.product, self.registers, self.first = blocks.product, blocks.registers, first

    def statements(self) -> list[Stmt]:
        numbers = sorted(self.registers.total(m, v) for m, v in self._places())
        terms = self.summed(self.c.reduce.axes, {}, range(self.height))
        return [*(MatrixZero(n) for n in numbers), *terms, *self.finish()]

    def _places(self) -> list[tuple[int, int]]:
        return [(m, v) for m in range(self.registers.matrices) for v in range(self.registers.vectors)]

    def summed(self, axes: Sequence[Index], fixed: dict[Index, PrimExpr], rows: Sequence[int]) -> list[Stmt]:
        """As for vectors, but the innermost axis in steps of what a register holds."""
        if len(axes) > 1:
            return super().summed(axes, fixed, rows)
        (axis,), step = axes, self.product.step
        index = Index(axis.name, int(axis.extent) // step)
        return [For(index, index.extent, self._step({**fixed, axis: index * step}, rows))]

    def _step(self, fixed: dict[Index, PrimExpr], rows: Sequence[int]) -> list[Stmt]:
        """The products of one step of words; *rows* are those whose terms count."""
        code: list[Stmt] = []
        r = self.registers
        alive = {m: [k for k in rows if m * r.rows <= k < (m + 1) * r.rows] for m in range(r.matrices)}
        for matrix, some in alive.items():
            if some:
                code.append(self._left(matrix, some, fixed))
        for v in range(r.vectors):
            right = self.product.right.load
            place = at(right, {**fixed, self.c.lane: self.block * self.tile.width + v * self.tile.lanes})
            assert isinstance(place, Load)
            code.append(MatrixLoad(r.right(v), place.tensor, place.indices, self.product.right_step))
            code += [
                MatrixDot(r.total(m, v), r.left(m), r.right(v), self.product.dot, self.product.swapped)
                for m, some in alive.items()
                if some
            ]
        return code

    def _left(self, matrix: int, alive: Sequence[int], fixed: dict[Index, PrimExpr]) -> MatrixLoad:
        """The load of the rows of one register, of which those in *alive* exist."""
        first, rows = alive[0], self.registers.rows
        assert list(alive) == list(range(first, first + len(alive))), "terms count in neighbouring rows"
        assert self.c.row is not None and self.start is not None
        place = at(self.product.left.load, {**fixed, self.c.row: self.start + first})
        assert isinstance(place, Load)
        inside = None if len(alive) == rows else range(first - matrix * rows, alive[-1] + 1 - matrix * rows)
        number = self.registers.left(matrix)
        return MatrixLoad(number, place.tensor, place.indices, self.product.left_step, inside)

    def finish(self) -> list[Stmt]:
        """The epilogue in vectors, on the sums in memory."""
        sums: Tensor = placeholder((self.height, self.tile.width), self.c.reduce.dtype, "sums")
        code: list[Stmt] = [Alloc(sums, aligned=True)]
        for m, v in self._places():
            place = (const(m * self.registers.rows, INDEX), const(v * self.tile.lanes, INDEX))
            code.append(MatrixStore(sums, place, self.tile.width, self.registers.total(m, v)))
        return [*code, *self.by_end(lambda valid: self.looped(sums, valid, self.first))]
