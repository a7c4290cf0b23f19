"""From the stages of a group to loop nests: the choice among the schedules for C.

A stage's value is an expression over reductions; each reduction gets accumulators, and the rest of the expression is
its epilogue, stored once. Adjacent axes that every access walks through contiguously become one axis first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from byoc.codegen.c.contraction.schedule import contract
from byoc.codegen.c.rows.row_blocks import row_blocks, row_blocks_of
from byoc.codegen.c.rows.rows import Rows, row_nests, rows_of
from byoc.codegen.c.tiling.team import shared
from byoc.codegen.c.tiling.tile import tile
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.vectors.elementwise import elementwise
from byoc.codegen.c.vectors.reduce import vector_reduce
from byoc.codegen.c.winograd.schedule import winograd
from byoc.codegen.kernel.collapse import Nest, collapse_axes, collapse_nest, nest_at_step
from byoc.codegen.kernel.loops import Barrier, For, Stmt, Store
from byoc.codegen.kernel.reductions import loops, without_reductions
from byoc.codegen.kernel.simplify import Simplifier
from byoc.te import Index, Tensor, in_phases


def schedule_group(
    stages: Sequence[Tensor], local: Collection[Tensor], simplify: Simplifier, machine: Machine
) -> Iterator[list[Stmt]]:
    """Blocks of statements that fill the buffers of *stages*, shared among a team; a barrier belongs between any two.

    The stages in *local* (of ``rows.local_stages``) have no buffer but that of their row.
    """
    blocks = row_blocks_of(stages, [s for s in stages if s not in local], machine)
    before, behind = (stages, []) if blocks is None else blocks.around(stages)
    yield from _schedule_apart(before, local, simplify, machine)
    if blocks is not None:
        yield row_blocks(blocks, lambda nest: _schedule_alone(nest, simplify, machine))
    yield from _schedule_apart(behind, local, simplify, machine)


def _schedule_apart(
    stages: Sequence[Tensor], local: Collection[Tensor], simplify: Simplifier, machine: Machine
) -> Iterator[list[Stmt]]:
    """The statements of *stages*, those of rows together."""
    for rows in rows_of(stages) if machine.lanes(4) > 1 else [Rows((s,), 0) for s in stages]:
        if rows.depth:
            yield shared(_schedule_rows(rows, local, simplify, machine), rows.depth)
        else:
            yield shared(schedule_stage(rows.stages[0], simplify, machine))


def _schedule_rows(rows: Rows, local: Collection[Tensor], simplify: Simplifier, machine: Machine) -> list[Stmt]:
    leading, nests = row_nests(rows, local)
    body: list[Stmt] = []
    for declared, nest in nests:
        body += [*declared, *_schedule_alone(nest, simplify, machine)]
    return loops(leading, body)


def _schedule_alone(nest: Nest, simplify: Simplifier, machine: Machine) -> list[Stmt]:
    """The statements that do *nest* on one thread, inside the loops of others."""
    inner = collapse_nest(nest, simplify)
    return (
        vector_reduce(inner, simplify, machine)
        or contract(inner, simplify, machine, alone=True)
        or elementwise(inner, simplify, machine, outermost=False)
        or _by_lanes(inner, simplify)
        or plain(inner)
    )


def schedule_stage(stage: Tensor, simplify: Simplifier, machine: Machine) -> list[Stmt]:
    """The statements that fill the buffer of *stage*: by the first schedule that fits."""
    planned = winograd(stage, simplify)
    if planned:
        return planned
    return schedule_nest(collapse_axes(stage, simplify), simplify, machine)


def schedule_nest(whole: Nest, simplify: Simplifier, machine: Machine) -> list[Stmt]:
    """The statements that do *whole*, whose axes are as few as its accesses allow."""
    return (
        vector_reduce(whole, simplify, machine)
        or contract(whole, simplify, machine)
        or tile(whole, simplify, machine)
        or elementwise(whole, simplify, machine)
        or _by_lanes(whole, simplify)
        or plain(whole)
    )


def _by_lanes(nest: Nest, simplify: Simplifier) -> list[Stmt]:
    from byoc.codegen.c.vectors.lanes import lanes  # where all above leave the nest

    return lanes(nest, simplify)


def plain(nest: Nest) -> list[Stmt]:
    """One loop an axis, the value with its reductions innermost."""
    statements, value = without_reductions(nest.value)
    return loops(nest.axes, [*statements, Store(nest.stage, nest.indices, value)])


# The statements of a group: its stages in order, the steps of a recurrence as a loop around its stages. A team's
# threads share each stage and meet after it. Ensures: no thread begins a stage before all have ended the one before.


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
        nest = collapse_nest(nest_at_step(stage, step), simplify)
        body += [*shared(schedule_nest(nest, simplify, machine)), Barrier()]
    return For(step, ring[0].shape[0], body)
