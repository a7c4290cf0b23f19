"""Vector variables of straight-line code, each value once, by name; and where a tile lies in the images."""

from __future__ import annotations

from byoc.codegen.c.winograd.sizes import WinogradPlan
from byoc.codegen.kernel.loops import Alloc, LetStmt, Stmt
from byoc.te import Index, PrimExpr, Tensor, placeholder
from byoc.te.tensor import Load


class LaneValues:
    """Collects in ``code`` the statements that give values for all *lane* at once."""

    def __init__(self, lane: Index, dtype: str):
        self.lane, self.dtype = lane, dtype
        self.code: list[Stmt] = []

    def declare(self, name: str, value: PrimExpr | None) -> Tensor:
        """A new variable *name* with *value*, or with zeros."""
        variable = placeholder((self.lane.extent,), self.dtype, name)
        self.code.append(Alloc(variable, value, vector=True, lane=self.lane))
        return variable

    def keep(self, value: PrimExpr) -> PrimExpr:
        """*value* in a variable; itself where it is one."""
        if isinstance(value, Load) and len(value.indices) == 1 and value.indices[0] is self.lane:
            return value
        return self.declare("part", value)[self.lane]


Axes = tuple[Index, Index, Index]


def axes_of_tiles(plan: WinogradPlan) -> Axes:
    """Axes for image, row and column of a tile."""
    return Index("image", plan.batch), Index("tile_y", plan.down), Index("tile_x", plan.across)


def let(index: Index, value: PrimExpr) -> list[Stmt]:
    """*index* is *value*; nothing to declare where it can only be 0."""
    return [] if index.extent == 1 else [LetStmt(index, value)]
