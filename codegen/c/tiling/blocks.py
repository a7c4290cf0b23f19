"""Blocks of an axis, and the one epilogue of all tiled schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.inline import estimated_size
from byoc.codegen.kernel.loops import For, LetStmt, Stmt, Store
from byoc.codegen.kernel.reductions import loops
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.te import Dimension, Index, PrimExpr, minimum
from byoc.te.expr import Const, Reduce
from byoc.te.walk import map_expr

Places = dict[Index, PrimExpr]
Chain = Callable[[Sequence[Stmt]], list[Stmt]]  # the loops of a chain around its step


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

    def let(self) -> LetStmt:
        """The start of a block, inside the loop."""
        begin = self.loop * self.count
        return LetStmt(self.start, minimum(begin, self.axis.extent - self.count) if self.overlaps else begin)

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


def int_or(value: PrimExpr) -> int | PrimExpr:
    """*value* as an int where it is one."""
    simple = Simplifier()(value)
    return int(simple.value) if isinstance(simple, Const) else simple


def chain_length(reduce: Reduce, shortest: int) -> int | None:
    """How many terms of *reduce* are added in turn, at least *shortest*; None where it needs no chains.

    Those are for sums in float32 of more than two chains, or of a size that is known when the code runs.
    """
    extents = [axis.extent for axis in reduce.axes]
    points = estimated_size(extents)
    length = max(shortest, math.isqrt(points))
    is_short = points <= 2 * length and all(isinstance(extent, int) for extent in extents)
    return None if is_short or reduce.kind != "sum" or reduce.dtype != "float32" else length


def in_chains(axes: Sequence[Index], length: int, chain: Callable[[Places, Chain], list[Stmt]]) -> list[Stmt]:
    """Loops over *axes* in chains of about *length* steps, so that none of many rounded sums passes through all steps.

    *chain* gives the statements of one: it is given where the axes are in it, and what puts its loops around a step.
    """
    first, inner = len(axes), 1
    while first and isinstance(extent := axes[first - 1].extent, int) and inner * extent <= length:
        first, inner = first - 1, inner * extent
    if first == 0 or inner * 2 > length:
        return loops(axes[:first], chain({}, lambda step: loops(axes[first:], step)))
    *outer, axis = axes[:first]
    count = length // inner
    blocks, rest = _parts(axis.extent, count)
    block, step, last = Index(f"{axis.name}_block", blocks), Index(axis.name, count), Index(axis.name, rest)
    whole = chain({axis: block * count + step}, lambda code: loops([step, *axes[first:]], code))
    code = loops([*outer, block], whole)
    if rest != 0:
        place = {axis: last + as_index(blocks) * count}
        code += loops(outer, chain(place, lambda code: loops([last, *axes[first:]], code)))
    return code


def _parts(extent: Dimension, count: int) -> tuple[Dimension, Dimension]:
    """How often *count* goes into *extent*, and what is left."""
    if isinstance(extent, int):
        return divmod(extent, count)
    return as_index(extent) // count, as_index(extent) % count


def at(expr: PrimExpr, places: dict[Index, PrimExpr]) -> PrimExpr:
    """*expr* with indices replaced."""
    return map_expr(expr, lambda e: places.get(e) if isinstance(e, Index) else None)


def epilogue(nest: Nest, reduce: Reduce, total: PrimExpr, places: dict[Index, PrimExpr]) -> Store:
    """The store of one element whose sum is *total*."""
    value = map_expr(nest.value, lambda e: total if e is reduce else places.get(e) if isinstance(e, Index) else None)
    return Store(nest.stage, [at(i, places) for i in nest.indices], value)
