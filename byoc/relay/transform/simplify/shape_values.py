"""What small integer tensors hold when they are computed from shapes: numbers, named sizes, or nothing known.

``shape_of`` of ``(N, 3, 720, 720)`` holds ``[N, 3, 720, 720]``, so that ``take`` of its element 1 is 3 although N is
free. Operators that only move elements are run by their numpy kernels on positions instead of elements; arithmetic is
done on numbers and on named sizes, which gives sizes that follow from them (``byoc.runtime.core.derived_size``). Only
integer tensors of static shape with at most :data:`MAX_ELEMENTS` elements are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from byoc.ir.attrs import all_given
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.size_var import greater, lesser, parted, plus, times, truncated
from byoc.ir.types import Dim, TensorType, tensor_types
from byoc.relay.expr import Call, Constant, Tuple, constant
from byoc.relay.interpreter import run_operator
from byoc.relay.narrowing import operator_of
from byoc.relay.op.core.known_shapes import Item
from byoc.runtime.core.ndarray import dtype_name, numpy_dtype
from byoc.runtime.core.small_types import integer_range

if TYPE_CHECKING:
    from byoc.relay.interpreter.values import Value

MAX_ELEMENTS = 64
MOST_POWER = 4
# the elements of a tensor: an array of objects, each an int, a named Any, or None where nothing is known
Items = np.ndarray


def _of_sizes(combine: Callable[[Dim, Dim], Dim]) -> Callable[[Item, Item], Item]:
    """*combine* for what is known of two elements; None where nothing can be said."""

    def found(a: Item, b: Item) -> Item:
        if a is None or b is None:
            return None
        size = combine(a, b)
        return int(size) if isinstance(size, int) else size if size.name else None

    return found


def _multiply(a: Item, b: Item) -> Item:
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


def _power(a: Item, b: Item) -> Item:
    """Of small powers, as a product."""
    if a is None or not isinstance(b, int) or not 1 <= b <= MOST_POWER:
        return None
    product: Item = a
    for _ in range(b - 1):
        product = _multiply(product, a)
    return product


ARITHMETIC: dict[str, Callable[[Item, Item], Item]] = {
    "add": _of_sizes(plus),
    "subtract": _of_sizes(lambda a, b: plus(a, times(b, -1))),
    "multiply": _multiply,
    "divide": _divide,
    "floor_divide": _floor_divide,
    "maximum": _of_sizes(greater),
    "minimum": _of_sizes(lesser),
    "power": _power,
}
OF_ONE: dict[str, Callable[[Item], Item]] = {"negative": lambda a: _multiply(a, -1)}


def _is_small_integer(expr: RelayExpr) -> bool:
    ty = expr.checked_type_
    if not isinstance(ty, TensorType) or not ty.is_static or "int" not in ty.dtype:
        return False
    return int(np.prod(ty.concrete_shape)) <= MAX_ELEMENTS


def _fits(items: Items, dtype: np.dtype) -> bool:
    low, high = integer_range(dtype_name(dtype))
    return all(low <= item <= high for item in items.reshape(-1) if isinstance(item, int))


def _objects(values: list[Item], shape: tuple[int, ...]) -> Items:
    items = np.empty(len(values), object)
    items[:] = values
    return items.reshape(shape)


class ShapeValues:
    """The known elements of the nodes seen so far; ask :meth:`learn` in post-order."""

    def __init__(self) -> None:
        self._items: dict[RelayExpr, Items] = {}

    def get(self, expr: RelayExpr) -> Items | None:
        """The elements of *expr*, or None where nothing is known of them."""
        if isinstance(expr, Constant) and _is_small_integer(expr):
            array = expr.data.numpy()
            return _objects([int(v) for v in array.reshape(-1)], array.shape)
        return self._items.get(expr)

    def learn(self, call: Call) -> RelayExpr:
        """*call* as a constant where all its elements are known; else *call*, whose elements are remembered."""
        if not isinstance(call.op, Op) or not _is_small_integer(call):
            return call
        items = self._evaluate(call, call.op.name)
        dtype = numpy_dtype(tensor_types(call.checked_type)[0].dtype)
        if items is None or not _fits(items, dtype):  # what wraps around is the kernel's to say
            return call
        if all(isinstance(item, int) for item in items.reshape(-1)):
            return constant(np.asarray(items.tolist(), dtype).reshape(items.shape), span=call.span)
        self._items[call] = items
        return call

    def _evaluate(self, call: Call, name: str) -> Items | None:
        if name == "shape_of":
            shape = tensor_types(call.args[0].checked_type)[0].shape
            return _objects([d if isinstance(d, int) or d.name else None for d in shape], (len(shape),))
        if name == "ndarray_size":
            size: Item = 1
            for dim in tensor_types(call.args[0].checked_type)[0].shape:
                size = _multiply(size, dim if isinstance(dim, int) or dim.name else None)
            return _objects([size], ())
        if name == "cast":
            return self.get(call.args[0])
        if name == "prod":
            return self._product(call)
        if name in ARITHMETIC:
            left, right = (self.get(a) for a in call.args)
            if left is None or right is None:
                return None
            return np.asarray(np.frompyfunc(ARITHMETIC[name], 2, 1)(left, right), object)
        if name in OF_ONE:
            own = self.get(call.args[0])
            return None if own is None else np.asarray(np.frompyfunc(OF_ONE[name], 1, 1)(own), object)
        return self._moved(call) if operator_of(call).traits.only_moves else None

    def _product(self, call: Call) -> Items | None:
        """The product of a whole tensor."""
        items = self.get(call.args[0])
        kept = tensor_types(call.checked_type)[0].concrete_shape
        if items is None or any(d != 1 for d in kept):
            return None
        product: Item = 1
        for item in items.reshape(-1):
            product = _multiply(product, item)
        return _objects([product], kept)

    def _moved(self, call: Call) -> Items | None:
        """The elements after a move: the kernel moves their positions in one list of all elements.

        Operands whose elements are not moved say where to, and must be constants.
        """
        moved_operands = operator_of(call).traits.carries
        known: list[Item] = []

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
