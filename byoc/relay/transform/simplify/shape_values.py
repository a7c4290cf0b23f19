"""What small integer tensors hold when they are computed from shapes: numbers, named sizes, or nothing known.

``shape_of`` of ``(N, 3, 720, 720)`` holds ``[N, 3, 720, 720]``, so that ``take`` of its element 1 is 3 although N is
free. Operators that only move elements are run by their numpy kernels on positions instead of elements; arithmetic is
done on numbers and on named sizes, which gives sizes that follow from them (``byoc.runtime.core.derived_size``), and on
what resizing makes of them in floats (``floor(H * 0.5)``). Only tensors of numbers, of static shape and with at most
:data:`MAX_ELEMENTS` elements, are looked at.

Floats are known where they hold sizes: what is cast from one, what rounds a multiple or a part of one. Every size below
2**24 is exact in them, and so is each such product, for a factor is taken only with few bits behind the point; a
division is rounded, but not past a whole number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from byoc.ir.attrs import all_given
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.size_var import greater, lesser, minus, parted, plus, times, truncated
from byoc.ir.types import Any, Dim, TensorType, tensor_types
from byoc.relay.expr import Call, Constant, Tuple, constant
from byoc.relay.interpreter import run_operator
from byoc.relay.narrowing import operator_of
from byoc.relay.op.core.known_shapes import FKNOWN_ELEMENTS, ElementsRule, Item, is_size
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.small_types import integer_range

if TYPE_CHECKING:
    from byoc.relay.interpreter.values import Value

MAX_ELEMENTS = 64
MOST_OF_FLOAT = 2**24  # below which each whole number is a float32
FLOATS = ("float32", "float64")
# the elements of a tensor: an array of objects, each an int, a named Any, or None where nothing is known
Items = np.ndarray
MOST_POWER = 4
MOST_PARTS = 1024  # of the factor of a size


@dataclass(frozen=True)
class SizeShare:
    """A size divided by a number, not rounded."""

    size: Any
    by: int


FloatItem = Item | Fraction | SizeShare  # a fraction is no whole number


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


def _equal(a: FloatItem, b: FloatItem) -> Item:
    """1 or 0; a size is no negative number."""
    if a is None or b is None or isinstance(a, SizeShare) or isinstance(b, SizeShare):
        return None
    if a == b or not (isinstance(a, Any) or isinstance(b, Any)):
        return int(a == b)
    number, size = (a, b) if isinstance(b, Any) else (b, a)
    apart = isinstance(number, (int, Fraction)) and number < 0 and not isinstance(size, Fraction) and is_size(size)
    return 0 if apart else None


def _chosen(condition: Item, a: FloatItem, b: FloatItem) -> FloatItem:
    """What ``where`` takes."""
    if condition is None:
        return a if a == b else None
    return a if condition else b


ARITHMETIC: dict[str, Callable[[Item, Item], Item]] = {
    "add": _of_sizes(plus),
    "subtract": _of_sizes(minus),
    "multiply": multiply,
    "divide": _divide,
    "floor_divide": _floor_divide,
    "mod": _remainder(_divide),
    "floor_mod": _remainder(_floor_divide),
    "maximum": _of_sizes(greater),
    "minimum": _of_sizes(lesser),
    "power": _power,
    "equal": _equal,
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
            return (
                SizeShare(multiple, factor.denominator) if few and isinstance(multiple, Any) and multiple.name else None
            )
    return _whole(multiply)(a, b)


def _shared(a: FloatItem, b: FloatItem) -> FloatItem:
    """A quotient that is not rounded."""
    if isinstance(a, int) and isinstance(b, int) and b != 0:
        return a // b if a % b == 0 else None
    if isinstance(a, Any) and isinstance(b, int) and b > 0:
        return SizeShare(a, b) if b > 1 else a
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
    return _rounded(parted(a.size, a.by)) if isinstance(a, SizeShare) else a


def ceiled(a: FloatItem) -> FloatItem:
    """The smallest whole number that is not below."""
    if isinstance(a, Fraction):
        return -(-a.numerator // a.denominator)
    return _rounded(parted(plus(a.size, a.by - 1), a.by)) if isinstance(a, SizeShare) else a


def as_integer(a: FloatItem) -> Item:
    """What a cast to integers gives, which rounds towards 0."""
    if isinstance(a, SizeShare):
        cut = truncated(a.size, a.by)
        return cut if isinstance(cut, int) or cut.name else None
    return int(a) if isinstance(a, Fraction) else a


OF_ONE_FLOAT: dict[str, Callable[[FloatItem], FloatItem]] = {"floor": floored, "ceil": ceiled}


def _is_small(expr: RelayExpr) -> bool:
    ty = expr.checked_type_
    if not isinstance(ty, TensorType) or not ty.is_static or math.prod(ty.concrete_shape) > MAX_ELEMENTS:
        return False
    return "int" in ty.dtype or ty.dtype == "bool" or ty.dtype in FLOATS


def _is_float(expr: RelayExpr) -> bool:
    return tensor_types(expr.checked_type)[0].dtype in FLOATS


def _fits(items: Items, dtype: str) -> bool:
    if dtype == "bool":
        return all(item in (0, 1) for item in items.reshape(-1) if item is not None)
    low, high = (-MOST_OF_FLOAT, MOST_OF_FLOAT) if dtype in FLOATS else integer_range(dtype)
    return all(low <= item <= high for item in items.reshape(-1) if isinstance(item, int))


def _objects(values: Sequence[FloatItem], shape: tuple[int, ...]) -> Items:
    items = np.empty(len(values), object)
    items[:] = values
    return items.reshape(shape)


class ShapeValues:
    """The known elements of the nodes seen so far; ask :meth:`learn` in post-order."""

    def __init__(self) -> None:
        self._items: dict[RelayExpr, Items] = {}

    def get(self, expr: RelayExpr) -> Items | None:
        """The elements of *expr*, or None where nothing is known of them."""
        if isinstance(expr, Constant) and _is_small(expr):
            array = expr.data.numpy()
            item: Callable[[float], FloatItem] = float_item if array.dtype.kind == "f" else int
            return _objects([item(v) for v in array.reshape(-1).tolist()], array.shape)
        return self._items.get(expr)

    def learn(self, call: Call) -> RelayExpr:
        """*call* as a constant where all its elements are known; else *call*, whose elements are remembered."""
        if not isinstance(call.op, Op) or not _is_small(call):
            return call
        items = self._evaluate(call, call.op.name)
        dtype = tensor_types(call.checked_type)[0].dtype
        if items is None or not _fits(items, dtype):  # what wraps around is the kernel's to say
            return call
        if dtype not in FLOATS and all(isinstance(item, int) for item in items.reshape(-1)):
            return constant(np.asarray(items.tolist(), numpy_dtype(dtype)).reshape(items.shape), span=call.span)
        self._items[call] = items
        return call

    def _evaluate(self, call: Call, name: str) -> Items | None:
        if name == "shape_of":
            shape = tensor_types(call.args[0].checked_type)[0].shape
            return _objects([d if isinstance(d, int) or d.name else None for d in shape], (len(shape),))
        if name == "ndarray_size":
            size: Item = 1
            for dim in tensor_types(call.args[0].checked_type)[0].shape:
                size = multiply(size, dim if isinstance(dim, int) or dim.name else None)
            return _objects([size], ())
        if name == "cast":
            own = self.get(call.args[0])
            return own if own is None or _is_float(call) else np.asarray(np.frompyfunc(as_integer, 1, 1)(own), object)
        if name == "prod":
            return self._product(call)
        if name == "where":
            parts = [self.get(a) for a in call.args]
            return np.asarray(np.frompyfunc(_chosen, 3, 1)(*parts), object) if all_given(parts) else None
        of_two = FLOAT_ARITHMETIC.get(name) if _is_float(call) else ARITHMETIC.get(name)
        if of_two is not None:
            if not all(isinstance(a, Constant) or a in self._items for a in call.args):
                return None
            left, right = (self.get(a) for a in call.args)
            if left is None or right is None:
                return None
            return np.asarray(np.frompyfunc(of_two, 2, 1)(left, right), object)
        of_one = OF_ONE_FLOAT.get(name) if _is_float(call) else OF_ONE.get(name)
        if of_one is not None:
            own = self.get(call.args[0])
            return None if own is None else np.asarray(np.frompyfunc(of_one, 1, 1)(own), object)
        rule: ElementsRule | None = operator_of(call).get_attr(FKNOWN_ELEMENTS)
        if rule is not None:
            return self._by_rule(call, rule)
        return self._moved(call) if operator_of(call).traits.only_moves else None

    def _by_rule(self, call: Call, rule: ElementsRule) -> Items | None:
        found = rule(call, lambda index: self.elements(call.args[index]))
        return None if found is None else _objects(found, tensor_types(call.checked_type)[0].concrete_shape)

    def elements(self, expr: RelayExpr) -> list[Item] | None:
        """The elements of *expr* in their order, or None where nothing is known of them."""
        items = self.get(expr)
        return None if items is None else list(items.reshape(-1))

    def _product(self, call: Call) -> Items | None:
        """The product of a whole tensor."""
        items = self.get(call.args[0])
        kept = tensor_types(call.checked_type)[0].concrete_shape
        if items is None or any(d != 1 for d in kept):
            return None
        product: Item = 1
        for item in items.reshape(-1):
            product = multiply(product, item)
        return _objects([product], kept)

    def _moved(self, call: Call) -> Items | None:
        """The elements after a move: the kernel moves their positions in one list of all elements.

        Operands whose elements are not moved say where to, and must be constants.
        """
        moved_operands = operator_of(call).traits.carries
        known: list[FloatItem] = []

        def positions(expr: RelayExpr) -> np.ndarray | None:
            items = self.get(expr)
            if items is None:
                return None
            known.extend(items.reshape(-1))
            return np.arange(len(known) - items.size, len(known), dtype=np.int64).reshape(items.shape)

        args: list[Value] = []
        for index, arg in enumerate(call.args):
            value: Value | None
            if index not in moved_operands:
                value = arg.data.numpy() if isinstance(arg, Constant) else None
            elif isinstance(arg, Tuple):
                fields = [positions(f) for f in arg.fields]
                value = list(fields) if all_given(fields) else None
            else:
                value = positions(arg)
            if value is None:
                return None
            args.append(value)
        moved = np.asarray(run_operator(call, args))
        return _objects([known[int(p)] for p in moved.reshape(-1)], moved.shape)
