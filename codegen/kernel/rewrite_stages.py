"""A Program with other stages: what loads from a stage that was replaced loads from what stands for it.

Constants of which others are made (packed, transformed, stacked) are kept beside, with their names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from byoc.codegen.kernel.program import Program
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.signature import TensorSpec
from byoc.te import PrimExpr, Tensor, recurrence
from byoc.te.tensor import Load
from byoc.te.walk import loaded_tensors, map_expr, unique_nodes

Change = Callable[[Tensor, Tensor], Sequence[Tensor]]


def with_stages(program: Program, change: Change) -> Program:
    """*program* with each stage replaced by what ``change(stage, renamed)`` gives: the last of these stands for it.

    *renamed* is the stage over those that stand for what it loads. Nothing may load a stage that gave none. A stage
    of a recurrence is given as it is at one step, without the axis of steps; it changes where it stays one stage.
    """
    new: dict[Tensor, Tensor] = {}
    groups = []
    for group in program.groups:
        stages: list[Tensor] = []
        ring = recurrence(group.stages)
        for stage in group.stages:
            if stage in ring and stage not in new:
                _change_at_steps(ring, new, change)
            made = [new[stage]] if stage in ring else change(stage, _renamed(stage, new))
            stages += made
            if made:
                new[stage] = made[-1]
        groups.append(dataclasses.replace(group, stages=tuple(stages)))
    outputs = tuple(new.get(t, t) for t in program.outputs)
    return dataclasses.replace(program, outputs=outputs, groups=tuple(groups))


def _change_at_steps(ring: Sequence[Tensor], new: dict[Tensor, Tensor], change: Change) -> None:
    """Add to *new* what stands for the stages of *ring*, which are all made before one is defined."""
    new.update((s, Tensor(s.name, s.shape, s.dtype, s.axes, None, s.tag, s.meta)) for s in ring)
    for stage in ring:
        body = _renamed(stage, new).body
        shape, axes = stage.shape[1:], stage.axes[1:]
        made = change(stage, Tensor(stage.name, shape, stage.dtype, axes, body, stage.tag, stage.meta))
        one = made[0] if len(made) == 1 else stage
        new[stage].body, new[stage].meta = (body if one is stage else one.body), one.meta


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


class ProgramConstants:
    """The constants of *program*, and what is added to them, each with its name in the signature."""

    def __init__(self, program: Program):
        self.arrays: dict[Tensor, NDArray] = dict(program.constants)
        self.names = {t: s.name for (t, _), s in zip(program.constants, program.signature.constants, strict=True)}

    def __contains__(self, tensor: Tensor) -> bool:
        return tensor in self.arrays

    def add(self, tensor: Tensor, name: str, data: NDArray) -> None:
        """*tensor* is the constant *name*, which holds *data*."""
        self.arrays[tensor], self.names[tensor] = data, name

    def of(self, program: Program) -> Program:
        """*program* with those constants that it reads."""
        used = {t for g in program.groups for s in g.stages if s.body is not None for t in loaded_tensors(s.body)}
        constants = tuple((t, a) for t, a in self.arrays.items() if t in used)
        specs = tuple(TensorSpec(self.names[t], a.shape, a.dtype) for t, a in constants)
        signature = dataclasses.replace(program.signature, constants=specs)
        return dataclasses.replace(program, constants=constants, signature=signature)
