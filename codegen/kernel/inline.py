"""Inlining inside a fused group: which stages stay buffers, and what the others become in their consumers.

Requires stages that load from ready tensors or from each other. Ensures: every stage that is kept computes what it
computed before, and no expensive element is computed more often than it was. A reduction that one consumer reads
element by element goes into that consumer, whose own arithmetic is then the reduction's epilogue: one store, no buffer.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from byoc.te import Dimension, Index, PrimExpr, Tensor, in_phases, recurrence
from byoc.te.expr import Binary, Const, Intrinsic, Reduce
from byoc.te.tensor import Load
from byoc.te.walk import computed_under, loaded_tensors, map_expr, operands, unique_nodes

MAX_NODES = 160
MAX_DEPTH = 24
SYMBOLIC_EXTENT = 32  # a size known at run time counts as this much in estimates
CHEAP_INTRINSICS = frozenset(["abs", "not", "bit_not", "isnan", "isinf", "isfinite", "sign", "floor", "ceil", "trunc"])


@dataclass
class Use:
    """How one stage reads another: how often in its text, and whether inside a reduction or not element by element."""

    sites: int = 0
    reduce_points: int = 1
    in_reduction: bool = False
    identity: bool = True


@dataclass
class InliningPlan:
    """What became of each stage so far: the kept ones, and the bodies of the inlined ones."""

    kept: dict[Tensor, Tensor] = field(default_factory=dict)
    inlined: dict[Tensor, PrimExpr] = field(default_factory=dict)
    depth: dict[Tensor, int] = field(default_factory=dict)


def estimated_size(shape: Sequence[Dimension]) -> int:
    """The number of elements, with a nominal number for a size that is known when the code runs."""
    return math.prod(_estimated(d) for d in shape)


def _estimated(dim: Dimension) -> int:
    """*dim*, or what it would be with the nominal number for each size in it."""
    if isinstance(dim, int):
        return dim
    if isinstance(dim, Const):
        return int(dim.value)
    if isinstance(dim, Binary) and dim.op in _ARITHMETIC:
        return max(_ARITHMETIC[dim.op](_estimated(dim.left), _estimated(dim.right)), 1)
    return SYMBOLIC_EXTENT


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": lambda a, b: a // max(b, 1),
    "min": min,
    "max": max,
}


def fuse_stages(outputs: Sequence[Tensor], ready: AbstractSet[Tensor]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The stages that remain of a group, producers first, and what stands for each of *outputs* now.

    *ready* are the tensors that exist before the group runs: they are loaded from and never inlined. A group with a
    recurrence stays as it was written: its steps are stages by intention.
    """
    order = computed_under(outputs, ready)
    if recurrence(order):
        return tuple(s for phase in in_phases(order) for s in phase), tuple(outputs)
    uses = _uses(order)
    plan = InliningPlan()
    results = set(outputs)
    for stage in order:
        body = _rewritten(stage, plan)
        if stage not in results and _worth_inlining(stage, body, uses.get(stage, {}), plan):
            plan.inlined[stage] = body
        else:
            plan.kept[stage] = stage if body is stage.body else _with_body(stage, body)
            plan.depth[stage] = 0
    return _joined(tuple(plan.kept.values()), tuple(plan.kept.get(t, t) for t in outputs))


def _joined(stages: Sequence[Tensor], outputs: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """*stages* with each one whose only reader takes it element by element put into that, however often it reads it.

    What stands at several places in the reader is one node, which is computed once.
    """
    bodies: dict[Tensor, PrimExpr] = {s: s.element for s in stages}
    uses = _uses(stages)
    for stage in stages:
        readers = uses[stage]
        if len(readers) != 1 or stage in outputs:
            continue
        (reader,) = readers
        if not readers[reader].identity and not _is_permuted(stage, bodies[stage], reader, bodies[reader]):
            continue
        nodes = [*unique_nodes(bodies[reader]), *unique_nodes(bodies[stage])]
        if len(nodes) > MAX_NODES or len([n for n in nodes if isinstance(n, Reduce)]) > 1:
            continue
        load = next(n for n in unique_nodes(bodies[reader]) if isinstance(n, Load) and n.tensor is stage)
        value = substitute_axes(bodies.pop(stage), stage.axes, load.indices)

        def leaf(e: PrimExpr, stage: Tensor = stage, value: PrimExpr = value) -> PrimExpr | None:
            return value if isinstance(e, Load) and e.tensor is stage else None

        bodies[reader] = map_expr(bodies[reader], leaf)
    return _rebuilt(bodies, outputs)


def _is_permuted(stage: Tensor, body: PrimExpr, reader: Tensor, reading: PrimExpr) -> bool:
    """Whether *reader* takes each element of the sums *stage* once, only in another order of the outer axes."""
    loads = [n for n in unique_nodes(reading) if isinstance(n, Load) and n.tensor is stage]
    if len(loads) != 1 or not any(isinstance(n, Reduce) for n in unique_nodes(body)):
        return False
    if any(isinstance(n, Reduce) for n in unique_nodes(reading)):
        return False
    used = [i for i, d in zip(loads[0].indices, stage.shape, strict=True) if d != 1]
    own = [a for a in reader.axes if a.extent != 1]
    same = len(used) == len(own) and set(map(id, used)) == set(map(id, own))
    return same and bool(own) and used[-1] is own[-1] and own[-1] is reader.axes[-1]


def _rebuilt(
    bodies: dict[Tensor, PrimExpr], outputs: Sequence[Tensor]
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The stages of *bodies*, which speak of stages as they were."""
    new: dict[Tensor, Tensor] = {}

    def leaf(e: PrimExpr) -> PrimExpr | None:
        if not isinstance(e, Load) or new.get(e.tensor, e.tensor) is e.tensor:
            return None
        return Load(new[e.tensor], [map_expr(i, leaf) for i in e.indices])

    for stage, body in bodies.items():
        renamed = map_expr(body, leaf)
        new[stage] = stage if renamed is stage.body else _with_body(stage, renamed)
    return tuple(new.values()), tuple(new.get(t, t) for t in outputs)


def _with_body(stage: Tensor, body: PrimExpr) -> Tensor:
    return Tensor(stage.name, stage.shape, stage.dtype, stage.axes, body, stage.tag, stage.meta)


def substitute_axes(body: PrimExpr, axes: Sequence[Index], indices: Sequence[PrimExpr]) -> PrimExpr:
    """*body* with each axis replaced by the index of the same position."""
    if all(a is i for a, i in zip(axes, indices, strict=True)):
        return body
    table = dict(zip(axes, indices, strict=True))
    return map_expr(body, lambda e: table.get(e) if isinstance(e, Index) else None)


def _rewritten(stage: Tensor, plan: InliningPlan) -> PrimExpr:
    """The body of *stage* with inlined producers put in and kept ones renamed."""
    memo: dict[tuple[object, ...], PrimExpr] = {}

    def leaf(expr: PrimExpr) -> PrimExpr | None:
        if not isinstance(expr, Load) or (expr.tensor not in plan.inlined and expr.tensor not in plan.kept):
            return None
        indices = tuple(map_expr(i, leaf) for i in expr.indices)
        if expr.tensor in plan.kept:
            return expr.of(plan.kept[expr.tensor], indices)
        key = (expr.tensor, *indices)
        if key not in memo:
            memo[key] = substitute_axes(plan.inlined[expr.tensor], expr.tensor.axes, indices)
        return memo[key]

    return map_expr(stage.element, leaf)


def _uses(order: Sequence[Tensor]) -> dict[Tensor, dict[Tensor, Use]]:
    """For each stage of *order* the stages that read it, and how."""
    uses: dict[Tensor, dict[Tensor, Use]] = {t: {} for t in order}
    for consumer in order:
        for load, axes in _loads(consumer.element):
            if load.tensor not in uses:
                continue
            use = uses[load.tensor].setdefault(consumer, Use())
            use.sites += 1
            use.identity &= not axes and _is_identity(load, consumer)
            if axes:
                use.in_reduction = True
                use.reduce_points = max(use.reduce_points, estimated_size([a.extent for a in axes]))
    return uses


def _loads(body: PrimExpr) -> Iterator[tuple[Load, tuple[Index, ...]]]:
    """Each load with the reduction axes around it."""
    stack: list[tuple[PrimExpr, tuple[Index, ...]]] = [(body, ())]
    seen: set[tuple[int, tuple[Index, ...]]] = set()
    while stack:
        node, axes = stack.pop()
        if (id(node), axes) in seen:
            continue
        seen.add((id(node), axes))
        if isinstance(node, Load):
            yield node, axes
        inner = (*axes, *node.axes) if isinstance(node, Reduce) else axes
        stack.extend((e, inner) for e in operands(node))


def _is_identity(load: Load, consumer: Tensor) -> bool:
    """True when element ``(i, j, …)`` of *consumer* reads exactly element ``(i, j, …)``."""
    if len(load.indices) != len(consumer.axes):
        return False
    return all(
        axis.extent == extent and (index is axis or (isinstance(index, Const) and extent == 1))
        for index, axis, extent in zip(load.indices, consumer.axes, load.tensor.shape, strict=True)
    )


def _worth_inlining(stage: Tensor, body: PrimExpr, uses: dict[Tensor, Use], plan: InliningPlan) -> bool:
    nodes = list(unique_nodes(body))
    if any(isinstance(n, Reduce) for n in nodes):
        return len(uses) == 1 and all(u.identity for u in uses.values()) and _fits(stage, body, nodes, 1, plan)
    if not any(isinstance(n, Load) for n in nodes) and len(nodes) <= 4:
        return True
    sites = sum(u.sites for u in uses.values())
    if not _fits(stage, body, nodes, sites, plan):
        return False
    expensive = any(isinstance(n, Intrinsic) and n.name not in CHEAP_INTRINSICS for n in nodes)
    if expensive and sites > 1:
        return False
    own = max(estimated_size(stage.shape), 1)
    return all(_cheap_in(stage, body, consumer, use, own, expensive) for consumer, use in uses.items())


def _cheap_in(stage: Tensor, body: PrimExpr, consumer: Tensor, use: Use, own: int, expensive: bool) -> bool:
    repeated = estimated_size(consumer.shape) * use.reduce_points > own
    if use.in_reduction:
        return stage.tag != "pad" and (not repeated or _is_view(body))
    return not (expensive and repeated)


def _is_view(body: PrimExpr) -> bool:
    """True for a load at indices without division: a transpose, a slice, a broadcast."""
    return isinstance(body, Load) and not any(
        isinstance(n, Load) or (isinstance(n, Binary) and n.op in ("div", "mod"))
        for index in body.indices
        for n in unique_nodes(index)
    )


def _fits(stage: Tensor, body: PrimExpr, nodes: Sequence[PrimExpr], sites: int, plan: InliningPlan) -> bool:
    """True while the text stays readable and far from the recursion limit; remembers how deep *stage* reaches."""
    below = max((plan.depth.get(t, 0) for t in loaded_tensors(stage.element)), default=0)
    plan.depth[stage] = below + 1
    return len(nodes) * sites <= MAX_NODES and plan.depth[stage] <= MAX_DEPTH
