"""A graph as the choice of kernels and the insertion of casts see it: operators over numbered tensors.

Invariant: operators stand in a topological order, each tensor has at most one producer, and one without a producer is
an input of the model or a constant. Tensors are numbers: names are for messages alone and may repeat.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from byoc.errors import PartitionError
from byoc.partition.place import HOST, ITEM_BYTES, DataLayout, Place, Precision
from byoc.partition.places.kernel import Kernel
from byoc.partition.places.tensor_type import LAYOUT_RANK, TensorTy


@dataclass(frozen=True)
class PlacedTensor:
    """A tensor of the model: its name, precision and shape (a size that is not known, as text, counts as 1).

    *constant*: a weight, cast when building. *scale* is the quantization step, for casts to and from int8 and uint8.
    """

    name: str
    precision: Precision = Precision.FLOAT
    shape: tuple[int | str, ...] = (1,) * LAYOUT_RANK
    constant: bool = False
    kind: str = "Tensor"
    scale: float | None = None

    @property
    def rank(self) -> int:
        """The number of its axes."""
        return len(self.shape)

    @property
    def elements(self) -> int:
        """The number of its elements."""
        return math.prod(d for d in self.shape if isinstance(d, int))

    def bytes_as(self, precision: Precision) -> int:
        """Its bytes in *precision*."""
        return self.elements * ITEM_BYTES[precision]


@dataclass(frozen=True)
class Operator:
    """A call: *inputs* and *outputs* are pairs (argument's name, tensor's number); *kernel* once it is chosen."""

    op: str
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]
    name: str = ""
    kernel: Kernel | None = None
    place: Place | None = None

    def __str__(self) -> str:
        return f"{self.op} ({self.name})" if self.name else self.op


@dataclass(frozen=True)
class PlaceGraph:
    """Operators over tensors. *inputs* says of which type a tensor without producer comes, that at home by default;
    *results* which tensors leave, and as what.
    """

    tensors: tuple[PlacedTensor, ...]
    operators: tuple[Operator, ...]
    inputs: Mapping[int, TensorTy]
    results: tuple[tuple[int, TensorTy], ...] = ()

    def __post_init__(self) -> None:
        made: set[int] = set()
        produced = {t for o in self.operators for _, t in o.outputs}
        for operator in self.operators:
            for name, tensor in operator.inputs:
                if not 0 <= tensor < len(self.tensors):
                    raise PartitionError(f"input {name} of {operator} is tensor {tensor}, of {len(self.tensors)}")
                if tensor in produced and tensor not in made:
                    raise PartitionError(f"{operator} reads {self.tensors[tensor].name} before it is made")
            for _, tensor in operator.outputs:
                if tensor in made:
                    raise PartitionError(f"{self.tensors[tensor].name} is made twice, again by {operator}")
                made.add(tensor)

    @cached_property
    def producer(self) -> Mapping[int, int]:
        """The number of the operator that makes a tensor; no entry for inputs and constants."""
        return {t: n for n, o in enumerate(self.operators) for _, t in o.outputs}

    @cached_property
    def readers(self) -> Mapping[int, tuple[tuple[int, int], ...]]:
        """For each tensor that is read the pairs (operator, number of its input)."""
        found: dict[int, list[tuple[int, int]]] = {}
        for n, operator in enumerate(self.operators):
            for k, (_, tensor) in enumerate(operator.inputs):
                found.setdefault(tensor, []).append((n, k))
        return {t: tuple(pairs) for t, pairs in found.items()}

    def source_type(self, tensor: int) -> TensorTy:
        """The type as which a tensor without producer comes."""
        given = self.inputs.get(tensor)
        of = self.tensors[tensor]
        return given or TensorTy(HOST, of.precision, DataLayout.NCHW, kind=of.kind)
