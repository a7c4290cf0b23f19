"""From one stage to a loop nest: the choice among the schedules for C.

A stage's value is an expression over reductions; each reduction gets accumulators, and the rest of the expression is
its epilogue, stored once. Adjacent axes that every access walks through contiguously become one axis first.
"""

from __future__ import annotations

from byoc.codegen.c.contraction.schedule import contract
from byoc.codegen.c.elementwise import elementwise
from byoc.codegen.c.lanes import lanes
from byoc.codegen.c.machine import Machine
from byoc.codegen.c.tile import tile
from byoc.codegen.kernel.collapse import Nest, collapse_axes
from byoc.codegen.kernel.loops import Stmt, Store
from byoc.codegen.kernel.reductions import loops, without_reductions
from byoc.codegen.kernel.simplify import Simplifier
from byoc.te import Tensor


def schedule_stage(stage: Tensor, simplify: Simplifier, machine: Machine) -> list[Stmt]:
    """The statements that fill the buffer of *stage*: by the first schedule that fits."""
    return schedule_nest(collapse_axes(stage, simplify), simplify, machine)


def schedule_nest(whole: Nest, simplify: Simplifier, machine: Machine) -> list[Stmt]:
    """The statements that do *whole*, whose axes are as few as its accesses allow."""
    return (
        contract(whole, simplify, machine) or tile(whole, simplify, machine) or elementwise(whole, simplify, machine)
        or lanes(whole, simplify) or plain(whole)
    )


def plain(nest: Nest) -> list[Stmt]:
    """One loop an axis, the value with its reductions innermost."""
    statements, value = without_reductions(nest.value)
    return loops(nest.axes, [*statements, Store(nest.stage, nest.indices, value)])
