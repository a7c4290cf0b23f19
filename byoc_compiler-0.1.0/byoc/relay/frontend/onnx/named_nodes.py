"""The nodes of a model by the names that the importer gives them, with the tensors that they read and write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from byoc.relay.frontend.onnx.load import ModelSource, load_model
from byoc.relay.frontend.onnx.names import NodeNames


@dataclass(frozen=True)
class NamedNode:
    """A node: its name, its operator, the names of its tensors."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def named_nodes(source: ModelSource) -> Iterator[NamedNode]:
    """The nodes of the main graph, in order. Raises ImportModelError for what is no ONNX model."""
    graph = load_model(source).proto.graph
    for name, node in zip(NodeNames(graph).main, graph.node, strict=True):
        yield NamedNode(name, node.op_type, tuple(map(str, node.input)), tuple(map(str, node.output)))
