"""Blocks of an axis, and the one epilogue of all tiled schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.loops import For, Let, Stmt, Store
from byoc.codegen.kernel.simplify import as_index
from byoc.te import Index, PrimExpr, minimum
from byoc.te.expr import Reduce
from byoc.te.walk import map_expr


@dataclass(frozen=True)
class Block:
    """A block of *count* positions of *axis* that starts at *start*; *loop* runs over the blocks."""

    axis: Index
    count: int
    loop: Index
    start: Index

    @property
    def overlaps(self) -> bool:
        """Whether the last block is moved back, so that it fits."""
        return isinstance(self.axis.extent, int) and self.axis.extent % self.count != 0

    def let(self) -> Let:
        """The start of a block, inside the loop."""
        begin = self.loop * self.count
        return Let(self.start, minimum(begin, self.axis.extent - self.count) if self.overlaps else begin)

    def around(self, body: Sequence[Stmt]) -> For:
        """The loop over the blocks around *body*."""
        return For(self.loop, self.loop.extent, body, overlaps=self.overlaps)

    def over(self, body: Sequence[Stmt]) -> For:
        """The loop over the blocks around the start of each and *body*."""
        return self.around([self.let(), *body])


def block_of(axis: Index, count: int) -> Block:
    """Blocks of *count* along *axis*; whole blocks alone where its extent is symbolic."""
    extent = axis.extent
    blocks = -(-extent // count) if isinstance(extent, int) else as_index(extent) // count
    return Block(axis, count, Index(f"{axis.name}_block", blocks), Index(axis.name, extent))


def at(expr: PrimExpr, places: dict[Index, PrimExpr]) -> PrimExpr:
    """*expr* with indices replaced."""
    return map_expr(expr, lambda e: places.get(e) if isinstance(e, Index) else None)


def epilogue(nest: Nest, reduce: Reduce, total: PrimExpr, places: dict[Index, PrimExpr]) -> Store:
    """The store of one element whose sum is *total*."""
    value = map_expr(nest.value, lambda e: total if e is reduce else places.get(e) if isinstance(e, Index) else None)
    return Store(nest.stage, [at(i, places) for i in nest.indices], value)
