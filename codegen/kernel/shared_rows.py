"""Rows that consecutive stages of a group share: softmax, norms, an argmax; no operator's name is asked.

A stage with a reduction and an element for each row names the rows: its axes longer than 1. What else is computed for
a row follows from how stages read each other: a value of the row, or one for each *point* along it. The rows may be any
axes, not the leading ones alone, and one axis may be a row's number and a part of the points (the channels of a group
norm). Ensures: every stage reads the others at its own row only, and elements of them at its own point only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from byoc.codegen.kernel.reductions import is_product
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.te import Dimension, Index, PrimExpr, Tensor, const
from byoc.te.expr import INDEX, Binary, Checked, Const, Reduce
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes

LONGEST_RUN = 16  # stages


@dataclass(frozen=True)
class RowSpot:
    """Where a stage is at a row: what each of its axes is, and which of them (or parts of them) are the points."""

    axes: Mapping[Index, PrimExpr]
    points: tuple[Index, ...]


@dataclass(frozen=True, eq=False)
class SharedRows:
    """*stages* over *rows*, with an element for each of *points* or with one for each row."""

    stages: tuple[Tensor, ...]
    rows: tuple[Index, ...]
    points: tuple[Index, ...]
    spots: Mapping[Tensor, RowSpot] = field(repr=False)

    def has_points(self, stage: Tensor) -> bool:
        """Whether *stage* has an element for each point."""
        return bool(self.spots[stage].points)

    def at_points(self, stage: Tensor, expr: PrimExpr, reduce: Reduce | None = None) -> PrimExpr:
        """*expr*, a part of *stage* or the body of its *reduce*, over the rows and the points."""
        table = {a: map_expr(e, self._named(stage)) for a, e in self.spots[stage].axes.items()}
        if reduce is not None:
            long = [a for a in reduce.axes if a.extent != 1]
            table.update(zip(long, self.points, strict=True))
            table.update({a: const(0, INDEX) for a in reduce.axes if a.extent == 1})
        return map_expr(expr, lambda e: table.get(e) if isinstance(e, Index) else None)

    def place(self, stage: Tensor) -> tuple[PrimExpr, ...]:
        """The indices of the element of *stage* at a row and a point."""
        return tuple(self.at_points(stage, a) for a in stage.axes)

    def _named(self, stage: Tensor) -> Callable[[PrimExpr], PrimExpr | None]:
        names = dict(zip(self.spots[stage].points, self.points, strict=False))
        return lambda e: names.get(e) if isinstance(e, Index) else None


def row_runs(stages: Sequence[Tensor], apart: Collection[Tensor] = ()) -> Iterator[SharedRows | Tensor]:
    """*stages* in order: as many together as share rows, the others, and those that are *apart*, alone."""
    start = 0
    while start < len(stages):
        most = next((k for k in range(start, len(stages)) if stages[k] in apart), len(stages))
        ends = range(min(most, start + LONGEST_RUN), start, -1)
        found = next((rows for end in ends if (rows := shared_rows(stages[start:end])) is not None), None)
        yield stages[start] if found is None else found
        start += 1 if found is None else len(found.stages)


def shared_rows(stages: Sequence[Tensor]) -> SharedRows | None:
    """The rows that all *stages* share; None where they share none, or one is a product or checks indices."""
    nodes = {s: list(unique_nodes(s.element)) for s in stages}
    reduces = {s: [n for n in nodes[s] if isinstance(n, Reduce)] for s in stages}
    everything = [n for found in nodes.values() for n in found]
    if any(isinstance(n, Checked) or (isinstance(n, Load) and n.is_word) for n in everything):
        return None
    anchor = next((s for s in stages if reduces[s]), None)
    if anchor is None or any(is_product(r) or _is_nested(r) for found in reduces.values() for r in found):
        return None
    return _Search(stages, nodes, reduces, anchor).run()


def _is_nested(reduce: Reduce) -> bool:
    return any(isinstance(n, Reduce) for n in unique_nodes(reduce.body))


class _Search:
    def __init__(
        self,
        stages: Sequence[Tensor],
        nodes: Mapping[Tensor, Sequence[PrimExpr]],
        reduces: Mapping[Tensor, Sequence[Reduce]],
        anchor: Tensor,
    ):
        self.stages, self.reduces, self.simplify = stages, reduces, Simplifier()
        self.loads = {s: [n for n in nodes[s] if isinstance(n, Load) and n.tensor in stages] for s in stages}
        self.rows = tuple(a for a in anchor.axes if a.extent != 1)
        self.points = tuple(a for a in reduces[anchor][0].axes if a.extent != 1)
        self.spots: dict[Tensor, RowSpot] = {anchor: RowSpot(_without_ones(anchor), ())}

    def run(self) -> SharedRows | None:
        """The rows, if every stage has its spot and reads the others as it must."""
        if not self.points:
            return None
        waiting = [s for s in self.stages if s not in self.spots]
        while waiting:
            placed = [s for s in waiting if self._placed(s)]
            if not placed:
                return None
            waiting = [s for s in waiting if s not in placed]
        found = SharedRows(tuple(self.stages), self.rows, self.points, self.spots)
        return found if all(self._has_form(s) and self._reads_its_own(found, s) for s in self.stages) else None

    def _placed(self, stage: Tensor) -> bool:
        """Find the spot of *stage* from one that it reads, or that reads it, and whose spot is known."""
        table: dict[Index, PrimExpr] | None = None
        for load in self.loads[stage]:
            if load.tensor in self.spots:
                table = self._as_reader(stage, load)
                break
        else:
            for reader in (s for s in self.stages if s in self.spots):
                for load in (n for n in self.loads[reader] if n.tensor is stage):
                    table = self._as_read(stage, reader, load)
                    break
        if table is None:
            return False
        points = []
        axes = _without_ones(stage)
        for axis in stage.axes:
            if axis in table:
                axes[axis] = table[axis]
                own = [n for n in unique_nodes(table[axis]) if isinstance(n, Index) and n not in self.rows]
                points += own
            elif axis.extent != 1:
                points.append(axis)
        self.spots[stage] = RowSpot(axes, tuple(points))
        return True

    def _as_reader(self, stage: Tensor, load: Load) -> dict[Index, PrimExpr] | None:
        """Which axes of *stage* are rows, or hold a row's number, by where it reads a stage whose spot is known."""
        table: dict[Index, PrimExpr] = {}
        read = self.spots[load.tensor]
        for axis, index in zip(load.tensor.axes, load.indices, strict=True):
            row = read.axes.get(axis)
            if not isinstance(row, Index) or row not in self.rows:
                continue
            if isinstance(index, Index) and index in stage.axes and self._same(index.extent, row.extent):
                table[index] = row
                continue
            part = _part_of(index)
            if part is None or part[0] not in stage.axes:
                return None
            whole, size = part
            if not isinstance(row.extent, int) or whole.extent != row.extent * size:
                return None
            table[whole] = row * size + Index(whole.name, size)
        return table if self._has_all_rows(table) else None

    def _as_read(self, stage: Tensor, reader: Tensor, load: Load) -> dict[Index, PrimExpr] | None:
        """Which axes of *stage* are rows, by where the stage *reader*, whose spot is known, reads it."""
        table: dict[Index, PrimExpr] = {}
        places = self.spots[reader].axes
        for axis, index in zip(stage.axes, load.indices, strict=True):
            row = places.get(index) if isinstance(index, Index) else None
            if row is not None and row in self.rows and self._same(axis.extent, row.extent):
                table[axis] = row
        return table if self._has_all_rows(table) else None

    def _has_all_rows(self, table: Mapping[Index, PrimExpr]) -> bool:
        found = [n for e in table.values() for n in unique_nodes(e) if isinstance(n, Index) and n in self.rows]
        return sorted(map(id, found)) == sorted(map(id, self.rows))

    def _has_form(self, stage: Tensor) -> bool:
        """Whether *stage* has all points and reduces nothing, or has none and reduces over all of them."""
        points = self.spots[stage].points
        if points:
            return not self.reduces[stage] and self._are_points([p.extent for p in points])
        return all(self._are_points([a.extent for a in r.axes if a.extent != 1]) for r in self.reduces[stage])

    def _are_points(self, extents: Sequence[Dimension]) -> bool:
        return len(extents) == len(self.points) and all(
            self._same(e, p.extent) for e, p in zip(extents, self.points, strict=True)
        )

    def _without_reduces(self, stage: Tensor) -> PrimExpr:
        inside = self.reduces[stage]
        return map_expr(stage.element, lambda e: const(0, e.dtype) if e in inside else None)

    def _reads_its_own(self, found: SharedRows, stage: Tensor) -> bool:
        """Whether *stage* reads the others at its own row and point alone."""
        for reduce in (*self.reduces[stage], None):
            body = stage.element if reduce is None else reduce.body
            if reduce is None:
                body = self._without_reduces(stage)
            for load in (n for n in unique_nodes(found.at_points(stage, body, reduce)) if isinstance(n, Load)):
                if load.tensor not in self.stages:
                    continue
                if self.stages.index(load.tensor) >= self.stages.index(stage):
                    return False
                if not all(map(self._equal, load.indices, found.place(load.tensor))):
                    return False
                if found.has_points(load.tensor) and reduce is None and not found.has_points(stage):
                    return False
        return True

    def _equal(self, left: PrimExpr, right: PrimExpr) -> bool:
        difference = self.simplify.polynomial(left).add(self.simplify.polynomial(right), -1)
        return not difference.terms and difference.constant == 0

    def _same(self, left: Dimension, right: Dimension) -> bool:
        return self._equal(as_index(left), as_index(right))


def _without_ones(stage: Tensor) -> dict[Index, PrimExpr]:
    """The axes of *stage*: those of one element are 0."""
    return {a: const(0, INDEX) if a.extent == 1 else a for a in stage.axes}


def _part_of(index: PrimExpr) -> tuple[Index, int] | None:
    """``(axis, n)`` for ``axis // n``."""
    if isinstance(index, Binary) and index.op == "div" and isinstance(index.left, Index):
        if isinstance(index.right, Const) and int(index.right.value) > 1:
            return index.left, int(index.right.value)
    return None
