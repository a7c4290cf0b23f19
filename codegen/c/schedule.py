"""From one stage to a loop nest: the generic schedules, and the choice among all.

A stage's value is an expression over reductions; each reduction gets an accumulator, and the rest of the expression
is its epilogue, stored once. Adjacent axes that every access walks through contiguously become one axis first.
"""

from __future__ import annotations

from byoc.codegen.c.lanes import lanes
from byoc.codegen.c.machine import Machine
from byoc.codegen.c.tile import tile
from byoc.codegen.kernel.collapse import Nest, collapse_axes
from byoc.codegen.kernel.fold import combine, neutral
from byoc.codegen.kernel.loops import Alloc, If, Stmt, Store, loops
from byoc.codegen.kernel.simplify import Simplifier
from byoc.te import PrimExpr, Tensor, binary, const, logical_not, placeholder
from byoc.te.expr import INDEX, Binary, Load, Reduce, map_expr



def schedule_stage(stage: Tensor, simplify: Simplifier, machine: Machine) -> list[Stmt]:
    """The statements that fill the buffer of *stage*."""
    whole = collapse_axes(stage, simplify)
    return tile(whole, simplify, machine) or lanes(whole, simplify) or plain(whole)


def plain(nest: Nest) -> list[Stmt]:
    """One loop an axis, the value with its reductions innermost."""
    statements, value = _without_reductions(nest.value)
    statements.append(Store(nest.stage, nest.indices, value))
    return loops(nest.axes, statements)


def _without_reductions(value: PrimExpr) -> tuple[list[Stmt], PrimExpr]:
    """Statements that compute the reductions in *value*, and *value* over their accumulators."""
    statements: list[Stmt] = []

    def leaf(expr: PrimExpr) -> PrimExpr | None:
        if not isinstance(expr, Reduce):
            return None
        code, result = _accumulate(expr)
        statements.extend(code)
        return result

    return statements, map_expr(value, leaf)


def _accumulate(reduce: Reduce) -> tuple[list[Stmt], Load]:
    inner, body = _without_reductions(reduce.body)
    if reduce.kind.startswith("arg"):
        return _accumulate_position(reduce, inner, body)
    acc = placeholder((), reduce.dtype, "acc")
    fold = Store(acc, (), combine(reduce.kind, acc[()], body))
    return [Alloc(acc, neutral(reduce.kind, reduce.dtype)), *loops(reduce.axes, [*inner, fold])], acc[()]


def _accumulate_position(reduce: Reduce, inner: list[Stmt], body: PrimExpr) -> tuple[list[Stmt], Load]:
    """The first least or greatest element; the first NaN wins."""
    best, position = placeholder((), body.dtype, "best"), placeholder((), INDEX, "position")
    item = placeholder((), body.dtype, "item")
    less = binary("lt" if reduce.kind == "argmin" else "gt", item[()], best[()])
    if body.dtype.startswith("float"):
        nan = binary("and", Binary("ne", item[()], item[()]), logical_not(Binary("ne", best[()], best[()])))
        less = binary("or", less, nan)
    update = If(less, [Store(best, (), item[()]), Store(position, (), reduce.axes[0])])
    start = "min" if reduce.kind == "argmin" else "max"
    code: list[Stmt] = [Alloc(best, neutral(start, body.dtype)), Alloc(position, const(0, INDEX))]
    return [*code, *loops(reduce.axes, [*inner, Alloc(item, body), update])], position[()]
