"""Stages of a group over one block of rows at a time: products with a reduction between them, as attention has.

Where a group multiplies, normalises each row, and multiplies again, its stages are computed for a few rows, one stage
after the other, in local arrays: the matrix between the products never stands in memory as a whole. The mechanism asks
only how stages read each other: those that agree on the leading axes (batch, row) of the last product are done
together. Where a few rows are too long for the stack, or of free length, they are done in blocks of keys if they are a
softmax's (``flash_attention.py``), else fewer of them at a time. Of a free number of rows those that fill no block are
done a few at a time, then one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from byoc.codegen.c.rows.row_stages import BlockOfRows, RowStages, ScheduleNest, loads_in, reduces_in
from byoc.codegen.c.tiling.team import shared_over
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.kernel.inline import estimated_size
from byoc.codegen.kernel.loops import For, IfThenElse, LetStmt, Stmt
from byoc.codegen.kernel.reductions import is_product
from byoc.codegen.kernel.simplify import same_size
from byoc.ir.types import dtype_bytes
from byoc.te import Dimension, Index, PrimExpr, Tensor, binary, const
from byoc.te.expr import INDEX

if TYPE_CHECKING:
    from byoc.codegen.c.rows.flash_attention import KeyTiles

MOST_ROWS = 14
MOST_ROWS_OF_KEYS = 28  # where the rows are done in blocks of keys, which each block of rows reads once
FREE_ROWS = 16  # of a free number of rows: lengths are often powers of two
FEW_ROWS = (4, 1)  # what remains of these, in so many at a time
LARGEST_LOCALS = 256 * 1024  # bytes on the stack


@dataclass(frozen=True)
class RowBlocks:
    """*found* in blocks of *rows* rows; in blocks of *keys* too, where whole rows would be too long."""

    found: RowStages
    rows: int
    keys: KeyTiles | None = None

    @property
    def stages(self) -> tuple[Tensor, ...]:
        """The stages that are done together."""
        return self.found.stages

    def around(self, stages: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Those of a group's *stages* that are done before these, and behind them."""
        end = stages.index(self.stages[-1])
        return [s for s in stages[:end] if s not in self.stages], list(stages[end + 1 :])


def row_blocks_of(stages: Sequence[Tensor], outside: Collection[Tensor], machine: Machine) -> RowBlocks | None:
    """A group's *stages* up to its last product as blocks of rows; *outside* are those that anything else reads.

    None where fewer than two products would be done together, or where a block does not fit on the stack.
    """
    products = [s for s in stages if _is_product(s)]
    if machine.lanes(4) == 1 or len(products) < 2:
        return None
    end = stages.index(products[-1])
    kept = {*outside, *(n.tensor for s in stages[end + 1 :] for n in loads_in(s.body))}
    stages = stages[: end + 1]
    reads = [n for n in loads_in(stages[-1].body) if n.tensor in stages[:-1]]
    for depth in range(min((len(n.indices) for n in reads), default=1) - 1, 0, -1):
        found = _at_depth(stages, kept, depth)
        if found is not None and sum(s in products for s in found.stages) >= 2:
            return _fitted(found)
    return None


def _is_product(stage: Tensor) -> bool:
    return any(is_product(r) for r in reduces_in(stage.body))


def _at_depth(stages: Sequence[Tensor], outside: Collection[Tensor], depth: int) -> RowStages | None:
    """The stages that can be done for the same *depth* leading positions as the last one, one after the other."""
    last = stages[-1]
    anchor = next(n for n in loads_in(last.body) if n.tensor in stages[:-1])
    sizes = anchor.tensor.shape[:depth]
    leading = tuple(i if isinstance(i, Index) and i in last.axes else None for i in anchor.indices[:depth])
    known = [a for a in leading if a is not None]
    fits = all(a is not None or d == 1 for a, d in zip(leading, sizes, strict=True))
    if not fits or len(set(map(id, known))) != len(known) or leading[-1] is None or last.axes[-1] in known:
        return None
    found = RowStages((last,), sizes, leading)
    for stage in reversed(stages[:-1]):
        readers = [s for s in stages if any(n.tensor is stage for n in loads_in(s.body))]
        same = stage not in outside and len(stage.axes) >= depth and all(map(same_size, stage.shape, sizes))
        if same and readers and all(r in found.stages and _agrees(r, stage, found) for r in readers):
            found = RowStages((stage, *found.stages), found.sizes, leading)
    return found


def _agrees(reader: Tensor, stage: Tensor, found: RowStages) -> bool:
    """Whether *reader* reads *stage* only at its own leading position."""
    return all(
        index is axis or size == 1
        for n in loads_in(reader.body)
        if n.tensor is stage
        for index, axis, size in zip(n.indices, found.leading_of(reader), found.sizes, strict=False)
    )


def _fitted(found: RowStages) -> RowBlocks | None:
    """Blocks of as many rows as the stack holds: whole ones where it holds enough of them, else in blocks of keys."""
    from byoc.codegen.c.rows.flash_attention import key_tiles_of

    count = found.sizes[-1]
    whole = LARGEST_LOCALS // max(_row_bytes(found), 1) if _has_fixed_rows(found) else 0
    keys = key_tiles_of(found) if whole < (min(MOST_ROWS, count) if isinstance(count, int) else MOST_ROWS) else None
    if keys is None:
        return RowBlocks(found, _equal_rows(count, min(whole, MOST_ROWS))) if whole else None
    most = min(LARGEST_LOCALS // keys.row_bytes(found), MOST_ROWS_OF_KEYS)
    return RowBlocks(found, _equal_rows(count, most), keys) if most else None


def _has_fixed_rows(found: RowStages) -> bool:
    """Whether what is kept of a row has the same size in every run."""
    return all(isinstance(d, int) for s in found.stages[:-1] for d in s.shape[found.depth :])


def _row_bytes(found: RowStages) -> int:
    """The bytes of the local arrays of one row."""
    return sum(estimated_size(s.shape[found.depth :]) * dtype_bytes(s.dtype) for s in found.stages[:-1])


def _equal_rows(count: Dimension, most: int) -> int:
    """The rows of a block: as few blocks as *most* rows allow, of equal size."""
    if not isinstance(count, int):
        return min(most, FREE_ROWS)
    return -(-count // -(-count // most))


def row_blocks(blocks: RowBlocks, schedule: ScheduleNest) -> list[Stmt]:
    """The statements, shared among the team; *schedule* gives the loops of one nest, for one thread."""
    found, rows = blocks.found, blocks.rows
    names = [a.name for a in found.stages[0].axes[: found.depth - 1]]
    batch = [Index(name, size) for name, size in zip(names, found.sizes[:-1], strict=True)]
    count = found.sizes[-1]
    start = Index("row", count)

    def body(start: Index, rows: int) -> list[Stmt]:
        return _block(blocks, BlockOfRows(found, batch, start, rows), schedule)

    if not isinstance(count, int):
        block = Index("block", binary("div", count + (rows - 1), rows))
        left = count - start
        code: list[Stmt] = [IfThenElse(left >= rows, body(start, rows))]
        done: PrimExpr = const(0, INDEX)
        for height in (h for h in FEW_ROWS if h < rows):
            first, step = Index("row", count), Index("rest", rows)
            inner = [LetStmt(first, start + step * height), *body(first, height)]
            code.append(IfThenElse(left < rows, [For(step, left // height, inner, start=done // height)]))
            done = left // height * height
    else:
        block = Index("block", -(-count // rows))
        full, remaining = divmod(count, rows)
        code = body(start, rows)
        if remaining:
            code = [IfThenElse(block < full, code), IfThenElse(block >= full, body(start, remaining))]
    return shared_over([*batch, block], [LetStmt(start, block * rows), *code])


def _block(blocks: RowBlocks, block: BlockOfRows, schedule: ScheduleNest) -> list[Stmt]:
    """All stages for the rows of *block*."""
    from byoc.codegen.c.rows.flash_attention import over_keys

    if blocks.keys is not None:
        return over_keys(blocks.keys, block, schedule)
    code: list[Stmt] = []
    *others, last = block.found.stages
    for stage in others:
        declared, nest = block.keep(stage)
        code += [declared, *schedule(nest)]
    row = block.row()
    return [*code, *schedule(block.store(block.value(last, last.body, row), row))]
