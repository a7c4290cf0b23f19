"""A growing tree with ancestor queries in O(log n).

Each node keeps a jump pointer to an ancestor some way up: the skew-binary scheme of Myers, "An applicative
random-access stack" (1983).
"""

from __future__ import annotations


class AncestorTree:
    """A forest under one virtual root (node 0); nodes are numbered in the order in which they are added."""

    def __init__(self) -> None:
        self.depth = [0]
        self._parent = [0]
        self._jump = [0]

    def add(self, parent: int = 0) -> int:
        """Hang a new node below *parent*; returns its number."""
        depth, jump = self.depth, self._jump
        up = jump[parent]
        far = depth[parent] - depth[up] == depth[up] - depth[jump[up]]
        self._parent.append(parent)
        depth.append(depth[parent] + 1)
        jump.append(jump[up] if far else parent)
        return len(depth) - 1

    def parent(self, node: int) -> int:
        """The node above *node*; the root's is the root."""
        return self._parent[node]

    def _at_level(self, node: int, level: int) -> int:
        depth, jump, parent = self.depth, self._jump, self._parent
        while depth[node] > level:
            node = jump[node] if depth[jump[node]] >= level else parent[node]
        return node

    def common_ancestor(self, left: int, right: int) -> int:
        """The lowest node above both, each of them included."""
        level = min(self.depth[left], self.depth[right])
        left, right = self._at_level(left, level), self._at_level(right, level)
        jump, parent = self._jump, self._parent
        while left != right:
            if jump[left] != jump[right]:
                left, right = jump[left], jump[right]
            else:
                left, right = parent[left], parent[right]
        return left

    def is_above(self, above: int, node: int) -> bool:
        """True when *above* is a proper ancestor of *node*."""
        level = self.depth[above]
        return self.depth[node] > level and self._at_level(node, level) == above
