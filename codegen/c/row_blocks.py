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
from byoc.codegen.c.team import bounds_of_share
from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.inline import estimated_size, unique_nodes
from byoc.codegen.kernel.loops import Alloc, For, If, Let, Share, Stmt
from byoc.codegen.kernel.simplify import Simplifier
from byoc.ir.types import dtype_bytes
from byoc.te import Index, PrimExpr, Tensor, binary, placeholder
from byoc.te.expr import Load, map_expr

MOST_ROWS = 14
LARGEST_LOCALS = 256 * 1024  # bytes on the stack
ScheduleNest = Callable[[Nest], list[Stmt]]


@dataclass(frozen=True)
class RowBlocks:
    """Consecutive *stages* whose *depth* leading axes, of which the last is the row, are done block by block."""

    stages: tuple[Tensor, ...]
    depth: int


def row_blocks_of(stages: Sequence[Tensor], outside: Collection[Tensor], machine: Machine) -> RowBlocks | None:
    """The last of a group's *stages* as blocks of rows; *outside* are those that anything else reads.

    None where fewer than two products would be done together, or where a block does not fit on the stack.
    """
    if machine.lanes(4) == 1 or len(stages) < 2:
        return None
    last, simplify = stages[-1], Simplifier()
    for depth in range(len(last.axes) - 1, 0, -1):
        if any(not isinstance(a.extent, int) for a in last.axes[:depth]):
            continue
        together = _together(stages, outside, depth)
        if sum(_is_product(s, simplify) for s in together) >= 2:
            found = RowBlocks(tuple(together), depth)
            return found if _local_bytes(found) <= LARGEST_LOCALS else None
    return None


def _local_bytes(found: RowBlocks) -> int:
    """The bytes of the local arrays of one block."""
    rows = _block_rows(found)
    return sum(rows * estimated_size(s.shape[found.depth:]) * dtype_bytes(s.dtype) for s in found.stages[:-1])


def _block_rows(found: RowBlocks) -> int:
    """The rows of a block: as many blocks as the largest tile needs, of equal size."""
    rows = int(found.stages[-1].axes[found.depth - 1].extent)  # type: ignore[call-overload]
    return -(-rows // -(-rows // MOST_ROWS))


def row_blocks(found: RowBlocks, schedule: ScheduleNest) -> list[Stmt]:
    """The statements, shared among the team; *schedule* gives the loops of one nest, for one thread."""
    return _RowBlocks(found, schedule).statements()


def _is_product(stage: Tensor, simplify: Simplifier) -> bool:
    c = contraction(Nest(stage, stage.axes, tuple(stage.axes), stage.body), simplify)  # type: ignore[arg-type]
    return c is not None and bool(c.standing)


def _together(stages: Sequence[Tensor], outside: Collection[Tensor], count: int) -> list[Tensor]:
    """The stages that can be computed for the same *count* leading positions as the last one, one after the other."""
    last = stages[-1]
    chosen: list[Tensor] = [last]
    for stage in reversed(stages[:-1]):
        readers = [s for s in stages if any(n.tensor is stage for n in _loads(s))]
        fits = len(stage.axes) >= count and stage.shape[:count] == last.shape[:count] and stage not in outside
        if fits and readers and all(r in chosen and _agrees(r, stage, count) for r in readers):
            chosen.append(stage)
    return chosen[::-1]


def _loads(stage: Tensor) -> list[Load]:
    assert stage.body is not None
    return [n for n in unique_nodes(stage.body) if isinstance(n, Load)]


def _agrees(reader: Tensor, stage: Tensor, count: int) -> bool:
    """Whether *reader* reads *stage* only where its own first *count* axes are."""
    loads = [n for n in _loads(reader) if n.tensor is stage]
    return all(
        index is axis or (axis.extent == 1) for n in loads
        for index, axis in zip(n.indices[:count], reader.axes[:count], strict=True)
    )


class _RowBlocks:
    def __init__(self, found: RowBlocks, schedule: ScheduleNest):
        self.stages, self.count, self.schedule = found.stages, found.depth, schedule
        self.last, self.rows = found.stages[-1], _block_rows(found)
        self.total_rows = int(self.last.axes[self.count - 1].extent)  # type: ignore[call-overload]
        self.blocks = -(-self.total_rows // self.rows)
        self.full, self.rest = divmod(self.total_rows, self.rows)

    def statements(self) -> list[Stmt]:
        batch = [Index(a.name, a.extent) for a in self.last.axes[: self.count - 1]]
        block = Index("block", self.blocks)
        total = estimated_size([a.extent for a in batch]) * self.blocks
        begin, end = bounds_of_share(total)
        part = Index("part", total)
        lets: list[Stmt] = []
        rest: PrimExpr = part
        for a in reversed([*batch, block]):
            if a.extent != 1:
                lets.insert(0, Let(a, rest % a.extent))  # type: ignore[operator]
            rest = binary("div", rest, a.extent)
        start = Index("row", self.total_rows)
        lets.append(Let(start, block * self.rows))
        whole = self._block(batch, start, self.rows)
        if not self.rest:
            body = whole
        else:
            body = [If(block < self.full, whole), If(block >= self.full, self._block(batch, start, self.rest))]
        return [Share(begin, end, total), For(part, end, [*lets, *body], start=begin)]

    def _block(self, batch: Sequence[Index], start: Index, rows: int) -> list[Stmt]:
        """All stages for *rows* rows from *start* on."""
        local: dict[Tensor, Tensor] = {}
        code: list[Stmt] = []
        for stage in self.stages:
            row = Index("row", rows)
            places: dict[Index, PrimExpr] = dict(zip(stage.axes, (*batch, start + row), strict=False))
            inner = stage.axes[self.count:]
            value = self._value(stage, places, local)
            if stage is self.last:
                indices = tuple(at(i, places) for i in (*stage.axes,))
                nest = Nest(stage, (row, *inner), indices, value)
            else:
                target = placeholder((rows, *stage.shape[self.count:]), stage.dtype, stage.name)
                code.append(Alloc(target, aligned=True))
                nest = Nest(target, (row, *inner), (row, *inner), value)
                local[stage] = target
            code += self.schedule(nest)
        return code

    def _value(self, stage: Tensor, places: dict[Index, PrimExpr], local: dict[Tensor, Tensor]) -> PrimExpr:
        """The element of *stage* at *places*, over the local arrays."""
        row = list(places.values())[self.count - 1]
        inner_row = row.right  # type: ignore[attr-defined]  # the position inside the block

        def leaf(e: PrimExpr) -> PrimExpr | None:
            if isinstance(e, Load) and e.tensor in local:
                rest = [map_expr(i, leaf) for i in e.indices[self.count:]]
                return Load(local[e.tensor], (inner_row, *rest))
            return places.get(e) if isinstance(e, Index) else None

        assert stage.body is not None
        return map_expr(stage.body, leaf)
