"""The post-dominator tree of a graph: through which node must everything that uses a node pass?

The parent of a node is the lowest common ancestor of its users; a node that nothing uses hangs below a virtual exit.
The tree is made in O(n log n).
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.relay.analysis.ancestor_tree import AncestorTree


class PostDominators:
    """The tree over nodes 0..n-1 that are numbered in post-order: users come after what they use."""

    def __init__(self, users: Sequence[Sequence[int]]):
        self._tree = AncestorTree()
        self._place = [0] * len(users)
        place = self._place
        for node in range(len(users) - 1, -1, -1):
            using = users[node]
            parent = place[using[0]] if using else 0
            for user in using[1:]:
                parent = self._tree.common_ancestor(parent, place[user])
            place[node] = self._tree.add(parent)

    def dominates(self, above: int, node: int) -> bool:
        """True when every path from *node* to the end of the graph passes *above*, another node."""
        return self._tree.is_above(self._place[above], self._place[node])

    def parents(self) -> list[int]:
        """For each node its closest post-dominator; -1 for a node that nothing uses, or whose uses never meet."""
        count = len(self._place)
        above = (self._tree.parent(place) for place in self._place)  # places are given from the last node downwards
        return [count - place if place else -1 for place in above]

    def common(self, nodes: Sequence[int]) -> int:
        """The closest node, one of *nodes* or another, that all of them pass; -1 where there is none."""
        place = self._place[nodes[0]]
        for node in nodes[1:]:
            place = self._tree.common_ancestor(place, self._place[node])
        return len(self._place) - place if place else -1
