"""Stages that only say where elements lie, left to what reads them: they need no kernel and no memory.

Padding puts numbers around a tensor: its readers test whether they are inside. An exchange of axes is left to products
in tiles, which take an operand whichever way it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import with_body, with_stages
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.group_fusion import lies_as, readers_of
from byoc.codegen.opencl.products.shape import tiled_product
from byoc.te import PrimExpr, Tensor
from byoc.te.expr import Const, Select
from byoc.te.tensor import Load
from byoc.te.walk import loaded_tensors, map_expr, unique_nodes


def read_through_padding(program: Program) -> Program:
    """*program* without stages that pad."""
    return left_to_readers(program, lambda _, renamed: renamed if _pads(renamed) else None)


def read_through_transposes(program: Program) -> Program:
    """*program* without stages that only exchange axes, where products in tiles alone read them."""
    simplify = Simplifier()
    readers = readers_of(program)

    def value(stage: Tensor, renamed: Tensor) -> Tensor | None:
        if not _exchanges_axes(stage, simplify) or not readers[stage]:
            return None
        tiled = all(tiled_product(_inlined(reader, {stage: stage}), simplify) for reader in readers[stage])
        return renamed if tiled else None

    return left_to_readers(program, value)


def left_to_readers(program: Program, value: Callable[[Tensor, Tensor], Tensor | None]) -> Program:
    """*program* without the stages whose readers compute them: ``value(stage, renamed)`` is what these read then.

    It is None for a stage that stays; *renamed* is the stage over what its sources became.
    """
    through: dict[Tensor, Tensor] = {}

    def change(stage: Tensor, renamed: Tensor) -> Sequence[Tensor]:
        renamed = _inlined(renamed, through)
        read = None if stage in program.outputs else value(stage, renamed)
        if read is None:
            return [renamed]
        through[stage] = read
        return []

    return with_stages(program, change)


def _inlined(stage: Tensor, through: dict[Tensor, Tensor]) -> Tensor:
    """*stage* with what it loads of stages in *through* written out."""
    if not any(t in through for t in loaded_tensors(stage.element)):
        return stage

    def leaf(expr: PrimExpr) -> PrimExpr | None:
        if not isinstance(expr, Load) or expr.tensor not in through:
            return None
        source = through[expr.tensor]
        return substitute_axes(source.element, source.axes, [map_expr(i, leaf) for i in expr.indices])

    return with_body(stage, map_expr(stage.element, leaf))


def _pads(stage: Tensor) -> bool:
    """Whether each element of *stage* is one of another tensor or a number, by where it is."""
    body = stage.element
    if not isinstance(body, Select) or not isinstance(body.otherwise, Const) or not isinstance(body.then, Load):
        return False
    return not any(isinstance(n, Load) for part in (body.cond, *body.then.indices) for n in unique_nodes(part))


def _exchanges_axes(stage: Tensor, simplify: Simplifier) -> bool:
    """Whether *stage* has the elements of one tensor, each once, in another order of its axes."""
    load = stage.element
    if not isinstance(load, Load) or load.is_word:
        return False
    is_permutation = len(load.indices) == len(stage.axes) and {*load.indices} == {*stage.axes}
    return is_permutation and not lies_as(load, stage, simplify)
