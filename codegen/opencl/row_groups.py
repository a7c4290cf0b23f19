"""What is pointwise before the rows of a norm, in their group: one kernel for all of it. To follow ``split_sums``."""

from __future__ import annotations

import dataclasses

from byoc.codegen.kernel.expr_parts import reduces_in
from byoc.codegen.kernel.program import Group, Program
from byoc.codegen.kernel.shared_rows import shared_rows
from byoc.te import recurrence
from byoc.te.walk import loaded_tensors


def join_rows(program: Program) -> Program:
    """*program* with what is pointwise in the group of the rows that are made of it, right behind it."""
    groups: list[Group] = []
    for group in program.groups:
        if groups and _begins(groups[-1], group):
            groups[-1] = _together(groups[-1], group)
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
