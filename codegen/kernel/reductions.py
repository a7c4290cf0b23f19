"""Reductions as statements: accumulators, loops over the points, and the rest of the value as an epilogue.

Shared by the schedules of every language. Each reduction in a value gets local scalars; what remains is an expression
over them, free of reductions. A NaN wins a minimum and a maximum; of equal elements the first has the position.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.kernel.loops import Alloc, For, IfThenElse, Stmt, Store
from byoc.codegen.kernel.spelling import greatest, least
from byoc.te import Index, PrimExpr, binary, const, logical_not, placeholder
from byoc.te.expr import DOTS, INDEX, Binary, Intrinsic, Reduce
from byoc.te.tensor import Load
from byoc.te.walk import loaded_tensors, map_expr, unique_nodes

_FOLDS = {"sum": "add", "prod": "mul", "min": "min", "max": "max", "any": "or", "all": "and"}


def loops(axes: Sequence[Index], body: Sequence[Stmt], innermost: str = "serial") -> list[Stmt]:
    """*body* inside one loop for each of *axes*, the first outermost."""
    result = list(body)
    for axis in reversed(axes):
        result = [For(axis, axis.extent, result, innermost)]
        innermost = "serial"
    return result


def without_reductions(value: PrimExpr) -> tuple[list[Stmt], PrimExpr]:
    """Statements that compute the reductions in *value*, and *value* over their accumulators."""
    statements: list[Stmt] = []

    def leaf(expr: PrimExpr) -> PrimExpr | None:
        if not isinstance(expr, Reduce):
            return None
        code, result = accumulate(expr)
        statements.extend(code)
        return result

    return statements, map_expr(value, leaf)


def accumulate(reduce: Reduce) -> tuple[list[Stmt], Load]:
    """Statements that compute *reduce*, and the local that holds the result."""
    inner, body = without_reductions(reduce.body)
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
    update = IfThenElse(less, [Store(best, (), item[()]), Store(position, (), reduce.axes[0])])
    start = "min" if reduce.kind == "argmin" else "max"
    code: list[Stmt] = [Alloc(best, neutral(start, body.dtype)), Alloc(position, const(0, INDEX))]
    return [*code, *loops(reduce.axes, [*inner, Alloc(item, body), update])], position[()]


def is_product(reduce: Reduce) -> bool:
    """Whether *reduce* sums products of different tensors, as a convolution or a matrix product does."""
    for node in unique_nodes(reduce.body):
        if isinstance(node, Intrinsic) and node.name in DOTS:
            return True
        if reduce.kind == "sum" and isinstance(node, Binary) and node.op == "mul" and node.dtype == reduce.dtype:
            left, right = set(loaded_tensors(node.left)), set(loaded_tensors(node.right))
            if left and right and left != right:
                return True
    return False


def neutral(kind: str, dtype: str) -> PrimExpr:
    """What a reduction gives over nothing."""
    start: float | None = {"sum": 0, "prod": 1, "any": 0, "all": 1}.get(kind)
    if start is None:
        start = greatest(dtype) if kind == "min" else least(dtype)
    return const(start, dtype)


def combine(kind: str, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """One step of a reduction."""
    return binary(_FOLDS[kind], a, b)
