"""Containers of run-time values. Source: ``tvm.runtime.container``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class ADT(Sequence[object]):
    """A tagged tuple: what a tuple-valued expression evaluates to (tag 0)."""

    def __init__(self, tag: int, fields: Sequence[object]):
        self.tag = tag
        self._fields = tuple(fields)

    def __getitem__(self, index: int) -> object:  # type: ignore[override]
        return self._fields[index]

    def __len__(self) -> int:
        return len(self._fields)

    def __iter__(self) -> Iterator[object]:
        return iter(self._fields)

    def __repr__(self) -> str:
        return f"ADT({self.tag}, {list(self._fields)})"


def tuple_object(fields: Sequence[object] | None = None) -> ADT:
    """A tuple of values. Source: ``tvm.runtime.container.tuple_object``."""
    return ADT(0, fields or ())


class String(str):
    """A text. Source: ``tvm.runtime.String``."""


class ShapeTuple(tuple[int, ...]):
    """A shape. Source: ``tvm.runtime.ShapeTuple``."""


__all__ = ["ADT", "ShapeTuple", "String", "tuple_object"]
