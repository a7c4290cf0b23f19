"""What a whole model is written after: its opset, what it declares, and nodes that stay as they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onnx import GraphProto, NodeProto, ValueInfoProto

OPSET = 18  # the oldest that is written
DEFAULT_DOMAINS = ("", "ai.onnx")


def graphs_of(node: NodeProto) -> list[GraphProto]:
    """The graphs inside of *node*."""
    return [g for a in node.attribute for g in ([a.g, *a.graphs] if a.HasField("g") else a.graphs)]


def inner_nodes(node: NodeProto) -> Iterator[NodeProto]:
    """The nodes of the graphs inside of *node*, and of those inside of them."""
    for graph in graphs_of(node):
        for inner in graph.node:
            yield inner
            yield from inner_nodes(inner)


@dataclass(frozen=True)
class KeptNode:
    """A node as it was, with the names of the values that it *reads*, and the *opset* of its domain in the source.

    *empty*: of the sequences among these that have no element, the number of the elements' type.
    """

    proto: NodeProto
    reads: Sequence[str]
    opset: int
    empty: Mapping[str, int] = field(default_factory=dict)

    @property
    def domain(self) -> str:
        """The domain, "" for ONNX's own."""
        return "" if self.proto.domain in DEFAULT_DOMAINS else self.proto.domain


@dataclass(frozen=True)
class SourceModel:
    """The *opset* of a model, its inputs and outputs by name, and those of its *nodes* that are kept, by key."""

    opset: int = OPSET
    ports: Mapping[str, ValueInfoProto] = field(default_factory=dict)
    nodes: Mapping[str, KeptNode] = field(default_factory=dict)

    def declared(self, name: str) -> ValueInfoProto | None:
        """What the model says of an input or an output, where that is all that ONNX wants to know."""
        value = self.ports.get(name)
        if value is None or value.type.WhichOneof("value") is None:
            return None
        is_tensor = value.type.HasField("tensor_type")
        return value if not is_tensor or value.type.tensor_type.HasField("shape") else None
