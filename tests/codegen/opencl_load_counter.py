"""A static count of what the work-items of a kernel load, by its statements, from global and from local memory."""

from __future__ import annotations

from collections import Counter

from byoc.codegen.kernel.loops import Alloc, For, IfThenElse, LetStmt, Store
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.statements import (
    BlockScope,
    CopyVector,
    GroupBarrier,
    LocalArray,
    LocalItem,
    WorkGroup,
    WorkItem,
)
from byoc.te.expr import Const
from byoc.te.tensor import Load
from byoc.te.walk import unique_nodes


class LoadCounter:
    """Loads of one work-item. What is loaded twice by one iteration of a loop counts once: it stays in a register."""

    def __init__(self):
        self.simplify = Simplifier()
        self.private, self.local = set(), set()

    def block(self, statements) -> Counter:
        """``global`` and ``local`` loads of *statements*, each as often as it is run."""
        found: Counter = Counter()
        seen = set()
        for s in statements:
            if isinstance(s, Alloc):
                self.private.add(s.tensor)
                values = [s.init] if s.init is not None else []
            elif isinstance(s, LocalArray):
                self.local.add(s.tensor)
                values = []
            elif isinstance(s, CopyVector):
                found["local"] += s.count
                values = []
            elif isinstance(s, (Store, LetStmt)):
                values = [s.value]
            elif isinstance(s, For):
                extent = self.simplify(as_index(s.extent))
                assert isinstance(extent, Const)
                found.update({k: v * int(extent.value) for k, v in self.block(s.body).items()})
                values = []
            elif isinstance(s, IfThenElse):
                found.update(self.block(s.body))
                values = [s.cond]
            elif isinstance(s, BlockScope):
                found.update(self.block(s.body))
                values = []
            else:
                assert isinstance(s, (WorkItem, WorkGroup, LocalItem, GroupBarrier)), type(s)
                values = []
            for load in (n for v in values for n in unique_nodes(v) if isinstance(n, Load)):
                key = (load.tensor, self.simplify.flat_index(load.tensor, load.indices).key())
                if load.tensor in self.private or key in seen:
                    continue
                seen.add(key)
                found["local" if load.tensor in self.local else "global"] += 1
        return found


def loads_per_output(plan, outputs: int) -> dict[str, float]:
    """The loads of all work-items of a kernel of known sizes, for each of its *outputs*."""
    items = Simplifier()(plan.extent)
    assert isinstance(items, Const)
    count = int(items.value) * ((plan.items or plan.local) if plan.groups else 1)
    found = LoadCounter().block(plan.statements)
    return {kind: found[kind] * count / outputs for kind in ("global", "local")}
