"""Parts of an expression that schedules look for: reductions, loads, factors."""

from __future__ import annotations

from collections.abc import Iterator

from byoc.te import Index, PrimExpr, Tensor
from byoc.te.expr import Binary, Cast, Const, Reduce
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes


def uncast(expr: PrimExpr) -> PrimExpr:
    """*expr* without the conversion around it."""
    return expr.value if isinstance(expr, Cast) else expr


def reduces_in(expr: PrimExpr) -> list[Reduce]:
    """The reductions in *expr*, each once."""
    return [n for n in unique_nodes(expr) if isinstance(n, Reduce)]


def loads_of(expr: PrimExpr, tensor: Tensor) -> list[Load]:
    """The loads from *tensor* in *expr*."""
    return [n for n in unique_nodes(expr) if isinstance(n, Load) and n.tensor is tensor]


def divisors(expr: PrimExpr, axis: Index) -> set[int]:
    """The numbers by which *expr* divides *axis*, or takes its rest."""
    found = [n for n in unique_nodes(expr) if isinstance(n, Binary) and n.op in ("div", "mod") and n.left is axis]
    return {int(n.right.value) for n in found if isinstance(n.right, Const)}


def factors(expr: PrimExpr) -> Iterator[PrimExpr]:
    """What *expr* is the product of."""
    if isinstance(expr, Binary) and expr.op == "mul":
        yield from factors(expr.left)
        yield from factors(expr.right)
    else:
        yield expr


def times(parts: list[PrimExpr]) -> PrimExpr:
    """The product of *parts*, of which there is one at least."""
    result = parts[0]
    for factor in parts[1:]:
        result = result * factor
    return result


def with_value(expr: PrimExpr, reduce: Reduce, value: PrimExpr) -> PrimExpr:
    """*expr* with *value* in place of *reduce*."""
    return map_expr(expr, lambda e: value if e is reduce else None)
