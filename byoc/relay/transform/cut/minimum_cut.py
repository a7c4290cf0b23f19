"""Minimum cut of a network: the cheapest way to give each node one of two labels.

A cut separates the source from the sink; its cost is the sum of the capacities of the edges that lead from the
source's side to the sink's. Of all cheapest cuts the one with the smallest sink side is given, which is the same
whatever the order in which nodes and edges come. Source: Dinic, "Algorithm for solution of a problem of maximum flow
in networks with power estimation", Soviet Math. Doklady 11, 1970.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

SOURCE, SINK = 0, 1
UNBOUNDED = 1 << 62


class Network:
    """A network under construction; nodes are numbers, of which the source and the sink are the first two."""

    def __init__(self) -> None:
        self._target: list[int] = []
        self._capacity: list[int] = []
        self._edges: list[list[int]] = [[], []]

    def add_node(self) -> int:
        """A new node."""
        self._edges.append([])
        return len(self._edges) - 1

    def add_edge(self, start: int, end: int, capacity: int) -> None:
        """An edge whose *capacity* is paid where *start* is on the source's side and *end* on the sink's."""
        for tail, head, size in ((start, end, capacity), (end, start, 0)):
            self._edges[tail].append(len(self._target))
            self._target.append(head)
            self._capacity.append(size)

    def sink_side(self) -> frozenset[int]:
        """The nodes on the sink's side of the cheapest cut, as few as can be."""
        while (levels := self._levels())[SINK] >= 0:
            self._saturate(levels)
        return self._reaching_the_sink()

    def _levels(self) -> list[int]:
        """The distance of each node from the source along edges with room; -1 where there is no path."""
        levels = [-1] * len(self._edges)
        levels[SOURCE] = 0
        queue = deque([SOURCE])
        while queue:
            node = queue.popleft()
            for edge in self._edges[node]:
                head = self._target[edge]
                if self._capacity[edge] > 0 and levels[head] < 0:
                    levels[head] = levels[node] + 1
                    queue.append(head)
        return levels

    def _saturate(self, levels: Sequence[int]) -> None:
        """A blocking flow along shortest paths, with a stack of its own."""
        following = [0] * len(self._edges)
        way: list[int] = []
        node = SOURCE
        while True:
            if node == SINK:
                pushed = min(self._capacity[edge] for edge in way)
                for edge in way:
                    self._capacity[edge] -= pushed
                    self._capacity[edge ^ 1] += pushed
                way, node = [], SOURCE
                continue
            step = self._next_edge(node, following, levels)
            if step is not None:
                way.append(step)
                node = self._target[step]
            elif way:
                node = self._target[way.pop() ^ 1]
                following[node] += 1
            else:
                return

    def _next_edge(self, node: int, following: list[int], levels: Sequence[int]) -> int | None:
        """The first edge of *node* that still leads on; those before it are passed over for good."""
        edges = self._edges[node]
        while following[node] < len(edges):
            edge = edges[following[node]]
            if self._capacity[edge] > 0 and levels[self._target[edge]] == levels[node] + 1:
                return edge
            following[node] += 1
        return None

    def _reaching_the_sink(self) -> frozenset[int]:
        seen = {SINK}
        queue = deque([SINK])
        while queue:
            for edge in self._edges[queue.popleft()]:
                tail = self._target[edge]
                if self._capacity[edge ^ 1] > 0 and tail not in seen:
                    seen.add(tail)
                    queue.append(tail)
        return frozenset(seen)
