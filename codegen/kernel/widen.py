"""Arithmetic on bfloat16 as numpy's dtype of that name does it: each operation in float32, its result rounded."""

from __future__ import annotations

from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import with_body, with_stages
from byoc.te import PrimExpr, Tensor
from byoc.te.expr import Binary, Intrinsic, Reduce, binary, cast
from byoc.te.walk import map_expr, unique_nodes

NARROW, WIDE = "bfloat16", "float32"


def widen_arithmetic(program: Program) -> Program:
    """*program* with no operation on bfloat16 but conversions, choices and moves; sums are rounded once."""
    if not any(_computes(s) for g in program.groups for s in g.stages):
        return program

    def change(stage: Tensor, renamed: Tensor) -> list[Tensor]:
        return [with_body(renamed, widened(renamed.body))] if renamed.body is not None else [renamed]

    return with_stages(program, change)


def _computes(stage: Tensor) -> bool:
    return stage.body is not None and any(_is_narrow(n) for n in unique_nodes(stage.body))


def _is_narrow(expr: PrimExpr) -> bool:
    """Whether *expr* is an operation on bfloat16."""
    if isinstance(expr, Binary):
        return expr.left.dtype == NARROW
    if isinstance(expr, Intrinsic):
        return expr.args[0].dtype == NARROW and expr.name != "bits"
    return isinstance(expr, Reduce) and expr.body.dtype == NARROW


def widened(expr: PrimExpr) -> PrimExpr:
    """*expr* with its operations on bfloat16 between conversions."""

    def leaf(e: PrimExpr) -> PrimExpr | None:
        if not _is_narrow(e):
            return None
        if isinstance(e, Binary):
            made: PrimExpr = binary(e.op, cast(WIDE, widened(e.left)), cast(WIDE, widened(e.right)))
        elif isinstance(e, Intrinsic):
            made = Intrinsic(e.name, [cast(WIDE, widened(a)) for a in e.args])
        else:
            assert isinstance(e, Reduce)
            made = Reduce(e.kind, cast(WIDE, widened(e.body)), e.axes)
        return cast(e.dtype, made)

    return map_expr(expr, leaf)
