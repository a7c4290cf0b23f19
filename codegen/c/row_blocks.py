"""Stages of a group over one block of rows at a time: products with a reduction between them, as attention has.

Where a group multiplies, normalises each row, and multiplies again, its stages are computed for a few rows, one stage
after the other, in local arrays: the matrix between the products never stands in memory as a whole. The mechanism asks
only how stages read each other: those that agree on the leading axes (batch, row) of the last one are done together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from byoc.codegen.c.blocks import at
from byoc.codegen.c.contraction.shape import contraction
from byoc.codegen.c.machine import Machine
from byoc.codegen.c.team import shared_over
from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.inline import estimated_size
from byoc.codegen.kernel.loops import Alloc, If, Let, Stmt
from byoc.codegen.kernel.simplify import Simplifier
from byoc.ir.types import dtype_bytes
from byoc.te import Index, PrimExpr, Tensor, placeholder
from byoc.te.expr import Load, map_expr
from byoc.te.walk import unique_nodes

MOST_ROWS = 14
LARGEST_LOCALS = 256 * 1024  # bytes on the stack
ScheduleNest = Callable[[Nest], list[Stmt]]


Leading = tuple[Index | None, ...]  # axes of a stage: those of the batch, then the row; None for one position


@dataclass(frozen=True)
class RowBlocks:
    """Consecutive *stages* that are done block by block over the same positions of *sizes*; the last is the row.

    *leading* are the axes of the last stage that stand for these positions, in whatever order it has them; the others
    have them first.
    """

    stages: tuple[Tensor, ...]
    sizes: tuple[int, ...]
    leading: Leading

    def leading_of(self, stage: Tensor) -> Leading:
        """The axes of *stage* for the positions."""
        return self.leading if stage is self.stages[-1] else stage.axes[: len(self.sizes)]


def row_blocks_of(stages: Sequence[Tensor], outside: Collection[Tensor], machine: Machine) -> RowBlocks | None:
    """The last of a group's *stages* as blocks of rows; *outside* are those that anything else reads.

    None where fewer than two products would be done together, or where a block does not fit on the stack.
    """
    if machine.lanes(4) == 1 or len(stages) < 2:
        return None
    last, simplify = stages[-1], Simplifier()
    reads = [n for n in _loads(last) if n.tensor in stages[:-1]]
    for depth in range(min((len(n.indices) for n in reads), default=1) - 1, 0, -1):
        found = _at_depth(stages, outside, depth)
        if found is not None and sum(_is_product(s, simplify) for s in found.stages) >= 2:
            return found if _local_bytes(found) <= LARGEST_LOCALS else None
    return None


def _at_depth(stages: Sequence[Tensor], outside: Collection[Tensor], depth: int) -> RowBlocks | None:
    """The stages that can be done for the same *depth* leading positions as the last one, one after the other."""
    last = stages[-1]
    anchor = next(n for n in _loads(last) if n.tensor in stages[:-1])
    sizes = anchor.tensor.shape[:depth]
    leading = tuple(i if isinstance(i, Index) and i in last.axes else None for i in anchor.indices[:depth])
    known = [a for a in leading if a is not None]
    fits = all(isinstance(d, int) and (a is not None or d == 1) for a, d in zip(leading, sizes, strict=True))
    if not fits or len(set(map(id, known))) != len(known) or leading[-1] is None or last.axes[-1] in known:
        return None
    found = RowBlocks((last,), sizes, leading)  # type: ignore[arg-type]
    for stage in reversed(stages[:-1]):
        readers = [s for s in stages if any(n.tensor is stage for n in _loads(s))]
        same = stage not in outside and len(stage.axes) >= depth and stage.shape[:depth] == sizes
        if same and readers and all(r in found.stages and _agrees(r, stage, found) for r in readers):
            found = RowBlocks((stage, *found.stages), found.sizes, leading)
    return found


def _agrees(reader: Tensor, stage: Tensor, found: RowBlocks) -> bool:
    """Whether *reader* reads *stage* only at its own leading position."""
    return all(
        index is axis or size == 1 for n in _loads(reader) if n.tensor is stage
        for index, axis, size in zip(n.indices, found.leading_of(reader), found.sizes, strict=False)
    )


def _local_bytes(found: RowBlocks) -> int:
    """The bytes of the local arrays of one block."""
    rows, depth = _block_rows(found), len(found.sizes)
    return sum(rows * estimated_size(s.shape[depth:]) * dtype_bytes(s.dtype) for s in found.stages[:-1])


def _block_rows(found: RowBlocks) -> int:
    """The rows of a block: as many blocks as the largest tile needs, of equal size."""
    return -(-found.sizes[-1] // -(-found.sizes[-1] // MOST_ROWS))


def row_blocks(found: RowBlocks, schedule: ScheduleNest) -> list[Stmt]:
    """The statements, shared among the team; *schedule* gives the loops of one nest, for one thread."""
    return _RowBlocks(found, schedule).statements()


def _is_product(stage: Tensor, simplify: Simplifier) -> bool:
    c = contraction(Nest(stage, stage.axes, tuple(stage.axes), stage.body), simplify)  # type: ignore[arg-type]
    return c is not None and bool(c.standing)


def _loads(stage: Tensor) -> list[Load]:
    assert stage.body is not None
    return [n for n in unique_nodes(stage.body) if isinstance(n, Load)]


class _RowBlocks:
    def __init__(self, found: RowBlocks, schedule: ScheduleNest):
        self.found, self.schedule = found, schedule
        self.depth, self.rows = len(found.sizes), _block_rows(found)
        self.blocks = -(-found.sizes[-1] // self.rows)
        self.full, self.rest = divmod(found.sizes[-1], self.rows)

    def statements(self) -> list[Stmt]:
        names = [a.name for a in self.found.stages[0].axes[: self.depth - 1]]
        batch = [Index(name, size) for name, size in zip(names, self.found.sizes[:-1], strict=True)]
        block = Index("block", self.blocks)
        start = Index("row", self.found.sizes[-1])
        whole = self._block(batch, start, self.rows)
        if not self.rest:
            body = whole
        else:
            body = [If(block < self.full, whole), If(block >= self.full, self._block(batch, start, self.rest))]
        return shared_over([*batch, block], [Let(start, block * self.rows), *body])

    def _block(self, batch: Sequence[Index], start: Index, rows: int) -> list[Stmt]:
        """All stages for *rows* rows from *start* on."""
        local: dict[Tensor, Tensor] = {}
        code: list[Stmt] = []
        for stage in self.found.stages:
            row = Index("row", rows)
            leading = self.found.leading_of(stage)
            spots = zip(leading, (*batch, start + row), strict=True)
            places: dict[Index, PrimExpr] = {a: spot for a, spot in spots if a is not None}
            inner = [a for a in stage.axes if a not in places]
            value = self._value(stage, places, row, local)
            if stage is self.found.stages[-1]:
                nest = Nest(stage, (row, *inner), tuple(at(a, places) for a in stage.axes), value)
            else:
                target = placeholder((rows, *stage.shape[self.depth:]), stage.dtype, stage.name)
                code.append(Alloc(target, aligned=True))
                nest = Nest(target, (row, *inner), (row, *inner), value)
                local[stage] = target
            code += self.schedule(nest)
        return code

    def _value(
        self, stage: Tensor, places: dict[Index, PrimExpr], row: Index, local: dict[Tensor, Tensor]
    ) -> PrimExpr:
        """The element of *stage* at *places*, over the local arrays."""

        def leaf(e: PrimExpr) -> PrimExpr | None:
            if isinstance(e, Load) and e.tensor in local:
                rest = [map_expr(i, leaf) for i in e.indices[self.depth:]]
                return e.of(local[e.tensor], (row, *rest))
            return places.get(e) if isinstance(e, Index) else None

        assert stage.body is not None
        return map_expr(stage.body, leaf)
