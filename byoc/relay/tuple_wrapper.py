"""TupleWrapper: a call whose result is a tuple, as a Python sequence of its fields. Source: ``relay.TupleWrapper``."""

from __future__ import annotations

from collections.abc import Iterator

from byoc.ir.expr import RelayExpr
from byoc.relay.expr import TupleGetItem


class TupleWrapper:
    """The fields of a tuple-valued expression; ``astuple()`` is the expression itself. It is no expression."""

    __slots__ = ("size", "tuple_value")

    def __init__(self, tuple_value: RelayExpr, size: int):
        self.tuple_value = tuple_value
        self.size = size

    def astuple(self) -> RelayExpr:
        """The expression of tuple type."""
        return self.tuple_value

    def astext(self) -> str:
        """The text of the tuple. Source: ``TupleWrapper.astext``."""
        return self.tuple_value.astext()

    def __getitem__(self, index: int) -> TupleGetItem:
        """Field *index*, which may count from the end. Raises IndexError outside the tuple."""
        if not -self.size <= index < self.size:
            raise IndexError(f"field {index} of a tuple of {self.size}")
        return TupleGetItem(self.tuple_value, index % self.size)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[TupleGetItem]:
        return (self[k] for k in range(self.size))

    def __repr__(self) -> str:
        return f"TupleWrapper({self.tuple_value!r}, {self.size})"
