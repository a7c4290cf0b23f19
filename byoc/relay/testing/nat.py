"""Peano's natural numbers in a module's prelude: as expressions and as values. Source: ``tvm.relay.testing.nat``."""

from __future__ import annotations

from byoc.ir.adt import Constructor
from byoc.ir.expr import RelayExpr
from byoc.relay.interpreter import ConstructorValue
from byoc.relay.prelude import Prelude


def _constructors(prelude: Prelude) -> tuple[Constructor, Constructor]:
    _, zero, after = prelude.mod.get_type("nat")
    assert isinstance(zero, Constructor) and isinstance(after, Constructor)
    return zero, after


def count(prelude: Prelude, n: ConstructorValue) -> int:
    """The number that a value of type nat stands for."""
    zero, after = _constructors(prelude)
    number = 0
    while n.tag != zero.tag:
        assert n.tag == after.tag, f"a nat is made by Z or S, got {n!r}"
        number, n = number + 1, n.fields[0]
    return number


def make_nat_value(prelude: Prelude, n: int) -> ConstructorValue:
    """The value of type nat that stands for *n*."""
    zero, after = _constructors(prelude)
    value = ConstructorValue(zero.tag, [], zero)
    for _ in range(n):
        value = ConstructorValue(after.tag, [value], after)
    return value


def make_nat_expr(prelude: Prelude, n: int) -> RelayExpr:
    """The expression of type nat that stands for *n*."""
    assert n >= 0, f"a natural number is not negative, got {n}"
    zero, after = _constructors(prelude)
    expr = zero()
    for _ in range(n):
        expr = after(expr)
    return expr


def add_nat_definitions(prelude: Prelude) -> None:
    """Add nat, nat_double, nat_add, nat_to_int, int_to_nat and nat_iterate to the prelude's module."""
    prelude.mod.import_from_std("nat.rly")
