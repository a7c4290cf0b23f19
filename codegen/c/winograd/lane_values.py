"""Vector variables of straight-line code: each value once, by name."""

from __future__ import annotations

from byoc.codegen.kernel.loops import Alloc, Stmt
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
