"""Arithmetic on what is known of single elements: numbers, named sizes, quotients of sizes, or nothing.

Integers are counted with exactly. Floats are known where they hold sizes: what is cast from one, what rounds a multiple
or a part of one (``floor(H * 0.5)``). Every size below 2**24 is exact in them, and so is each such product, for a
factor is taken only with few bits behind the point; a division is rounded, but not past a whole number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from byoc.ir.size_var import greater, lesser, parted, plus, times, truncated
from byoc.ir.types import Any, Dim
from byoc.relay.op.core.known_shapes import Item

MOST_POWER = 4
MOST_PARTS = 1024  # of the factor of a size


@dataclass(frozen=True)
class Part:
    """A size divided by a number, not rounded."""

    size: Any
    by: int


FloatItem = Item | Fraction | Part  # a fraction is no whole number


def _of_sizes(combine: Callable[[Dim, Dim], Dim]) -> Callable[[Item, Item], Item]:
    """*combine* for what is known of two elements; None where nothing can be said."""

    def found(a: Item, b: Item) -> Item:
        if a is None or b is None:
            return None
        size = combine(a, b)
        return int(size) if isinstance(size, int) else size if size.name else None

    return found


def multiply(a: Item, b: Item) -> Item:
    """The product of two."""
    return 0 if 0 in (a, b) else _of_sizes(times)(a, b)


def _divide(a: Item, b: Item) -> Item:
    """Rounded towards 0."""
    if isinstance(a, int) and isinstance(b, int) and b != 0:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return _of_sizes(truncated)(a, b)


def _floor_divide(a: Item, b: Item) -> Item:
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b != 0 else None
    if not isinstance(b, int) or b < 1:
        return None
    return _of_sizes(lambda size, _: parted(size, b))(a, b)


def _remainder(divide: Callable[[Item, Item], Item]) -> Callable[[Item, Item], Item]:
    """What is left of the first where *divide* says how often it has the second."""

    def found(a: Item, b: Item) -> Item:
        if not b:
            return None
        return _of_sizes(lambda size, taken: plus(size, times(taken, -1)))(a, _times_known(divide(a, b), b))

    return found


def _times_known(a: Item, b: Item) -> Item:
    return None if a is None else multiply(a, b)


def _power(a: Item, b: Item) -> Item:
    """Of small powers, as a product."""
    if a is None or not isinstance(b, int) or not 1 <= b <= MOST_POWER:
        return None
    product: Item = a
    for _ in range(b - 1):
        product = multiply(product, a)
    return product


ARITHMETIC: dict[str, Callable[[Item, Item], Item]] = {
    "add": _of_sizes(plus),
    "subtract": _of_sizes(lambda a, b: plus(a, times(b, -1))),
    "multiply": multiply,
    "divide": _divide,
    "floor_divide": _floor_divide,
    "mod": _remainder(_divide),
    "floor_mod": _remainder(_floor_divide),
    "maximum": _of_sizes(greater),
    "minimum": _of_sizes(lesser),
    "power": _power,
}
OF_ONE: dict[str, Callable[[Item], Item]] = {"negative": lambda a: multiply(a, -1)}


def float_item(value: float) -> FloatItem:
    """What is known of a constant."""
    if value != value or value in (float("inf"), float("-inf")):
        return None
    exact = Fraction(value)
    return exact.numerator if exact.denominator == 1 else exact


def _whole(rule: Callable[[Item, Item], Item]) -> Callable[[FloatItem, FloatItem], FloatItem]:
    """*rule* for floats that hold whole numbers."""

    def found(a: FloatItem, b: FloatItem) -> FloatItem:
        if isinstance(a, (int, Any)) and isinstance(b, (int, Any)):
            return rule(a, b)
        return None

    return found


def _scaled(a: FloatItem, b: FloatItem) -> FloatItem:
    """A product, of a size also with a fraction."""
    for size, factor in ((a, b), (b, a)):
        if isinstance(size, Any) and isinstance(factor, Fraction):
            multiple = times(size, factor.numerator)
            few = factor.denominator <= MOST_PARTS
            return Part(multiple, factor.denominator) if few and isinstance(multiple, Any) and multiple.name else None
    return _whole(multiply)(a, b)


def _shared(a: FloatItem, b: FloatItem) -> FloatItem:
    """A quotient that is not rounded."""
    if isinstance(a, int) and isinstance(b, int) and b != 0:
        return a // b if a % b == 0 else None
    if isinstance(a, Any) and isinstance(b, int) and b > 0:
        return Part(a, b) if b > 1 else a
    return None


FLOAT_ARITHMETIC: dict[str, Callable[[FloatItem, FloatItem], FloatItem]] = {
    "add": _whole(ARITHMETIC["add"]),
    "subtract": _whole(ARITHMETIC["subtract"]),
    "multiply": _scaled,
    "divide": _shared,
    "maximum": _whole(ARITHMETIC["maximum"]),
    "minimum": _whole(ARITHMETIC["minimum"]),
}


def _rounded(size: Dim) -> FloatItem:
    return int(size) if isinstance(size, int) else size if size.name else None


def floored(a: FloatItem) -> FloatItem:
    """The largest whole number that is not above."""
    if isinstance(a, Fraction):
        return a.numerator // a.denominator
    return _rounded(parted(a.size, a.by)) if isinstance(a, Part) else a


def ceiled(a: FloatItem) -> FloatItem:
    """The smallest whole number that is not below."""
    if isinstance(a, Fraction):
        return -(-a.numerator // a.denominator)
    return _rounded(parted(plus(a.size, a.by - 1), a.by)) if isinstance(a, Part) else a


def as_integer(a: FloatItem) -> Item:
    """What a cast to integers gives, which rounds towards 0."""
    if isinstance(a, Part):
        cut = truncated(a.size, a.by)
        return cut if isinstance(cut, int) or cut.name else None
    return int(a) if isinstance(a, Fraction) else a


OF_ONE_FLOAT: dict[str, Callable[[FloatItem], FloatItem]] = {"floor": floored, "ceil": ceiled}
