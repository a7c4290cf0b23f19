"""Padding left to what reads it: a stage that only puts numbers around a tensor needs no kernel and no memory."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import with_body, with_stages
from byoc.te import PrimExpr, Tensor
from byoc.te.expr import Const, Select
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes


def read_through_padding(program: Program) -> Program:
    """*program* without stages that pad; their readers test whether they are inside."""
    padded: dict[Tensor, Tensor] = {}

    def change(stage: Tensor, renamed: Tensor) -> Sequence[Tensor]:
        renamed = _inlined(renamed, padded)
        if stage not in program.outputs and _pads(renamed):
            padded[stage] = renamed
            return []
        return [renamed]

    return with_stages(program, change)


def _pads(stage: Tensor) -> bool:
    """Whether each element of *stage* is one of another tensor or a number, by where it is."""
    body = stage.element
    if not isinstance(body, Select) or not isinstance(body.otherwise, Const) or not isinstance(body.then, Load):
        return False
    return not any(isinstance(n, Load) for part in (body.cond, *body.then.indices) for n in unique_nodes(part))


def _inlined(stage: Tensor, padded: dict[Tensor, Tensor]) -> Tensor:
    """*stage* with what it loads of *padded* stages written out."""
    if not any(isinstance(n, Load) and n.tensor in padded for n in unique_nodes(stage.element)):
        return stage

    def leaf(expr: PrimExpr) -> PrimExpr | None:
        if not isinstance(expr, Load) or expr.tensor not in padded:
            return None
        source = padded[expr.tensor]
        return substitute_axes(source.element, source.axes, [map_expr(i, leaf) for i in expr.indices])

    return with_body(stage, map_expr(stage.element, leaf))
