"""What a launch has to do, counted when its code was made: a part of ``plan.json`` for profiles alone.

A plan without it is valid, as older ones are: then a profile tells times and no rates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from byoc.runtime.core.strict_json import at, object_of, text_of, texts_of

if TYPE_CHECKING:
    from byoc.runtime.opencl.plan import Number


@dataclass(frozen=True)
class KernelWork:
    """The operators of a launch, and counts that depend on the sizes of a call as the plan's numbers do.

    Attributes:
        operations: arithmetic on data, a multiply-add being two; what finds places in memory is not among it.
        bytes: what has to be read and written at least: each element that is used once, each result once.
        dtype: what most of it is computed in.
        operators: those that the launch computes a part of.
    """

    operations: Number
    bytes: Number
    dtype: str = "float32"
    operators: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """As data."""
        operators = {"operators": list(self.operators)} if self.operators else {}
        return {"operations": self.operations, "bytes": self.bytes, "dtype": self.dtype, **operators}

    @staticmethod
    def from_json(data: object, where: str, read: Callable[[object], Number]) -> KernelWork:
        """The work that :meth:`to_json` gave, its numbers taken by *read*. Raises ArtifactError for another."""
        fields = object_of(data, where, ("operations", "bytes", "dtype"), ("operators",))
        return KernelWork(
            read(fields["operations"]),
            read(fields["bytes"]),
            text_of(fields["dtype"], at(where, "dtype")),
            texts_of(fields.get("operators", ()), at(where, "operators")),
        )
