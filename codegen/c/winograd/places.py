"""Where a tile lies in the images: its number as image, row and column."""

from __future__ import annotations

from byoc.codegen.c.winograd.plan import WinogradPlan
from byoc.codegen.kernel.loops import Let, Stmt
from byoc.te import Index, PrimExpr

Axes = tuple[Index, Index, Index]


def axes_of_tiles(plan: WinogradPlan) -> Axes:
    """Axes for image, row and column of a tile."""
    return Index("image", plan.batch), Index("tile_y", plan.down), Index("tile_x", plan.across)


def let(index: Index, value: PrimExpr) -> list[Stmt]:
    """*index* is *value*; nothing to declare where it can only be 0."""
    return [] if index.extent == 1 else [Let(index, value)]
