"""Stages of a group that are done together for the same leading positions, and what one block of rows keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from byoc.codegen.c.tiling.blocks import at
from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.loops import Alloc, Stmt
from byoc.te import Dimension, Index, PrimExpr, Tensor, placeholder
from byoc.te.expr import Reduce
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes

ScheduleNest = Callable[[Nest], list[Stmt]]
Leading = tuple[Index | None, ...]  # axes of a stage: those of the batch, then the row; None for one position


@dataclass(frozen=True)
class RowStages:
    """Consecutive *stages* that are done for the same positions of *sizes*, of which the last is the row.

    *leading* are the axes of the last stage that stand for these positions, in whatever order it has them; the others
    have them first.
    """

    stages: tuple[Tensor, ...]
    sizes: tuple[Dimension, ...]
    leading: Leading

    @property
    def depth(self) -> int:
        """How many leading axes the positions have."""
        return len(self.sizes)

    def leading_of(self, stage: Tensor) -> Leading:
        """The axes of *stage* for the positions."""
        return self.leading if stage is self.stages[-1] else stage.axes[: self.depth]


def loads_in(expr: PrimExpr | None) -> list[Load]:
    """Every load of *expr* once."""
    assert expr is not None
    return [n for n in unique_nodes(expr) if isinstance(n, Load)]


def reduces_in(expr: PrimExpr | None) -> list[Reduce]:
    """Every reduction of *expr* once."""
    assert expr is not None
    return [n for n in unique_nodes(expr) if isinstance(n, Reduce)]


@dataclass(frozen=True)
class Cut:
    """A part of an axis: the positions that *inner* counts, from *base* on."""

    base: PrimExpr
    inner: Index


class BlockOfRows:
    """*rows* rows from *start* on, at one position of *batch*; :attr:`local` holds what is kept of the stages."""

    def __init__(self, found: RowStages, batch: Sequence[Index], start: PrimExpr, rows: int):
        self.found, self.batch, self.start, self.rows = found, batch, start, rows
        self.local: dict[Tensor, Tensor] = {}

    def row(self) -> Index:
        """A new index over the rows."""
        return Index("row", self.rows)

    def inner(self, stage: Tensor) -> list[Index]:
        """The axes of *stage* beside its position."""
        leading = self.found.leading_of(stage)
        return [a for a in stage.axes if not any(a is b for b in leading)]

    def array(self, name: str, inner: Iterable[Dimension], dtype: str) -> Tensor:
        """A local array with a row for each of the block's."""
        return placeholder((self.rows, *inner), dtype, name)

    def keep(self, stage: Tensor, cuts: Mapping[Index, Cut] | None = None) -> tuple[Stmt, Nest]:
        """What declares the local array of *stage*, along the *cuts* of its axes, and the nest that fills it."""
        cuts, row = cuts or {}, self.row()
        inner = [cuts[a].inner if a in cuts else a for a in stage.axes[self.found.depth :]]
        target = self.array(stage.name, [a.extent for a in inner], stage.dtype)
        nest = Nest(target, (row, *inner), (row, *inner), self.value(stage, stage.body, row, cuts))
        self.local[stage] = target
        return Alloc(target, aligned=True), nest

    def store(self, value: PrimExpr, row: Index) -> Nest:
        """The nest that fills the block's part of the last stage with *value*, made for *row*."""
        stage = self.found.stages[-1]
        places = self._places(stage, row)
        return Nest(stage, (row, *self.inner(stage)), tuple(at(a, places) for a in stage.axes), value)

    def value(
        self, stage: Tensor, expr: PrimExpr | None, row: Index, cuts: Mapping[Index, Cut] | None = None
    ) -> PrimExpr:
        """*expr*, a part of *stage*, at *row* and along *cuts*: over the local arrays, where there are."""
        assert expr is not None
        cuts = cuts or {}
        places = self._places(stage, row)
        places.update((a, c.base + c.inner) for a, c in cuts.items())

        def inside(e: PrimExpr) -> PrimExpr | None:
            return cuts[e].inner if isinstance(e, Index) and e in cuts else leaf(e)

        def leaf(e: PrimExpr) -> PrimExpr | None:
            if isinstance(e, Load) and e.tensor in self.local:
                rest = [map_expr(i, inside) for i in e.indices[self.found.depth :]]
                return e.of(self.local[e.tensor], (row, *rest))
            if isinstance(e, Reduce) and any(a in cuts for a in e.axes):
                return Reduce(e.kind, map_expr(e.body, leaf), [cuts[a].inner if a in cuts else a for a in e.axes])
            return places.get(e) if isinstance(e, Index) else None

        return map_expr(expr, leaf)

    def _places(self, stage: Tensor, row: Index) -> dict[Index, PrimExpr]:
        spots = zip(self.found.leading_of(stage), (*self.batch, self.start + row), strict=True)
        return {a: spot for a, spot in spots if a is not None}
