"""Transposed operands left to the products that read them: their tiles take an operand whichever way it lies."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.kernel.collapse import collapse_axes
from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import with_body, with_stages
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.group_fusion import lies_as
from byoc.codegen.opencl.products.shape import block_product
from byoc.codegen.opencl.products.tile import is_worth_tiles
from byoc.te import PrimExpr, Tensor, recurrence
from byoc.te.tensor import Load
from byoc.te.walk import loaded_tensors, map_expr


def read_through_transposes(program: Program) -> Program:
    """*program* without stages that only exchange axes, where products in tiles alone read them."""
    if any(recurrence(group.stages) for group in program.groups):
        return program
    simplify = Simplifier()
    readers: dict[Tensor, list[Tensor]] = {}
    for stage in (s for g in program.groups for s in g.stages):
        for tensor in loaded_tensors(stage.element):
            readers.setdefault(tensor, []).append(stage)
    gone = {
        stage
        for stage in (s for g in program.groups for s in g.stages)
        if stage not in program.outputs
        and _exchanges_axes(stage, simplify)
        and readers.get(stage)
        and all(_is_tiled(_inlined(reader, {stage: stage}), simplify) for reader in readers[stage])
    }
    if not gone:
        return program
    through: dict[Tensor, Tensor] = {}

    def change(stage: Tensor, renamed: Tensor) -> Sequence[Tensor]:
        renamed = _inlined(renamed, through)
        if stage in gone:
            through[stage] = renamed
            return []
        return [renamed]

    return with_stages(program, change)


def _exchanges_axes(stage: Tensor, simplify: Simplifier) -> bool:
    """Whether *stage* has the elements of one tensor, each once, in another order of its axes."""
    load = stage.element
    if not isinstance(load, Load) or load.is_word or load.tensor.dtype != stage.dtype:
        return False
    is_permutation = len(load.indices) == len(stage.axes) and {*load.indices} == {*stage.axes}
    return is_permutation and not lies_as(load, stage, simplify)


def _is_tiled(stage: Tensor, simplify: Simplifier) -> bool:
    """Whether *stage* is a product that is computed by tiles."""
    if 0 in stage.shape:
        return False
    p = block_product(collapse_axes(stage, simplify), simplify)
    return p is not None and is_worth_tiles(p.sizes())


def _inlined(stage: Tensor, through: dict[Tensor, Tensor]) -> Tensor:
    """*stage* over what those in *through* are made of."""
    if not any(t in through for t in loaded_tensors(stage.element)):
        return stage

    def leaf(expr: PrimExpr) -> PrimExpr | None:
        if not isinstance(expr, Load) or expr.tensor not in through:
            return None
        source = through[expr.tensor]
        return substitute_axes(source.element, source.axes, [map_expr(i, leaf) for i in expr.indices])

    return with_body(stage, map_expr(stage.element, leaf))
