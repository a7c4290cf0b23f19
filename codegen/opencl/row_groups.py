"""What is pointwise before or behind the rows of a norm, in their group: one kernel for all of it.

Right before them it is what the rows are made of (a sum with what went round the layer), right behind them what is
made of their results (halves for the products that read them). To follow ``split_sums``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from byoc.codegen.kernel.expr_parts import reduces_in
from byoc.codegen.kernel.program import Group, Program
from byoc.codegen.kernel.rewrite_stages import with_body, with_stages
from byoc.codegen.kernel.shared_rows import SharedRows, row_runs, shared_rows
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.device.kernel_plan import own_kernel
from byoc.codegen.opencl.group_fusion import lies_as, viewed
from byoc.te import Index, Tensor, recurrence
from byoc.te.tensor import Load
from byoc.te.walk import loaded_tensors, map_expr, unique_nodes


def join_before_rows(program: Program) -> Program:
    """*program* with what rows are made of in their groups."""
    groups: list[Group] = []
    for group in program.groups:
        if groups and _begins(groups[-1], group):
            groups[-1] = _together(groups[-1], group)
        else:
            groups.append(group)
    return dataclasses.replace(program, groups=tuple(groups))


def join_rows(program: Program) -> Program:
    """*program* with what rows are made of, and what is made of their results, in their groups.

    Some stages become two, of which one is a view: to be written where views need no memory of their own.
    """
    simplify = Simplifier()
    program = _behind_rows_as_they_are(join_before_rows(program), simplify)
    groups: list[Group] = []
    for group in program.groups:
        last = groups[-1] if groups else None
        if last is not None and group.stages and _ends(last, group, simplify):
            first, rest = group.stages[:1], group.stages[1:]
            groups[-1] = _together(last, dataclasses.replace(group, stages=first))
            groups += [dataclasses.replace(group, stages=rest)] if rest else []
        else:
            groups.append(group)
    return dataclasses.replace(program, groups=tuple(groups))


def _together(last: Group, group: Group) -> Group:
    name = f"{last.name}_{group.name.removeprefix('fused_')}"
    return dataclasses.replace(
        group,
        name=name,
        title=name,
        stages=(*last.stages, *group.stages),
        origin=tuple(dict.fromkeys((*last.origin, *group.origin))),
        operators=(*last.operators, *group.operators),
    )


def _begins(before: Group, group: Group) -> bool:
    """Whether the last stage of *before* is a part of the rows of *group*."""
    if not before.stages:  # its readers pad instead of it
        return False
    stage = before.stages[-1]
    read = {t for s in group.stages for t in loaded_tensors(s.element)}
    if stage not in read or reduces_in(stage.element) or recurrence(before.stages) or recurrence(group.stages):
        return False
    return shared_rows([stage, *group.stages]) is not None


def _ends(before: Group, group: Group, simplify: Simplifier) -> bool:
    """Whether the first stage of *group* is a part of the last rows of *before*, and the others are views."""
    first, *others = group.stages
    rows = _last_rows(before)
    if rows is None or recurrence(group.stages) or not all(viewed(s, simplify) for s in others):
        return False
    if not _is_pointwise_in(rows, first, simplify):
        return False
    return shared_rows([*rows.stages, first]) is not None


def _last_rows(group: Group) -> SharedRows | None:
    """The rows with which *group* ends."""
    if not group.stages or recurrence(group.stages):
        return None
    *_, last = row_runs(group.stages, {s for s in group.stages if own_kernel(s) is not None})
    return last if isinstance(last, SharedRows) else None


def _is_pointwise_in(rows: SharedRows, stage: Tensor, simplify: Simplifier) -> bool:
    """Whether *stage* computes something for each element of what it reads of *rows*."""
    if reduces_in(stage.element) or own_kernel(stage) is not None or viewed(stage, simplify) is not None:
        return False
    return any(t in rows.stages for t in loaded_tensors(stage.element))


def _behind_rows_as_they_are(program: Program, simplify: Simplifier) -> Program:
    """*program* whose stages that compute something for each result of rows have the rows' shape.

    One of another shape over the same memory becomes two: the values, and a view of them.
    """
    rows = {g.stages[-1]: found for g in program.groups if (found := _last_rows(g)) is not None}
    single = {g.stages[0] for g in program.groups if len(g.stages) == 1}

    def change(stage: Tensor, renamed: Tensor) -> Sequence[Tensor]:
        read = [n for n in unique_nodes(stage.element) if isinstance(n, Load)]
        source = next((n.tensor for n in read if n.tensor in rows), None)
        if stage not in single or source is None or any(n.tensor is not source for n in read):
            return [renamed]
        found = rows[source]
        if not _is_pointwise_in(found, stage, simplify) or shared_rows([*found.stages, stage]) is not None:
            return [renamed]
        if not all(lies_as(n, stage, simplify) for n in read):
            return [renamed]
        return _in_two(renamed)

    return with_stages(program, change) if rows else program


def _in_two(stage: Tensor) -> Sequence[Tensor]:
    """*stage* as its values in the shape of the one tensor that it reads, and as a view of these."""
    load = next(n for n in unique_nodes(stage.element) if isinstance(n, Load))
    axes = tuple(Index(f"i{k}", extent) for k, extent in enumerate(load.tensor.shape))
    value = map_expr(stage.element, lambda e: load.of(load.tensor, axes) if isinstance(e, Load) else None)
    if any(isinstance(n, Index) and n not in axes for n in unique_nodes(value)):
        return [stage]
    values = Tensor(f"{stage.name}_rows", load.tensor.shape, stage.dtype, axes, value, stage.tag)
    return [values, with_body(stage, Load(values, load.indices))]
