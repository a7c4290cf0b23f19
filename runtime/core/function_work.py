"""What a function of a library has to do, operator by operator: recorded by the compiler, for profilers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from byoc.runtime.core.strict_json import (
    MOST_NUMBER,
    at,
    list_of,
    mapping_of,
    number_of,
    numbered,
    object_of,
    text_of,
    texts_of,
)

_OPERATOR = ("operator", "nodes", "dtype", "weight")


@dataclass(frozen=True)
class OperatorWork:
    """An operator in a function: the ONNX nodes that it came from, the dtype that it computes in.

    *operations* counts a multiply-add as two, *bytes* is what the operator would read and write if it stood alone; both
    are None where that is not known. With free dimensions they hold for sizes of 1: operations are to be multiplied by
    the sizes *free*, and *free_bytes*, each multiplied by sizes of its own, come to the bytes. *weight* is its part of
    the function's time, as estimated for a typical processor, in picoseconds.
    """

    operator: str
    nodes: tuple[str, ...] = ()
    dtype: str = "float32"
    weight: int = 1
    operations: int | None = None
    bytes: int | None = None
    free: tuple[str, ...] = ()
    free_bytes: tuple[tuple[int, tuple[str, ...]], ...] = ()

    def bound(self, sizes: Mapping[str, int]) -> OperatorWork:
        """With the free dimensions of these *sizes*; operations and bytes are None where one is not among them."""
        if not self.free and not self.free_bytes:
            return self
        operations, moved = self.operations, self.bytes
        if operations is not None:
            operations = _product(operations, self.free, sizes)
        for size, names in self.free_bytes:
            more = _product(size, names, sizes)
            moved = None if moved is None or more is None else moved + more
        return replace(self, operations=operations, bytes=moved, free=(), free_bytes=())

    def to_json(self) -> dict[str, object]:
        """The operator as values that ``json.dumps`` takes."""
        known = {"operations": self.operations, "bytes": self.bytes}
        return {
            "operator": self.operator,
            "nodes": list(self.nodes),
            "dtype": self.dtype,
            "weight": self.weight,
            **{name: value for name, value in known.items() if value is not None},
            **({"free": list(self.free)} if self.free else {}),
            **({"free_bytes": [[n, list(names)] for n, names in self.free_bytes]} if self.free_bytes else {}),
        }

    @staticmethod
    def from_json(data: object, where: str = "an operator") -> OperatorWork:
        """The operator that :meth:`to_json` gave. Raises ArtifactError for another."""
        fields = object_of(data, where, _OPERATOR, ("operations", "bytes", "free", "free_bytes"))
        counts = {
            name: number_of(fields[name], at(where, name), most=MOST_NUMBER)
            for name in ("weight", "operations", "bytes")
            if name in fields
        }
        operator, nodes = text_of(fields["operator"], at(where, "operator")), texts_of(fields["nodes"], where)
        free_bytes = []
        for item in list_of(fields.get("free_bytes", ()), where):
            size, names = list_of(item, where, 2)
            free_bytes.append((number_of(size, where), texts_of(names, where)))
        return OperatorWork(
            operator,
            nodes,
            text_of(fields["dtype"], at(where, "dtype")),
            **counts,
            free=texts_of(fields.get("free", ()), where),
            free_bytes=tuple(free_bytes),
        )


def _product(count: int, names: Sequence[str], sizes: Mapping[str, int]) -> int | None:
    if any(name not in sizes for name in names):
        return None
    return count * math.prod(sizes[name] for name in names)


@dataclass(frozen=True)
class FunctionWork:
    """The operators of a function in their order, and the backend that made its code."""

    backend: str
    operators: tuple[OperatorWork, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The function as values that ``json.dumps`` takes."""
        return {"backend": self.backend, "operators": [operator.to_json() for operator in self.operators]}

    @staticmethod
    def from_json(data: object, where: str = "a function") -> FunctionWork:
        """The function that :meth:`to_json` gave. Raises ArtifactError for another."""
        fields = object_of(data, where, ("backend", "operators"))
        operators = [OperatorWork.from_json(item, place) for place, item in numbered(fields, "operators", where)]
        return FunctionWork(text_of(fields["backend"], at(where, "backend")), tuple(operators))


def functions_from_json(data: object, where: str) -> Mapping[str, FunctionWork]:
    """The functions by their symbols. Raises ArtifactError for anything else."""
    return {symbol: FunctionWork.from_json(item, at(where, symbol)) for symbol, item in mapping_of(data, where).items()}
