"""Containers of run-time values: tagged tuples, texts and shapes. Source: ``tvm.runtime.container``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np


class ADT(Sequence[object]):
    """A tagged tuple: tag 0 for a tuple, a constructor's tag for algebraic data. Its fields never change.

    >>> pair = tuple_object([1, 2])
    >>> pair.tag, len(pair), pair[-1]
    (0, 2, 2)
    """

    __slots__ = ("_fields", "tag")

    def __init__(self, tag: int, fields: Iterable[object] = ()):
        self.tag = int(tag)
        self._fields: Sequence[object] = tuple(fields)

    def __getitem__(self, index: int) -> object:  # type: ignore[override]  # no slices, as in TVM
        """Field *index*, which may count from the end. Raises IndexError outside."""
        return self._fields[index]

    def __len__(self) -> int:
        return len(self._fields)

    def __iter__(self) -> Iterator[object]:
        return iter(self._fields)

    def __repr__(self) -> str:
        return f"ADT({self.tag}, {len(self._fields)} fields)"


def tuple_object(fields: Iterable[object] | None = None) -> ADT:
    """A tuple of values. Source: ``tvm.runtime.container.tuple_object``."""
    return ADT(0, fields or ())


def object_vector(values: Sequence[object]) -> np.ndarray:
    """*values*, whatever they are, as the elements of ``object[n]``."""
    vector = np.empty(len(values), object)
    for place, value in enumerate(values):
        vector[place] = value
    return vector


class String(str):
    """A text. Source: ``tvm.runtime.String``."""

    __slots__ = ()


class ShapeTuple(tuple[int, ...]):
    """A shape. Source: ``tvm.runtime.ShapeTuple``."""

    __slots__ = ()


__all__ = ["ADT", "ShapeTuple", "String", "tuple_object"]
