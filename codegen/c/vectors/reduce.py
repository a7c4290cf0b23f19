"""Reductions by vectors: along a summed axis that is contiguous, or with the lanes on the output's last axis.

Along a summed axis, several vectors of partial results hide the latency of a step; they are combined as a tree. A long
float32 sum is made of such blocks, whose results are added in float64: so no sum passes through more than a few dozen
additions in float32. With lanes on the output, each lane has its result to itself; a long sum is made of chains, about
as many as each has steps. Conditions that keep a window
inside its tensor become bounds of its loops. Products of different tensors are left to the contractions' schedules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from byoc.codegen.c.tiling.blocks import Chain, Places, at, block_of, chain_length, in_chains
from byoc.codegen.c.tiling.window import FoldedWindow, clipped
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.vectors.elementwise import SMALLEST_LANES, SMALLEST_VECTOR, lane_count
from byoc.codegen.c.vectors.lane_analysis import can_be_vector, values
from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.inline import estimated_size
from byoc.codegen.kernel.loops import AddLanes, Alloc, Stmt, Store, VectorStore
from byoc.codegen.kernel.reductions import combine, is_product, loops, neutral
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.te import Index, PrimExpr, Tensor, binary, cast, placeholder
from byoc.te.expr import Reduce, Select
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes

KINDS = frozenset(["sum", "prod", "min", "max"])
DTYPES = frozenset(["float32", "float64", "int32", "int64"])
MOST_VECTORS = 4
LONGEST_CHAIN = 32  # additions in float32 to one partial sum


def vector_reduce(nest: Nest, simplify: Simplifier, machine: Machine) -> list[Stmt]:
    """The loop nest of *nest*, whose value has one reduction or several; nothing where neither way fits."""
    reduces = [n for n in unique_nodes(nest.value) if isinstance(n, Reduce)]
    if not reduces or machine.vector_bytes < SMALLEST_VECTOR or not all(_is_simple(r) for r in reduces):
        return []
    return _by_columns(nest, reduces, simplify, machine) or _along(nest, reduces, simplify, machine)


def _is_simple(reduce: Reduce) -> bool:
    if reduce.kind not in KINDS or reduce.dtype not in DTYPES or is_product(reduce):
        return False
    return not any(isinstance(n, Reduce) for n in unique_nodes(reduce.body))


def folded(kind: str, total: PrimExpr, value: PrimExpr) -> PrimExpr:
    """*total* with one more *value*: of an extreme the value stands first, which is the operand asked for a NaN.

    So the next step waits for the comparison of the totals alone, not for the check whether there was a NaN.
    """
    return combine(kind, value, total) if kind in ("min", "max") else combine(kind, total, value)


def _steps(body: PrimExpr, axis: Index, simplify: Simplifier) -> list[int | None]:
    loads = [n for n in values(body) if isinstance(n, Load)]
    return [simplify.flat_index(n.tensor, n.indices).coefficient(axis) for n in loads]


def _contiguous(body: PrimExpr, axis: Index, lanes: int, simplify: Simplifier) -> bool:
    """Whether vectors alone compute *body* along *axis*, from neighbours and from what stands still."""
    steps = _steps(body, axis, simplify)
    if lanes < SMALLEST_LANES or 1 not in steps or any(s not in (0, 1) for s in steps):
        return False
    lane, block = Index("lane", lanes), Index("block", as_index(axis.extent) // lanes)
    placed = simplify(at(body, {axis: block * lanes + lane}))
    return can_be_vector(placed, lane, lanes, simplify)


def _lanes(bodies: Sequence[PrimExpr], dtype: str, axis: Index, machine: Machine, simplify: Simplifier) -> int:
    lanes = min(lane_count(b, dtype, axis, machine, simplify) for b in bodies)
    while isinstance(axis.extent, int) and lanes > axis.extent:
        lanes //= 2
    return lanes


def _by_columns(nest: Nest, reduces: Sequence[Reduce], simplify: Simplifier, machine: Machine) -> list[Stmt]:
    column = nest.axes[-1] if nest.axes else None
    if column is None or not isinstance(column.extent, int):
        return []
    windows = [clipped(r, column, simplify) for r in reduces]
    lanes = _lanes([w.body for w in windows], nest.stage.dtype, column, machine, simplify)
    if not all(_contiguous(w.body, column, lanes, simplify) for w in windows):
        return []
    if simplify.flat_index(nest.stage, nest.indices).coefficient(column) != 1:
        return []
    vectors = min(MOST_VECTORS, column.extent // lanes)
    block, lane = block_of(column, lanes * vectors), Index("lane", lanes)
    block = replace(block, start=Index(column.name, column.extent - block.count + 1))
    places = [{column: block.start + (lane + v * lanes)} for v in range(vectors)]
    code: list[Stmt] = []
    totals: list[dict[PrimExpr, PrimExpr]] = [{} for _ in range(vectors)]
    for reduce, window in zip(reduces, windows, strict=True):
        accs = [placeholder((lanes,), reduce.dtype, f"acc_{v}") for v in range(vectors)]
        code += _cleared(accs, reduce.kind, lane)
        code += _column_steps(reduce, window, accs, (lane, places))
        for v, a in enumerate(accs):
            totals[v][reduce] = a[lane]
    for v, place in enumerate(places):
        indices = [at(i, dict(place)) for i in nest.indices]

        def leaf(e: PrimExpr, v: int = v, p: Mapping[Index, PrimExpr] = place) -> PrimExpr | None:
            return totals[v].get(e) or (p.get(e) if isinstance(e, Index) else None)

        value = map_expr(nest.value, leaf)
        code.append(VectorStore(nest.stage, indices, value, lane))
    return loops(nest.axes[:-1], [block.over(code)])


def _cleared(accs: Sequence[Tensor], kind: str, lane: Index) -> list[Stmt]:
    return [Alloc(a, neutral(kind, a.dtype), vector=True, lane=lane) for a in accs]


def _column_steps(
    reduce: Reduce, window: FoldedWindow, accs: Sequence[Tensor], columns: tuple[Index, Sequence[Places]]
) -> list[Stmt]:
    """All steps of a reduction into *accs*, one for each of the *columns*; a long sum's in chains of their own."""
    lane, places = columns

    def steps(into: Sequence[Tensor], where: Places) -> list[Stmt]:
        bodies = [at(window.body, {**place, **where}) for place in places]
        return [
            VectorStore(a, (lane,), folded(reduce.kind, a[lane], body), lane)
            for a, body in zip(into, bodies, strict=True)
        ]

    def chain(where: Places, around: Chain) -> list[Stmt]:
        parts = [placeholder(a.shape, a.dtype, f"part_{v}") for v, a in enumerate(accs)]
        sums = [VectorStore(a, (lane,), a[lane] + b[lane], lane) for a, b in zip(accs, parts, strict=True)]
        return [*_cleared(parts, reduce.kind, lane), *around(steps(parts, where)), *sums]

    length = chain_length(reduce, 2 * LONGEST_CHAIN)
    if length is None or window.first or window.end:
        return window.loops(reduce.axes, steps(accs, {}))
    return in_chains(reduce.axes, length, chain)


def _along(nest: Nest, reduces: Sequence[Reduce], simplify: Simplifier, machine: Machine) -> list[Stmt]:
    code: list[Stmt] = []
    totals: dict[PrimExpr, PrimExpr] = {}
    for reduce in reduces:
        inner = reduce.axes[-1]
        lanes = _lanes([reduce.body], reduce.dtype, inner, machine, simplify)
        if not _contiguous(reduce.body, inner, lanes, simplify):
            return []
        row = _Row(reduce, lanes)
        code += row.statements()
        totals[reduce] = cast(reduce.dtype, row.total[()])
    value = map_expr(nest.value, totals.get)
    return loops(nest.axes, [*code, Store(nest.stage, nest.indices, value)])


class _Row:
    """One reduction along its innermost axis, and the scalar *total* that gets its result."""

    def __init__(self, reduce: Reduce, lanes: int):
        self.reduce, self.lanes, self.kind = reduce, lanes, reduce.kind
        self.inner, self.others = reduce.axes[-1], reduce.axes[:-1]
        self.extent = self.inner.extent
        count = min(MOST_VECTORS, self.extent // lanes) if isinstance(self.extent, int) else MOST_VECTORS
        self.lane = Index("lane", lanes)
        self.accs = [placeholder((lanes,), reduce.dtype, f"acc_{u}") for u in range(count)]
        self.stride = count * lanes
        wide = self.kind == "sum" and reduce.dtype == "float32" and self._is_long()
        self.total = placeholder((), "float64" if wide else reduce.dtype, self.kind)
        self.is_long = wide

    def _is_long(self) -> bool:
        points = estimated_size([a.extent for a in self.reduce.axes])
        return isinstance(self.extent, int) and points > 2 * LONGEST_CHAIN * self.stride

    def statements(self) -> list[Stmt]:
        """The accumulators, their steps, and the combination of what they hold."""
        start: list[Stmt] = [Alloc(self.total, neutral(self.kind, self.total.dtype))]
        if not isinstance(self.extent, int):
            steps = as_index(self.extent) // self.stride
            step, rest = Index(self.inner.name, steps), Index(self.inner.name, as_index(self.extent) % self.stride)
            last = at(self.reduce.body, {self.inner: rest + as_index(steps) * self.stride})
            body = loops([*self.others, step], self._step(step * self.stride))
            tail = Store(self.total, (), combine(self.kind, self.total[()], last))
            return [*start, *self._fold(body), *loops([*self.others, rest], [tail])]
        whole = self.extent // self.stride
        if not self.is_long:
            return [*start, *self._fold(loops(self.others, self._span(0, whole)))]
        blocks = whole // LONGEST_CHAIN
        code: list[Stmt] = []
        if blocks:
            block, step = Index(f"{self.inner.name}_block", blocks), Index(self.inner.name, LONGEST_CHAIN)
            place = (block * LONGEST_CHAIN + step) * self.stride
            code += loops([block], self._fold(loops([step], self._step(place))))
        if blocks * LONGEST_CHAIN * self.stride < self.extent:
            self.accs = [placeholder(a.shape, a.dtype, a.name) for a in self.accs]  # both blocks may stand in one scope
            code += self._fold(self._span(blocks * LONGEST_CHAIN, whole))
        return [*start, *loops(self.others, code)]

    def _fold(self, body: Sequence[Stmt]) -> list[Stmt]:
        """*body* between the declaration of the accumulators and their combination into the total."""
        accs, lane = list(self.accs), self.lane
        code: list[Stmt] = [Alloc(a, neutral(self.kind, a.dtype), vector=True, lane=lane) for a in accs]
        code += body
        while len(accs) > 1:
            half = (len(accs) + 1) // 2
            for a, b in zip(accs, accs[half:], strict=False):
                code.append(VectorStore(a, (lane,), combine(self.kind, a[lane], b[lane]), lane))
            accs = accs[:half]
        part = placeholder((), self.reduce.dtype, "part")
        code += [Alloc(part), AddLanes(part, (), accs[0], self.kind)]
        code.append(Store(self.total, (), combine(self.kind, self.total[()], cast(self.total.dtype, part[()]))))
        return code

    def _step(self, place: PrimExpr) -> list[Stmt]:
        """One step of every accumulator, at *place* and behind it."""
        return [self._add(a, place + (self.lane + u * self.lanes)) for u, a in enumerate(self.accs)]

    def _add(self, acc: Tensor, place: PrimExpr, least: int = 0) -> Stmt:
        """*acc* with the elements at *place*, of which the lanes from *least* on count."""
        value = at(self.reduce.body, {self.inner: place})
        if least:
            value = Select(binary("ge", self.lane, least), value, neutral(self.kind, value.dtype))
        return VectorStore(acc, (self.lane,), folded(self.kind, acc[self.lane], value), self.lane)

    def _span(self, first: int, whole: int) -> list[Stmt]:
        """The steps from *first* to *whole*, and what is left of the axis: vectors, then the last one moved back."""
        step = Index(self.inner.name, whole - first)
        code = loops([step], self._step((step + first) * self.stride)) if whole > first else []
        at_place, extent, lanes = whole * self.stride, int(self.extent), self.lanes
        for acc in self.accs:
            if at_place + lanes > extent:
                break
            code.append(self._add(acc, self.lane + at_place))
            at_place += lanes
        if at_place < extent:
            code.append(self._add(self.accs[-1], self.lane + (extent - lanes), lanes - (extent - at_place)))
        return code
