"""Names that come from the model: exact where they are only shown, made harmless where they name sizes.

A model's names are any text at all. Value and node names are kept as they are and never evaluated; only where nodes
share a name they are distinguished by their positions. A dimension's name (``dim_param``) ends up in generated code as
an identifier, so it is made one, distinct from all others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

from onnx import GraphProto

_NOT_A_WORD = re.compile(r"[^0-9A-Za-z_]")


class SizeNames:
    """Distinct identifiers for the names of free dimensions; the same name always gets the same identifier."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()

    def __call__(self, name: str) -> str:
        """The identifier for the dimension *name*."""
        if name not in self._given:
            word = _NOT_A_WORD.sub("_", name)
            if not word or word[0].isdigit():
                word = f"d_{word}"
            unique, k = word, 0
            while unique in self._taken:
                k += 1
                unique = f"{word}_{k}"
            self._taken.add(unique)
            self._given[name] = unique
        return self._given[name]


class NodeNames:
    """Names for nodes: their own where no other node of the graph has it, else ``Conv_12`` by the shared name, or the
    operator where there is none, and the position. Those of the main graph are distinct, and from all others.
    """

    def __init__(self, graph: GraphProto):
        count = Counter(node.name for node in graph.node)
        self._taken = set(count)
        self.main = tuple(
            node.name if node.name and count[node.name] == 1 else self._made(node.name or node.op_type, index)
            for index, node in enumerate(graph.node)
        )
        self._of_main = frozenset(self.main)

    def inside(self, name: str, op_type: str, index: int) -> str:
        """The name of node *index* of a graph that a node holds; a name that it has is the same each time."""
        if not name:
            return self._made(op_type, index)
        return name if name not in self._of_main else self._free(f"{name}_{index}", self._of_main)

    def _made(self, base: str, index: int) -> str:
        unique = self._free(f"{base}_{index}", self._taken)
        self._taken.add(unique)
        return unique

    @staticmethod
    def _free(name: str, taken: Collection[str]) -> str:
        """*name*, with a number behind it where it is *taken*."""
        unique, k = name, 0
        while unique in taken:
            k += 1
            unique = f"{name}_{k}"
        return unique
