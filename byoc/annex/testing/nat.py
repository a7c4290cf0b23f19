"""Natural numbers as algebraic data: zero, or the successor of one. Source: ``relay.testing.nat``.

The type is the prelude's: ``prelude.mod.import_from_std("nat.rly")`` brings it.
"""

from __future__ import annotations

from byoc.errors import UserError
from byoc.ir.expr import Constructor, RelayExpr
from byoc.relay.interpreter import ConstructorValue
from byoc.relay.std.prelude import Prelude


def _constructors(prelude: Prelude) -> tuple[Constructor, Constructor]:
    """Zero and the successor."""
    _, zero, successor = prelude.mod.get_type("nat")
    assert isinstance(zero, Constructor) and isinstance(successor, Constructor)
    return zero, successor


def count(prelude: Prelude, n: ConstructorValue) -> int:
    """The number that the value *n* stands for. Raises UserError for what is no natural number. Source: ``count``."""
    zero, successor = _constructors(prelude)
    found, left = 0, list[object]([n])
    while isinstance(left[0], ConstructorValue) and left[0].tag == successor.tag:
        (*left,) = left[0].fields
        found += 1
    if not isinstance(left[0], ConstructorValue) or left[0].tag != zero.tag:
        raise UserError(f"a natural number is zero or the successor of one, got {left[0]!r}")
    return found


def make_nat_value(prelude: Prelude, n: int) -> ConstructorValue:
    """The value of *n*. Raises UserError for a number below zero. Source: ``make_nat_value``."""
    zero, successor = _constructors(prelude)
    made = ConstructorValue(zero.tag, [], zero)
    for _ in range(_natural(n)):
        made = ConstructorValue(successor.tag, [made], successor)
    return made


def make_nat_expr(prelude: Prelude, n: int) -> RelayExpr:
    """The expression that evaluates to *n*. Raises UserError for a number below zero. Source: ``make_nat_expr``."""
    zero, successor = _constructors(prelude)
    made: RelayExpr = zero()
    for _ in range(_natural(n)):
        made = successor(made)
    return made


def _natural(n: int) -> int:
    if n < 0:
        raise UserError(f"a natural number is not below zero, got {n}")
    return n


def add_nat_definitions(prelude: Prelude) -> None:
    """Add nat, nat_double, nat_add, nat_to_int, int_to_nat and nat_iterate to the prelude's module."""
    prelude.mod.import_from_std("nat.rly")
