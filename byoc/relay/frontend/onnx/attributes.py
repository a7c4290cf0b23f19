"""The attributes of one ONNX node, read by type. Source: ``AttributeProto`` of onnx.proto."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from onnx import AttributeProto, GraphProto, TensorProto

from byoc.errors import ImportModelError

T = TypeVar("T")
_TYPE_NAMES = dict(zip(AttributeProto.AttributeType.values(), AttributeProto.AttributeType.keys(), strict=True))


def in_float32(number: float) -> float:
    """*number* as an attribute of ONNX holds it: float32, the only type that its floats have.

    >>> in_float32(0.01)
    0.009999999776482582
    """
    return float(np.float32(number))


class NodeAttributes:
    """Typed access to attributes; *where* names the node in messages.

    Each reader takes a default for an absent attribute; without one the attribute is required, and ImportModelError
    says which is missing. An attribute of another type than the one asked for is an ImportModelError too.
    """

    def __init__(self, attributes: Iterable[AttributeProto], where: str):
        self._attributes = {a.name: a for a in attributes}
        self._where = where

    def __contains__(self, name: str) -> bool:
        return name in self._attributes

    def names(self) -> tuple[str, ...]:
        """The names of the attributes that the node has."""
        return tuple(self._attributes)

    def proto(self, name: str) -> AttributeProto | None:
        """The attribute as it stands in the file, or None."""
        return self._attributes.get(name)

    def _read(self, name: str, kind: builtins.int, read: Callable[[AttributeProto], T], default: T | None = None) -> T:
        """What *read* takes from the attribute, else *default*; None for one that is required."""
        found = self._attributes.get(name)
        if found is None:
            if default is None:
                raise ImportModelError(f"{self._where}: the attribute {name!r} is missing")
            return default
        if found.type not in (kind, AttributeProto.UNDEFINED):
            raise ImportModelError(
                f"{self._where}: the attribute {name!r} is of type {_TYPE_NAMES[kind]}, got {_TYPE_NAMES[found.type]}"
            )
        return read(found)

    def int(self, name: str, default: int | None = None) -> int:
        """An integer."""
        return self._read(name, AttributeProto.INT, lambda found: found.i, default)

    def flag(self, name: str, default: bool = False) -> bool:
        """An integer that means yes or no."""
        return bool(self.int(name, 1 if default else 0))

    def float(self, name: str, default: float | None = None) -> float:
        """A float; its default, too, is the float32 that an attribute holds, whatever it is computed in."""
        known = None if default is None else in_float32(default)
        return self._read(name, AttributeProto.FLOAT, lambda found: found.f, known)

    def string(self, name: str, default: str | None = None) -> str:
        """A string."""
        return self._read(name, AttributeProto.STRING, lambda found: found.s.decode("utf-8", "replace"), default)

    def ints(self, name: str, default: Sequence[builtins.int] | None = None) -> list[builtins.int]:
        """A list of integers."""
        known = None if default is None else list(default)
        return self._read(name, AttributeProto.INTS, lambda found: list(found.ints), known)

    def floats(self, name: str, default: Sequence[builtins.float] | None = None) -> list[builtins.float]:
        """A list of floats."""
        known = None if default is None else [in_float32(x) for x in default]
        return self._read(name, AttributeProto.FLOATS, lambda found: list(found.floats), known)

    def strings(self, name: str, default: Sequence[str] | None = None) -> list[str]:
        """A list of strings."""
        known = None if default is None else list(default)
        return self._read(
            name, AttributeProto.STRINGS, lambda found: [s.decode("utf-8", "replace") for s in found.strings], known
        )

    def tensor(self, name: str) -> TensorProto:
        """A tensor; required."""
        return self._read(name, AttributeProto.TENSOR, lambda found: found.t)

    def graph(self, name: str) -> GraphProto:
        """A sub-graph; required."""
        return self._read(name, AttributeProto.GRAPH, lambda found: found.g)
