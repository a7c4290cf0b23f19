"""A Program with other stages: what loads from a stage that was replaced loads from what stands for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from byoc.codegen.kernel.inline import unique_nodes
from byoc.codegen.kernel.program import Program
from byoc.te import PrimExpr, Tensor, recurrence
from byoc.te.expr import Load, map_expr

Change = Callable[[Tensor, Tensor], Sequence[Tensor]]


def with_stages(program: Program, change: Change) -> Program:
    """*program* with each stage replaced by what ``change(stage, renamed)`` gives: the last of these stands for it.

    *renamed* is the stage over those that stand for what it loads. Nothing may load a stage that gave none. The stages
    of a group with a recurrence are only renamed: each is read by itself or by others before it.
    """
    new: dict[Tensor, Tensor] = {}
    groups = []
    for group in program.groups:
        stages: list[Tensor] = []
        if recurrence(group.stages):
            stages = _renamed_together(group.stages, new)
        for stage in () if stages else group.stages:
            made = change(stage, _renamed(stage, new))
            stages += made
            if made:
                new[stage] = made[-1]
        groups.append(dataclasses.replace(group, stages=tuple(stages)))
    outputs = tuple(new.get(t, t) for t in program.outputs)
    return dataclasses.replace(program, outputs=outputs, groups=tuple(groups))


def _renamed_together(stages: Sequence[Tensor], new: dict[Tensor, Tensor]) -> list[Tensor]:
    """*stages*, which read each other in a circle, over what stands for others that they load; adds them to *new*."""
    if all(_renamed(stage, new) is stage for stage in stages):
        return list(stages)
    new.update((s, Tensor(s.name, s.shape, s.dtype, s.axes, None, s.tag, s.meta)) for s in stages)
    for stage in stages:
        new[stage].body = _renamed(stage, new).body
    return [new[stage] for stage in stages]


def _renamed(stage: Tensor, new: dict[Tensor, Tensor]) -> Tensor:
    assert stage.body is not None
    loads = [n for n in unique_nodes(stage.body) if isinstance(n, Load)]
    if all(new.get(n.tensor, n.tensor) is n.tensor for n in loads):
        return stage

    def leaf(e: PrimExpr) -> PrimExpr | None:
        if isinstance(e, Load) and e.tensor in new:
            return e.of(new[e.tensor], [map_expr(i, leaf) for i in e.indices])
        return None

    return with_body(stage, map_expr(stage.body, leaf))


def with_body(stage: Tensor, body: PrimExpr) -> Tensor:
    """*stage* with another expression for its elements."""
    return Tensor(stage.name, stage.shape, stage.dtype, stage.axes, body, stage.tag, stage.meta)


def with_meta(stage: Tensor, name: str, value: object) -> Tensor:
    """*stage* with one more parameter for its schedule."""
    return Tensor(stage.name, stage.shape, stage.dtype, stage.axes, stage.body, stage.tag, {**stage.meta, name: value})
