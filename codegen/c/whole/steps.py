"""The statements of a group: its stages one after another, and the steps of a recurrence as a loop around its stages.

All threads of a team go through the steps together; within a step they share each stage, and meet after it. Ensures:
no thread begins a stage before all have ended the one before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from byoc.codegen.c.tiling.team import shared
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.whole.schedule import schedule_group, schedule_nest
from byoc.codegen.kernel.collapse import Nest, collapse_nest
from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.loops import Barrier, For, Stmt
from byoc.codegen.kernel.simplify import Simplifier
from byoc.te import Index, Tensor, in_phases


def stage_blocks(
    stages: Sequence[Tensor], simplify: Simplifier, machine: Machine, local: Collection[Tensor] = ()
) -> Iterator[list[Stmt]]:
    """The blocks of ``schedule_group``, and one for all steps of a recurrence; a barrier belongs between any two."""
    before, ring, behind = in_phases(stages)
    yield from schedule_group(before, local, simplify, machine)
    if ring:
        yield [_steps(ring, simplify, machine)]
    yield from schedule_group(behind, local, simplify, machine)


def _steps(ring: Sequence[Tensor], simplify: Simplifier, machine: Machine) -> For:
    step = Index("step", ring[0].shape[0])
    body: list[Stmt] = []
    for stage in ring:
        nest = collapse_nest(_at_step(stage, step), simplify)
        body += [*shared(schedule_nest(nest, simplify, machine)), Barrier()]
    return For(step, ring[0].shape[0], body)


def _at_step(stage: Tensor, step: Index) -> Nest:
    """The elements of *stage* at one step."""
    assert stage.body is not None
    inner = stage.axes[1:]
    places = (step, *inner)
    return Nest(stage, inner, places, substitute_axes(stage.body, stage.axes, places))
