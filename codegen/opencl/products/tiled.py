"""What kernels of products share: counts of tiles, and the axes of a lane from its place among all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.codegen.kernel.loops import For, IfThenElse, LetStmt, Stmt
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import product, unravel
from byoc.codegen.opencl.device.statements import BlockScope, GroupBarrier
from byoc.codegen.opencl.products.shape import BlockProduct
from byoc.te import Index, PrimExpr, binary
from byoc.te.expr import Const

Stage = Callable[[PrimExpr, int], Sequence[Stmt]]  # what is done of a step with the registers of a number


def axes_at(place: Index, axes: Sequence[Index]) -> list[Stmt]:
    """*axes* as variables of the row-major *place* of all of them."""
    moving = [a for a in axes if a.extent != 1]
    return [LetStmt(moving[0], place)] if len(moving) == 1 else unravel(place, moving)


class TiledProduct:
    """*p* in tiles of *rows* and *columns*, a work-group each, which takes so many *points* of the terms in a step."""

    def __init__(self, p: BlockProduct, rows: int, columns: int, points: int, simplify: Simplifier):
        self.p, self.simplify = p, simplify
        self.dtype = p.reduce.dtype
        self.terms = self.count(p.reduce.axes)
        self.steps = self.blocks(self.terms, points)
        row_blocks = Index("row_block", self.blocks(self.count(p.rows), rows))
        column_blocks = Index("column_block", self.blocks(self.count(p.columns), columns))
        self.row_block, self.column_block = row_blocks, column_blocks
        batch = [a for a in p.batch if a.extent != 1]
        self.order = [*batch, column_blocks, row_blocks]  # groups side by side share the columns
        self.extent = simplify(product([a.extent for a in self.order]))
        self.group = Index("group", self.extent)

    def count(self, axes: Sequence[Index]) -> PrimExpr:
        """The points of *axes*."""
        return self.simplify(product([a.extent for a in axes]))

    def blocks(self, count: PrimExpr, size: int) -> PrimExpr:
        """The blocks of *size* that cover *count*."""
        return self.simplify((count + (size - 1)) // size)

    def divides(self, count: PrimExpr, size: int) -> bool:
        """Whether *count* is a multiple of *size*, whatever free sizes are."""
        poly = self.simplify.polynomial(count)
        return all(n % size == 0 for n in (poly.constant, *poly.terms.values()))

    def lane_axes(
        self, axes: Sequence[Index], name: str, lane: PrimExpr, lanes: int, block: Index, before: list[Stmt]
    ) -> list[Index]:
        """The axes of one lane, as variables that *before* declares; beyond the last lane those of the last one."""
        count = self.count(axes)
        place: PrimExpr = block * lanes + lane
        if not self.divides(count, lanes):
            place = binary("min", place, count - 1)
        flat = Index(f"lane_{name}", count)
        new = [Index(f"{a.name}_{name}", a.extent) for a in axes]
        before += [LetStmt(flat, place), *axes_at(flat, new)]
        return new

    def at_lane(self, name: str, axes: Sequence[Index], place: PrimExpr, size: int, body: Sequence[Stmt]) -> list[Stmt]:
        """*body* with *axes* where *place* among all of them is, unless that lies beyond them."""
        count = self.count(axes)
        flat = Index(f"to_{name}", count)
        inside = [*axes_at(flat, axes), *body]
        if self.divides(count, size):
            return [LetStmt(flat, place), *inside]
        beyond = Index(f"{name}_place", count + size)
        return [LetStmt(beyond, place), IfThenElse(binary("lt", beyond, count), [LetStmt(flat, beyond), *inside])]

    def pipeline(
        self, ahead: int, load: Stage, store: Stage, multiply: Callable[[PrimExpr], Sequence[Stmt]]
    ) -> list[Stmt]:
        """The loop over the steps: operands are in registers *ahead* steps before they go to local memory.

        *load* fills one of so many sets of registers, *store* takes it to the side of local memory that its step
        (modulo 2) has, *multiply* is for a side.
        """
        steps = self.steps
        known = int(steps.value) if isinstance(steps, Const) else None
        ahead = ahead if known is None else max(min(ahead, known), 1)
        first: list[Stmt] = []
        for k in range(ahead):
            own: Sequence[Stmt] = load(as_index(k), k)
            if k:
                own = [BlockScope(own)] if known is not None else [IfThenElse(binary("lt", k, steps), own)]
            first += own
        block = Index("steps", self.blocks(steps, ahead))
        body: list[Stmt] = []
        for k in range(ahead):
            step = Index(f"step_{k}" if ahead > 1 else "step", steps + ahead)
            follows = (
                [IfThenElse(binary("lt", step + ahead, steps), load(step + ahead, k))]
                if known is None or known > ahead
                else []
            )
            side = step % 2 if ahead % 2 else as_index(k % 2)
            work = [*store(side, k), GroupBarrier(), *follows, *multiply(side)]
            exists = k == 0 or (known is not None and known % ahead == 0)
            body += [
                LetStmt(step, block * ahead + k),
                *(work if exists else [IfThenElse(binary("lt", step, steps), work)]),
            ]
        return [*first, For(block, block.extent, body)]
