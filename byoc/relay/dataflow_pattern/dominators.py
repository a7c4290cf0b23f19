"""The post-dominator tree of a graph: through which node must everything that uses a node pass?

The parent of a node is the lowest common ancestor of its users; a node that nothing uses hangs below a virtual exit.
Each node keeps a jump pointer to an ancestor some way up (the skew-binary scheme of Myers, "An applicative
random-access stack", 1983), so that ancestors are found in O(log n) steps and the whole tree in O(n log n).
"""

from __future__ import annotations

from collections.abc import Sequence


class PostDominators:
    """The tree over nodes 0..n-1 that are numbered in post-order: users come after what they use."""

    def __init__(self, users: Sequence[Sequence[int]]):
        count = len(users)
        self._exit = count
        self._depth = [0] * (count + 1)
        self._parent = [count] * (count + 1)
        self._jump = [count] * (count + 1)
        for node in range(count - 1, -1, -1):
            self._place(node, users[node])

    def _place(self, node: int, users: Sequence[int]) -> None:
        parent = users[0] if users else self._exit
        for user in users[1:]:
            parent = self.common_ancestor(parent, user)
        depth, jump = self._depth, self._jump
        self._parent[node] = parent
        depth[node] = depth[parent] + 1
        up = jump[parent]
        jump[node] = jump[up] if depth[parent] - depth[up] == depth[up] - depth[jump[up]] else parent

    def _ancestor_at(self, node: int, level: int) -> int:
        depth, jump, parent = self._depth, self._jump, self._parent
        while depth[node] > level:
            node = jump[node] if depth[jump[node]] >= level else parent[node]
        return node

    def common_ancestor(self, left: int, right: int) -> int:
        """The lowest node that post-dominates both (each of them included)."""
        depth, jump, parent = self._depth, self._jump, self._parent
        if depth[left] > depth[right]:
            left = self._ancestor_at(left, depth[right])
        elif depth[right] > depth[left]:
            right = self._ancestor_at(right, depth[left])
        while left != right:
            if jump[left] != jump[right]:
                left, right = jump[left], jump[right]
            else:
                left, right = parent[left], parent[right]
        return left

    def dominates(self, above: int, node: int) -> bool:
        """True when every way from *node* to the end of the graph passes *above*, another node."""
        level = self._depth[above]
        return self._depth[node] > level and self._ancestor_at(node, level) == above
