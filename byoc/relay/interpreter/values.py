"""What the interpreter computes with, and how that is given to it and handed back.

Inside, a tensor is a numpy array and a tuple a list. Callers give and get NDArrays, :class:`ADT` for tuples, and
:class:`ConstructorValue`. Conversions do not recurse: a list of 100,000 cells is ordinary. Source: the values of
``tvm.relay.backend.interpreter``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from byoc.errors import InternalError
from byoc.ir.expr import Constructor, RelayExpr
from byoc.relay.expr import Call, Function, constant
from byoc.runtime.core.container import ADT
from byoc.runtime.core.ndarray import NDArray, from_any


class ConstructorValue:
    """Algebraic data: the *tag* of the constructor that made it, its *fields*, and the constructor itself.

    ``constructor`` is None where only the tag is known. Source: ``relay.backend.interpreter.ConstructorValue``.
    """

    __slots__ = ("constructor", "fields", "tag")

    def __init__(self, tag: int, fields: Sequence[object], constructor: Constructor | None = None):
        self.tag, self.fields, self.constructor = int(tag), list(fields), constructor

    def __repr__(self) -> str:
        name = self.constructor.name_hint if self.constructor is not None else f"tag {self.tag}"
        return f"ConstructorValue({name}, {len(self.fields)} fields)"


class RefValue:
    """A mutable cell; a tensor in it is an NDArray for its callers. Source: ``relay.backend.interpreter.RefValue``."""

    __slots__ = ("value",)

    def __init__(self, value: object):
        self.write(value)

    def read(self) -> Value:
        """What is in the cell, as the interpreter computes with it."""
        return self.value if isinstance(self.value, (list, ConstructorValue, *_CELLS)) else from_any(self.value)

    def write(self, value: object) -> None:
        """Put *value* into the cell."""
        self.value = NDArray(value) if isinstance(value, np.ndarray) else value


class Closure:
    """A function together with the scope in which it was made."""

    __slots__ = ("function", "scope")

    def __init__(self, function: Function, scope: EvaluationScope | None):
        self.function, self.scope = function, scope


class EvaluationScope:
    """The values of the nodes of one activation; what it does not know it asks of the scope around it."""

    __slots__ = ("calls", "outer", "values")

    def __init__(self, outer: EvaluationScope | None = None):
        self.outer = outer
        self.values: dict[RelayExpr, Value] = {}
        self.calls: dict[Call, EvaluationScope] = {}

    def get(self, node: RelayExpr) -> Value | None:
        """The value of *node*, or None where it has not been evaluated."""
        scope: EvaluationScope | None = self
        while scope is not None:
            if node in scope.values:
                return scope.values[node]
            scope = scope.outer
        return None

    def known(self, node: RelayExpr) -> Value:
        """The value of *node*, which has been evaluated. Raises InternalError where it has not."""
        value = self.get(node)
        if value is None:
            raise InternalError(f"a {type(node).__name__} is read that has no value yet")
        return value


_CELLS = (RefValue, Closure, Constructor)

# a constructor stands for itself where it is used as a function
Value = np.ndarray | list["Value"] | ConstructorValue | Closure | RefValue | Constructor
T = TypeVar("T")


def _converted(
    root: object, parts: Callable[[object], Sequence[object] | None], make: Callable[[object, list[T] | None], T]
) -> T:
    """*root* with ``make(value, new parts)`` in place of each value, innermost first; what is shared stays shared."""
    done: dict[int, T] = {}
    stack: list[tuple[object, Sequence[object] | None]] = [(root, None)]
    while stack:
        value, inner = stack.pop()
        if id(value) in done:
            continue
        if inner is not None:
            done[id(value)] = make(value, [done[id(part)] for part in inner])
            continue
        inner = parts(value)
        if inner is None:
            done[id(value)] = make(value, None)
        else:
            stack.append((value, inner))
            stack.extend((part, None) for part in reversed(inner))
    return done[id(root)]


def _parts(value: object) -> Sequence[object] | None:
    if isinstance(value, ConstructorValue):
        return value.fields
    return list(value) if isinstance(value, (ADT, list, tuple)) else None


def tensor_of(value: object) -> np.ndarray:
    """*value* as an array; a number of Python is int32, float32 or bool, as in ``relay.const``."""
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        return constant(value).data.numpy()
    return from_any(value)


def _make_inner(value: object, parts: list[Value] | None) -> Value:
    if isinstance(value, ConstructorValue):
        return ConstructorValue(value.tag, parts or (), value.constructor)
    if isinstance(value, ADT) and value.tag:
        return ConstructorValue(value.tag, parts or ())
    if parts is not None:
        return parts
    return value if isinstance(value, _CELLS) else tensor_of(value)


def _make_outer(value: object, parts: list[object] | None) -> object:
    if isinstance(value, ConstructorValue):
        return ConstructorValue(value.tag, parts or (), value.constructor)
    if parts is not None:
        return ADT(0, parts)
    return NDArray(value) if isinstance(value, np.ndarray) else value


def value_of(given: object) -> Value:
    """What a caller gave as the interpreter computes with it: tensors, tuples, lists, algebraic data, references."""
    return _converted(given, _parts, _make_inner)


def result_of(value: Value) -> object:
    """The interpreter's *value* as callers get it: an NDArray, an ADT for a tuple, a ConstructorValue, a reference."""
    return _converted(value, _parts, _make_outer)
