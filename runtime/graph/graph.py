"""A graph in Relay's JSON layout: ``nodes``, ``arg_nodes``, ``heads``, ``node_row_ptr``, ``attrs``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.graph.overlap import Overlap, OverlapStep, overlap

RESHAPE = "__nop"
Entry = tuple[int, int]


@dataclass(frozen=True)
class Node:
    """A node of the graph; ``function`` is empty for an input.

    ``starts`` says that it can be started and waited for.
    """

    name: str
    function: str
    inputs: tuple[Entry, ...]
    outputs: tuple[Entry, ...]
    dynamic: bool = False
    starts: bool = False


class Graph:
    """A graph read from its JSON form: nodes, the spec of every entry, inputs and heads."""

    def __init__(self, data: Mapping[str, Any]):
        """Requires a graph that the compiler made, or one that passed :func:`checked_graph`."""
        rows: Sequence[int] = data["node_row_ptr"]
        attrs: Mapping[str, Sequence[Sequence[Any]]] = data["attrs"]
        shapes, dtypes = attrs["shape"][1], attrs["dltype"][1]
        self.nodes: list[Node] = []
        self.specs: dict[Entry, TensorSpec] = {}
        for index, raw in enumerate(data["nodes"]):
            outputs = tuple((index, k) for k in range(rows[index + 1] - rows[index]))
            for k, entry in enumerate(outputs):
                position = rows[index] + k
                self.specs[entry] = TensorSpec(raw["name"], tuple(shapes[position]), dtypes[position])
            info = raw.get("attrs", {})
            self.nodes.append(
                Node(
                    raw["name"],
                    info.get("func_name", ""),
                    tuple((nid, k) for nid, k, _ in raw["inputs"]),
                    outputs,
                    info.get("dynamic") == "1",
                    info.get("starts") == "1",
                )
            )
        self.inputs = [self.nodes[i] for i in data["arg_nodes"]]
        self.heads: list[Entry] = [(nid, k) for nid, k, _ in data["heads"]]

    @property
    def calls(self) -> list[Node]:
        """The nodes that call a function, in order."""
        return [node for node in self.nodes if node.function]

    def storage(self) -> dict[Entry, Entry]:
        """The entry whose memory each entry uses: its own, but for reshapes that of their input."""
        roots = {entry: entry for entry in self.specs}
        for node in self.calls:
            if node.function == RESHAPE:
                roots[node.outputs[0]] = roots[node.inputs[0]]
        return roots

    def overlap(self) -> Overlap:
        """What of the calls may be at work at the same time."""
        roots = self.storage()
        return overlap(
            [
                OverlapStep((), (), False)
                if node.function == RESHAPE
                else OverlapStep(
                    tuple(roots[e] for e in node.inputs),
                    tuple(roots[e] for e in node.outputs),
                    node.starts and not node.dynamic,
                )
                for node in self.calls
            ]
        )
