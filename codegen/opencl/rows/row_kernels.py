"""Stages over shared rows as one kernel: softmax, norms, argmax, with what is elementwise before and behind them.

Two schedules:

- *rows*: a work-group a row. Its work-items take the points in turns, so that each reads only what itself has stored;
  a reduction ends in a tree in local memory. What several loops read lies in local memory, where the row fits.
- *row*: a work-item a row, for short rows, for columns that neighbours read side by side, and on processors, where the
  partial results of a reduction fill a vector.

Values at points that nobody else reads, and that do not fit into local memory, lie for the time where a later result
of the same row goes, or else in a temporary buffer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.choice import Choice
from byoc.codegen.kernel.collapse import merge_axes
from byoc.codegen.kernel.expr_parts import reduces_in
from byoc.codegen.kernel.loops import Alloc, For, IfThenElse, LetStmt, Stmt, Store
from byoc.codegen.kernel.reductions import combine, loops, neutral
from byoc.codegen.kernel.shared_rows import SharedRows
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.choosing import OTHER_OPTION, Ranked, group_sizes, local_sizes, penalty, roughly
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, Range, numbered, product
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.device.statements import (
    BlockScope,
    FirstItem,
    LocalArray,
    LocalItem,
    SharedLoop,
    WorkGroup,
    WorkItem,
)
from byoc.codegen.opencl.device.thresholds import NEVER
from byoc.codegen.opencl.rows.row_loops import RowLoop, RowOp, reduces_of, row_loops
from byoc.codegen.opencl.rows.row_statements import GroupFold, GroupPosition, wins
from byoc.codegen.opencl.rows.row_storage import RowStorage, row_storage
from byoc.te import Dimension, Index, PrimExpr, Tensor, const, placeholder
from byoc.te.expr import INDEX, Const, Reduce
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, mentions, unique_nodes

SHORTEST_ROW = 32  # points of a row, from which on one stage alone has a kernel of this kind
MOST_LANES, FEWEST_LANES, FREE_LANES = 512, 32, 128  # work-items of a row's group; where its length is free
POINTS_PER_LANE = 8
MOST_ITEMS, FEW_ITEMS = 64, 16  # work-items of a group where each has a row: on a GPU, on a processor
LONG_ROW = 64  # points that are work enough for a group of one work-item


@dataclass(frozen=True)
class RowKernels:
    """The kernels that compute *stages* together, and the *targets* among these that they leave in buffers."""

    stages: tuple[Tensor, ...]
    targets: tuple[Tensor, ...]
    plans: tuple[KernelPlan, ...]


def row_kernels(
    found: SharedRows,
    outside: Collection[Tensor],
    profile: DeviceProfile,
    simplify: Simplifier,
    choice: Choice | None = None,
) -> RowKernels | None:
    """The kernels of the stages of *found*, of which anything else reads those in *outside*.

    With *choice*, one of :func:`row_space`, the kernel that it means. None for one stage of short rows, which needs no
    kernel of its own kind.
    """
    if not have_own_kernel(found, profile, simplify):
        return None
    chosen = list(_schedules(found, profile, simplify))
    local = None
    if choice is not None:
        own = dict(choice.parameters)
        chosen = [(int(own.get("lanes", 0)), ())]
        local = int(own["local"]) if "local" in own else None
    kernels = [_RowKernel(found, outside, profile, simplify, lanes, local) for lanes, _ in chosen]
    spilled = {t for k in kernels for t in k.storage.spilled}
    targets = tuple(s for s in found.stages if s in outside or s in spilled)
    plans = tuple(kernel.plan(when) for kernel, (_, when) in zip(kernels, chosen, strict=True))
    return RowKernels(found.stages, targets, plans)


def have_own_kernel(found: SharedRows, profile: DeviceProfile, simplify: Simplifier) -> bool:
    """Whether the stages of *found* have a kernel of this kind: several, one of long rows, a position in free ones."""
    length = _count(found.points, simplify)
    shortest = min(SHORTEST_ROW, profile.thresholds.shortest_tree)
    if isinstance(length, Const):
        return len(found.stages) > 1 or int(length.value) >= shortest
    return len(found.stages) > 1 or any(r.kind.startswith("arg") for s in found.stages for r in reduces_in(s.element))


def row_space(found: SharedRows, profile: DeviceProfile, simplify: Simplifier) -> Ranked:
    """Every candidate for *found* with every work-group, the model's first; none where the sizes of a call decide."""
    lanes, when = next(_schedules(found, profile, simplify))
    count = _count(found.rows, simplify)
    if when or not isinstance(count, Const):
        return []
    base = roughly(found.stages, profile)
    own = _RowKernel(found, (), profile, simplify, 0).items()
    wide = lanes or min(_lanes(_count(found.points, simplify)), profile.max_group)
    sizes = [n for n in group_sizes(wide, profile.max_group) if n <= MOST_LANES]
    tree = [(base * (1 + penalty(n, wide)), Choice.of("rows", lanes=n)) for n in sizes]
    locals_ = dict.fromkeys([own, *local_sizes(int(count.value), profile.max_group)])
    row = [(base * (1 + penalty(n, own)), Choice.of("row", local=n)) for n in locals_]
    first, second = (tree, row) if lanes else (row, tree)
    ranked = sorted([*first, *((cost * (1 + OTHER_OPTION), c) for cost, c in second)], key=lambda pair: pair[0])
    default = Choice.of("rows", lanes=lanes) if lanes else Choice.of("row", local=own)
    return [next(p for p in ranked if p[1] == default), *(p for p in ranked if p[1] != default)]


def _count(axes: Sequence[Index], simplify: Simplifier) -> PrimExpr:
    return simplify(product([a.extent for a in axes]))


def _schedules(
    found: SharedRows, profile: DeviceProfile, simplify: Simplifier
) -> Iterator[tuple[int, tuple[Range, ...]]]:
    """For each kernel the work-items that share a row, 0 for one a row, and the sizes that it is for."""
    length, count = _count(found.points, simplify), _count(found.rows, simplify)
    of = profile.thresholds
    if of.shortest_tree < NEVER:
        when = [Range(length, of.shortest_tree)]
        when += [Range(count, most=of.enough_rows - 1)] if _are_columns(found, simplify) else []
        if not any(r.known() is False for r in when):
            left = tuple(r for r in when if r.known() is None)
            yield min(_lanes(length), profile.max_group), left
            if not left:
                return
    yield 0, ()


def _lanes(length: PrimExpr) -> int:
    if not isinstance(length, Const):
        return FREE_LANES
    wanted = max(FEWEST_LANES, -(-int(length.value) // POINTS_PER_LANE))
    return int(min(MOST_LANES, 1 << (wanted - 1).bit_length()))


def _are_columns(found: SharedRows, simplify: Simplifier) -> bool:
    """Whether neighbouring rows lie side by side: the last axis of what the row is made of is no point."""
    for stage in found.stages:
        bodies = (
            [(stage.element, None)] if found.has_points(stage) else [(r.body, r) for r in reduces_in(stage.element)]
        )
        for body, reduce in bodies:
            for load in _loads(found.at_points(stage, body, reduce)):
                step = simplify.flat_index(load.tensor, load.indices).coefficient(found.points[-1])
                if load.tensor not in found.stages and mentions(load, found.points[-1]) and step == 1:
                    return False
    return True


def _loads(expr: PrimExpr) -> list[Load]:
    return [n for n in unique_nodes(expr) if isinstance(n, Load)]


class _RowKernel:
    """The statements of one kernel; *lanes* work-items share a row, or one has it where that is 0.

    *local* are the work-items of a group where each has a row, if the model does not say them.
    """

    def __init__(
        self,
        found: SharedRows,
        outside: Collection[Tensor],
        profile: DeviceProfile,
        simplify: Simplifier,
        lanes: int,
        local: int | None = None,
    ):
        self.found, self.outside, self.profile, self.simplify, self.lanes = found, outside, profile, simplify, lanes
        self.local = local
        self.loops = row_loops(found)
        self.storage: RowStorage = row_storage(found, self.loops, outside, profile, bool(lanes), simplify)
        self.numbers: dict[Tensor, Tensor] = {}
        self.results: dict[Reduce, Tensor] = {}
        self.length = _count(found.points, simplify)

    def plan(self, when: tuple[Range, ...]) -> KernelPlan:
        """The kernel, for sizes in *when*."""
        found = self.found
        row, axes = numbered("row", found.rows, self.simplify)
        local = self.items() if self.local is None else self.local
        item = WorkItem(row) if self.local is None else WorkItem(row, local)
        code: list[Stmt] = [WorkGroup(row) if self.lanes else item, *axes]
        code += [LocalArray(t) if self.lanes else Alloc(t) for t in self.storage.arrays]
        for loop in self.loops:
            code += self._loop(loop)
        count = as_index(row.extent)
        if self.lanes:
            return KernelPlan("rows", code, count, True, when, local=self.lanes)
        return KernelPlan("row", code, count, False, when, local=local)

    def items(self) -> int:
        """The work-items of a group where each has a row, as the model takes them."""
        if not self.profile.is_cpu:
            return MOST_ITEMS
        return 1 if not isinstance(self.length, Const) or int(self.length.value) >= LONG_ROW else FEW_ITEMS

    # a loop along the row -------------------------------------------------------------------------------------------

    def _loop(self, loop: RowLoop) -> list[Stmt]:
        ops = self._ops(loop)
        points, ops = self._merged(ops)
        folds = [op for op in ops if op.reduce is not None]
        positions = any(r.kind.startswith("arg") for r in reduces_of(ops))
        code: list[Stmt] = []
        if self.lanes:
            code += self._shared(points, ops)
        elif ops and folds and not positions and self.profile.float_lanes > 1 and len(points) == 1:
            code += self._in_lanes(points[0], ops)
        elif ops:
            code += [s for op in folds for s in self._begin(op)]
            code += loops(points, [s for op in ops for s in self._at_point(op, points)])
        for stage in loop.numbers:
            code += self._number(stage)
        return code

    def _ops(self, loop: RowLoop) -> list[RowOp]:
        """What is done at a point, in order."""
        found = self.found
        bound: dict[Tensor, Tensor] = {}
        ops: list[RowOp] = []
        cached = self.storage.cached
        fresh: dict[object, Tensor] = {}

        def resolved(e: PrimExpr) -> PrimExpr | None:
            if not isinstance(e, Load):
                return None
            if e.tensor in self.numbers:
                return self.numbers[e.tensor][()]
            if e.tensor in bound:
                return bound[e.tensor][()]
            if e.tensor in found.stages:
                return Load(*self.storage.place(e.tensor, found))
            key = self.storage.key(e)
            if key not in cached:
                return None
            first, array = cached[key]
            if first is not loop:
                return Load(array, found.points)
            if key not in fresh:
                fresh[key] = placeholder((), e.dtype, f"own_{e.tensor.name}")
                ops.append(RowOp(fresh[key], (), e, declared=True))
                ops.append(RowOp(array, found.points, fresh[key][()]))
            return fresh[key][()]

        for (stage, reduce), value in zip(loop.steps, loop.values(found), strict=True):
            new = map_expr(value, resolved)
            if reduce is not None:
                name = "position" if reduce.kind.startswith("arg") else "acc"
                self.results[reduce] = acc = placeholder((), reduce.dtype, name)
                ops.append(RowOp(acc, (), new, reduce=reduce))
                continue
            bound[stage] = placeholder((), stage.dtype, f"own_{stage.name}")
            ops.append(RowOp(bound[stage], (), new, declared=True))
            if stage in self.outside:
                ops.append(RowOp(stage, found.place(stage), bound[stage][()]))
            target, indices = self.storage.place(stage, found)
            if self.storage.is_kept(stage) and target is not stage:
                ops.append(RowOp(target, indices, bound[stage][()]))
            elif target is stage and stage in self.storage.spilled:
                ops.append(RowOp(stage, indices, bound[stage][()]))
        return ops

    def _merged(self, ops: list[RowOp]) -> tuple[tuple[Index, ...], list[RowOp]]:
        """*ops* over one axis for all points, where every access runs through them without a gap."""
        points = self.found.points
        if len(points) < 2:
            return points, ops
        exprs = [e for op in ops for e in (op.value, Load(op.target, op.indices))]
        merged = merge_axes(points, exprs, self.simplify)
        if merged is None:
            return points, ops
        axis, new = merged
        result = []
        for op, value, place in zip(ops, new[::2], new[1::2], strict=True):
            assert isinstance(place, Load)
            result.append(RowOp(op.target, place.indices, value, op.declared, op.reduce))
        return (axis,), result

    def _shared(self, points: Sequence[Index], ops: Sequence[RowOp]) -> list[Stmt]:
        """The points dealt out to the work-items of the group, and the trees of what is reduced."""
        folds = [op for op in ops if op.reduce is not None]
        code: list[Stmt] = [s for op in folds for s in self._begin(op)]
        if not ops:
            return code
        point, lets = numbered("point", points, self.simplify)
        body = [s for op in ops for s in self._at_point(op, points)]
        code.append(SharedLoop(point, point.extent, [*lets, *body]))
        for op in folds:
            assert op.reduce is not None
            scratch = placeholder((self.lanes,), op.value.dtype, "scratch")
            if op.reduce.kind.startswith("arg"):
                places = placeholder((self.lanes,), INDEX, "places")
                code.append(GroupPosition(op.reduce.kind, self._best(op), op.target, scratch, places))
            else:
                code.append(GroupFold(op.reduce.kind, op.target, scratch))
        return code

    def _in_lanes(self, point: Index, ops: Sequence[RowOp]) -> list[Stmt]:
        """Partial results side by side, as many as fill a vector, each of every so many points."""
        width = self.profile.float_lanes
        folds = [op for op in ops if op.reduce is not None]
        partial = {op.target: placeholder((width,), op.target.dtype, "partial") for op in folds}
        code: list[Stmt] = []
        for op, reduce in zip(folds, reduces_of(ops), strict=True):
            lane = Index("lane", width)
            start = neutral(reduce.kind, op.target.dtype)
            code += [Alloc(partial[op.target]), For(lane, width, [Store(partial[op.target], (lane,), start)])]
        whole: Dimension = self.simplify(as_index(point.extent) // width)
        whole = int(whole.value) if isinstance(whole, Const) else whole
        block, lane = Index("block", whole), Index("lane", width)

        def body(slot: PrimExpr) -> list[Stmt]:
            made: list[Stmt] = []
            for op in ops:
                if op.reduce is None:
                    made += self._at_point(op, (point,))
                else:
                    acc = partial[op.target]
                    made.append(Store(acc, (slot,), combine(op.reduce.kind, acc[slot], op.value)))
            return made

        if whole != 0:
            code.append(For(block, whole, [For(lane, width, [LetStmt(point, block * width + lane), *body(lane)])]))
        rest = self.simplify(as_index(point.extent) % width)
        if not (isinstance(rest, Const) and rest.value == 0):
            end = Index("rest", rest)
            code.append(BlockScope([For(end, rest, [LetStmt(point, whole * width + end), *body(end)])]))
        for op in folds:
            assert op.reduce is not None
            acc, lane = partial[op.target], Index("lane", width)
            fold = Store(op.target, (), combine(op.reduce.kind, op.target[()], acc[lane]))
            code += [*self._begin(op), For(lane, width, [fold])]
        return code

    def _begin(self, op: RowOp) -> list[Stmt]:
        """What declares the result of a reduction."""
        assert op.reduce is not None
        kind = op.reduce.kind
        if not kind.startswith("arg"):
            return [Alloc(op.target, neutral(kind, op.target.dtype))]
        start = neutral("min" if kind == "argmin" else "max", op.value.dtype)
        first: list[Stmt] = [Alloc(op.target, const(0, INDEX))]
        if self.lanes:
            lane = Index("first", self.lanes)
            first = [LocalItem(lane), Alloc(op.target, lane)]
        return [Alloc(self._best(op), start), *first]

    def _best(self, op: RowOp) -> Tensor:
        return self.storage.local(op.target, "best", op.value.dtype)

    def _at_point(self, op: RowOp, points: Sequence[Index]) -> list[Stmt]:
        if op.declared:
            return [Alloc(op.target, op.value)]
        if op.reduce is None:
            return [Store(op.target, op.indices, op.value)]
        kind = op.reduce.kind
        if not kind.startswith("arg"):
            return [Store(op.target, (), combine(kind, op.target[()], op.value))]
        item, best = self.storage.local(op.target, "item", op.value.dtype), self._best(op)
        update = [Store(best, (), item[()]), Store(op.target, (), points[0])]
        return [Alloc(item, op.value), IfThenElse(wins(kind, item[()], best[()]), update)]

    # behind it ------------------------------------------------------------------------------------------------------

    def _number(self, stage: Tensor) -> list[Stmt]:
        """The value of *stage* for the row."""
        results = {r: self.results[r][()] for r in reduces_in(stage.element)}
        value = map_expr(stage.element, lambda e: results.get(e) if isinstance(e, Reduce) else None)
        value = map_expr(
            self.found.at_points(stage, value),
            lambda e: self.numbers[e.tensor][()] if isinstance(e, Load) and e.tensor in self.numbers else None,
        )
        self.numbers[stage] = number = placeholder((), stage.dtype, stage.name)
        code: list[Stmt] = [Alloc(number, value)]
        if stage in self.outside:
            store = Store(stage, self.found.place(stage), number[()])
            code.append(FirstItem([store]) if self.lanes else store)
        return code
