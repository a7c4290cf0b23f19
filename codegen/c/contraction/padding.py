"""Padded copies that a contraction does not need: it leaves out the terms that would be zero."""

from __future__ import annotations

from byoc.codegen.c.contraction.nest import border_blocks
from byoc.codegen.c.contraction.shape import Contraction, contraction
from byoc.codegen.c.contraction.tile_choice import choose_tile
from byoc.codegen.c.contraction.word_products import as_words
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import with_body, with_stages
from byoc.codegen.kernel.simplify import Simplifier
from byoc.te import PrimExpr, Tensor
from byoc.te.tensor import Load
from byoc.te.walk import loaded_tensors, map_expr

PAD = "pad"  # the tag of a stage that puts zeros around a tensor
MOST_BORDERS = 4  # tiles that have code of their own
FEWEST_TERMS = 8  # in the innermost loop, for its overhead not to show


def absorb_padding(program: Program, machine: Machine) -> Program:
    """*program* without the padding stages whose only reader is a contraction that can do without."""
    readers: dict[Tensor, list[Tensor]] = {}
    for stage in (s for g in program.groups for s in g.stages):
        for tensor in loaded_tensors(stage.element):
            readers.setdefault(tensor, []).append(stage)
    simplify = Simplifier()
    absorbed = {
        pad: stages[0]
        for pad, stages in readers.items()
        if pad.tag == PAD
        and pad.body is not None
        and len(stages) == 1
        and pad not in program.outputs
        and _pays(_without(stages[0], pad, pad), machine, simplify)
    }
    if not absorbed:
        return program
    pads: dict[Tensor, Tensor] = {}  # as renamed, by the stage that reads them

    def change(stage: Tensor, renamed: Tensor) -> list[Tensor]:
        if stage in absorbed:
            pads[absorbed[stage]] = renamed
            return []
        pad = next((p for p, reader in absorbed.items() if reader is stage), None)
        return [renamed if pad is None else _without(renamed, pad, pads[stage])]

    return with_stages(program, change)


def _without(stage: Tensor, pad: Tensor, padding: Tensor) -> Tensor:
    """*stage* over what *padding*, which is *pad* anew, pads: each load under the condition of its place."""

    def leaf(e: PrimExpr) -> PrimExpr | None:
        if isinstance(e, Load) and e.tensor is pad:
            padded = substitute_axes(padding.element, padding.axes, e.indices)
            return as_words(padded, e.indices[-1], e.dtype) if e.is_word else padded
        return None

    return with_body(stage, map_expr(stage.element, leaf))


def _pays(stage: Tensor, machine: Machine, simplify: Simplifier) -> bool:
    if 0 in stage.shape or machine.lanes(4) == 1:
        return False
    c = contraction(Nest(stage, stage.axes, tuple(stage.axes), stage.element), simplify)
    if c is None or not c.guards or not _is_tiled(c):
        return False
    tile = choose_tile(c, machine, packed=bool(c.standing))
    return tile is not None and len(border_blocks(c, tile.rows)) <= MOST_BORDERS


def _is_tiled(c: Contraction) -> bool:
    """Whether the schedule of contractions takes *c*, and its innermost loop is long enough."""
    if any(g.position is not None and not isinstance(g.position.extent, int) for g in c.guards):
        return False
    if not all(isinstance(a.extent, int) for a in c.reduce.axes):
        return False
    if not c.standing:
        return all(a.steps[c.lane] == 1 for a in c.moving)
    if len(c.moving) != 1 or (c.row is not None and c.moving[0].steps[c.row] != 0):
        return False
    inner = c.reduce.axes[-1]
    return not any(g.axis is inner for g in c.guards) and int(inner.extent) >= FEWEST_TERMS
