"""Python's operators on expressions: ``x + y``, ``-x``, ``x < 1.0``. Source: ``relay.ExprWithOp``.

``==`` and ``!=`` stay identity, as in Relay. The operators are looked up when used, because the operator files
need the expression classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from byoc.ir.expr import RelayExpr
from byoc.ir.registry import get_global_func


def _operator(name: str, *args: object) -> RelayExpr:
    result: RelayExpr = get_global_func(f"relay.op.overload.{name}")(*args)
    return result


class ExprWithOp(RelayExpr):
    """An expression that takes part in Python's arithmetic; numbers become constants of the other side's dtype."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy leaves array + expression to us

    def astype(self, dtype: str) -> RelayExpr:
        """The expression cast to *dtype*."""
        return _operator("cast", self, dtype)

    def __neg__(self) -> RelayExpr:
        return _operator("negative", self)

    def __lt__(self, other: object) -> RelayExpr:
        return _operator("less", self, other)

    def __gt__(self, other: object) -> RelayExpr:
        return _operator("greater", self, other)

    def __le__(self, other: object) -> RelayExpr:
        return _operator("less_equal", self, other)

    def __ge__(self, other: object) -> RelayExpr:
        return _operator("greater_equal", self, other)

    def __add__(self, other: object) -> RelayExpr:
        return _operator("add", self, other)

    def __radd__(self, other: object) -> RelayExpr:
        return _operator("add", other, self)

    def __sub__(self, other: object) -> RelayExpr:
        return _operator("subtract", self, other)

    def __rsub__(self, other: object) -> RelayExpr:
        return _operator("subtract", other, self)

    def __mul__(self, other: object) -> RelayExpr:
        return _operator("multiply", self, other)

    def __rmul__(self, other: object) -> RelayExpr:
        return _operator("multiply", other, self)

    def __truediv__(self, other: object) -> RelayExpr:
        return _operator("divide", self, other)

    def __rtruediv__(self, other: object) -> RelayExpr:
        return _operator("divide", other, self)

    def __call__(self, *args: RelayExpr) -> RelayExpr:
        result: RelayExpr = get_global_func("relay.ir.call")(self, args)
        return result

    # or Python would ask for fields without end: how many there are is not known before types are
    __iter__: Callable[[], Iterator[RelayExpr]] | None = None

    def __getitem__(self, index: int) -> RelayExpr:
        result: RelayExpr = get_global_func("relay.ir.tuple_get_item")(self, index)
        return result
