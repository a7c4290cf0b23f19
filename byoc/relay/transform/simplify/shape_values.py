"""What small integer tensors hold when they are computed from shapes: numbers, named sizes, or nothing known.

``shape_of`` of ``(N, 3, 720, 720)`` holds ``[N, 3, 720, 720]``, so that ``take`` of its element 1 is 3 although N is
free. Operators that only move elements are run by their numpy kernels on positions instead of elements; arithmetic is
done on numbers and on named sizes, which gives sizes that follow from them (``byoc.runtime.core.derived_size``), and on
what resizing makes of them in floats (``floor(H * 0.5)``). Only tensors of numbers, of static shape and with at most
:data:`MAX_ELEMENTS` elements, are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from byoc.ir.attrs import all_given
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.expr import Call, Constant, Tuple, constant
from byoc.relay.interpreter import run_operator
from byoc.relay.narrowing import operator_of
from byoc.relay.op.core.known_items import (
    ARITHMETIC,
    FLOAT_ARITHMETIC,
    OF_ONE,
    OF_ONE_FLOAT,
    FloatItem,
    Item,
    as_integer,
    float_item,
    multiply,
)
from byoc.relay.op.core.known_shapes import FKNOWN_ELEMENTS, ElementsRule
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.small_types import integer_range

if TYPE_CHECKING:
    from byoc.relay.interpreter.values import Value

MAX_ELEMENTS = 64
MOST_OF_FLOAT = 2**24  # below which each whole number is a float32
FLOATS = ("float32", "float64")
# the elements of a tensor: an array of objects, each an int, a named Any, or None where nothing is known
Items = np.ndarray


def _is_small(expr: RelayExpr) -> bool:
    ty = expr.checked_type_
    if not isinstance(ty, TensorType) or not ty.is_static or not ("int" in ty.dtype or ty.dtype in FLOATS):
        return False
    return int(np.prod(ty.concrete_shape)) <= MAX_ELEMENTS


def _is_float(expr: RelayExpr) -> bool:
    return tensor_types(expr.checked_type)[0].dtype in FLOATS


def _fits(items: Items, dtype: str) -> bool:
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
        of_two = FLOAT_ARITHMETIC.get(name) if _is_float(call) else ARITHMETIC.get(name)
        if of_two is not None:
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
