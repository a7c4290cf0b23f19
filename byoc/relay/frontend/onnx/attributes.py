"""The attributes of one ONNX node, read by type. Source: ``AttributeProto`` of onnx.proto."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence

import numpy as np
from onnx import AttributeProto, GraphProto, TensorProto

from byoc.errors import ImportModelError

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

    def _find(self, name: str, kind: int, required: bool) -> AttributeProto | None:
        found = self._attributes.get(name)
        if found is None:
            if required:
                raise ImportModelError(f"{self._where}: the attribute {name!r} is missing")
            return None
        if found.type not in (kind, AttributeProto.UNDEFINED):
            raise ImportModelError(
                f"{self._where}: the attribute {name!r} is of type {_TYPE_NAMES[kind]}, got {_TYPE_NAMES[found.type]}"
            )
        return found

    def int(self, name: str, default: int | None = None) -> int:
        """An integer."""
        found = self._find(name, AttributeProto.INT, default is None)
        return found.i if found is not None else default  # type: ignore[return-value]

    def flag(self, name: str, default: bool = False) -> bool:
        """An integer that means yes or no."""
        return bool(self.int(name, 1 if default else 0))

    def float(self, name: str, default: float | None = None) -> float:
        """A float; its default, too, is the float32 that an attribute holds, whatever it is computed in."""
        found = self._find(name, AttributeProto.FLOAT, default is None)
        return found.f if found is not None else in_float32(default)  # type: ignore[arg-type]

    def string(self, name: str, default: str | None = None) -> str:
        """A string."""
        found = self._find(name, AttributeProto.STRING, default is None)
        return found.s.decode("utf-8", "replace") if found is not None else default  # type: ignore[return-value]

    def ints(self, name: str, default: Sequence[builtins.int] | None = None) -> list[builtins.int]:
        """A list of integers."""
        found = self._find(name, AttributeProto.INTS, default is None)
        return list(found.ints) if found is not None else list(default)  # type: ignore[arg-type]

    def floats(self, name: str, default: Sequence[builtins.float] | None = None) -> list[builtins.float]:
        """A list of floats."""
        found = self._find(name, AttributeProto.FLOATS, default is None)
        return list(found.floats) if found is not None else [in_float32(x) for x in default]  # type: ignore[union-attr]

    def strings(self, name: str, default: Sequence[str] | None = None) -> list[str]:
        """A list of strings."""
        found = self._find(name, AttributeProto.STRINGS, default is None)
        if found is None:
            return list(default)  # type: ignore[arg-type]
        return [s.decode("utf-8", "replace") for s in found.strings]

    def tensor(self, name: str) -> TensorProto:
        """A tensor; required."""
        return self._find(name, AttributeProto.TENSOR, True).t  # type: ignore[union-attr]

    def graph(self, name: str) -> GraphProto:
        """A sub-graph; required."""
        return self._find(name, AttributeProto.GRAPH, True).g  # type: ignore[union-attr]
