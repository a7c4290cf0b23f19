"""Tables from operators to something, whose rows follow from what each operator is.

A row is made when its operator is asked for, so that a table of all operators imports none, and knows those that users
register later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from byoc.ir.op import OPS, Op

V = TypeVar("V", covariant=True)


class ByOperator(Mapping[str, V]):
    """Operators' names to what the last of several layers says of them that says something.

    A layer is a table of names, or a function of the operator which gives None where it has nothing to say.
    """

    def __init__(self, *layers: Mapping[str, V] | Callable[[Op], V | None]):
        self._layers = layers[::-1]
        self._known: dict[Op, V | None] = {}

    def of(self, op: Op) -> V | None:
        """What the table has for *op*; None where it has nothing."""
        if op.rel is None or op not in self._known:  # what only has attributes yet may become anything
            rows = (layer.get(op.name) if isinstance(layer, Mapping) else layer(op) for layer in self._layers)
            self._known[op] = next((row for row in rows if row is not None), None)
        return self._known[op]

    def __getitem__(self, name: str) -> V:
        op = OPS.get(name)
        row = None if op is None else self.of(op)
        if row is None:
            raise KeyError(name)
        return row

    def __iter__(self) -> Iterator[str]:
        return (name for name in OPS if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
