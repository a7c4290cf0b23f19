"""Which stages over shared rows are one loop along the row: a loop ends where a number of the whole row is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from byoc.codegen.kernel.expr_parts import reduces_in
from byoc.codegen.kernel.shared_rows import SharedRows
from byoc.te import PrimExpr, Tensor
from byoc.te.expr import Reduce
from byoc.te.walk import loaded_tensors


@dataclass
class RowLoop:
    """Elements and terms of reductions, point by point in order, and behind the loop the numbers of the row."""

    steps: list[tuple[Tensor, Reduce | None]] = field(default_factory=list)
    numbers: list[Tensor] = field(default_factory=list)

    def values(self, found: SharedRows) -> list[PrimExpr]:
        """What is computed at a point, in order."""
        return [found.at_points(stage, stage.element if r is None else r.body, r) for stage, r in self.steps]


def row_loops(found: SharedRows) -> list[RowLoop]:
    """As few loops as the stages of *found*, in their order, need."""
    loops = [RowLoop()]
    for stage in found.stages:
        reduces = reduces_in(stage.element)
        inside: Sequence[PrimExpr] = [stage.element] if found.has_points(stage) else [r.body for r in reduces]
        read = {t for e in inside for t in loaded_tensors(e)}
        if read & set(loops[-1].numbers):
            loops.append(RowLoop())
        if found.has_points(stage):
            loops[-1].steps.append((stage, None))
        else:
            loops[-1].steps += [(stage, r) for r in reduces]
            loops[-1].numbers.append(stage)
    return loops


@dataclass(frozen=True)
class RowOp:
    """At one point: ``target[indices] = value``, a local where *declared*, or one more value of *reduce*'s result."""

    target: Tensor
    indices: tuple[PrimExpr, ...]
    value: PrimExpr
    declared: bool = False
    reduce: Reduce | None = None


def reduces_of(ops: Sequence[RowOp]) -> list[Reduce]:
    """The reductions to which *ops* add a value, in order."""
    return [op.reduce for op in ops if op.reduce is not None]
