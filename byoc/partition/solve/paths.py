"""Paths through the graph of operators, and cycles among units of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from byoc.partition.problem import Problem

Edge = tuple[int, int]


def bypassed_edges(problem: Problem) -> dict[int, tuple[int, ...]]:
    """For each edge (by number) beside which a longer path leads from its start to its end: the edges of such paths."""
    number = {e: k for k, e in enumerate(problem.edges)}
    after: list[list[int]] = [[] for _ in range(problem.operators)]
    before: list[list[int]] = [[] for _ in range(problem.operators)]
    for u, v in problem.edges:
        after[u].append(v)
        before[v].append(u)
    found = {}
    for k, (u, v) in enumerate(problem.edges):
        if len(after[u]) < 2 or len(before[v]) < 2:
            continue
        behind = _reached(u, after, v.__gt__)
        if behind.isdisjoint(before[v]):
            continue
        between = behind & _reached(v, before, u.__lt__)
        inner = [(a, b) for a in between for b in after[a] if b in between or b == v]
        inner += [(u, b) for b in after[u] if b in between]
        found[k] = tuple(sorted(number[e] for e in inner))
    return found


def _reached(start: int, following: Sequence[Sequence[int]], allowed: Callable[[int], bool]) -> set[int]:
    seen: set[int] = set()
    pending = [start]
    while pending:
        for other in following[pending.pop()]:
            if other not in seen and allowed(other):
                seen.add(other)
                pending.append(other)
    return seen


def cycles(problem: Problem, unit: Mapping[int, int]) -> list[list[Edge]]:
    """Short cycles among units of operators; an operator outside of *unit* is one of its own.

    A cycle is the edges between units in order; one is found for each unit that lies on any.
    """
    count = max(unit.values(), default=-1) + 1
    of = [unit.get(o, count + o) for o in range(problem.operators)]
    after: dict[int, list[tuple[int, Edge]]] = {}
    for u, v in problem.edges:
        if of[u] != of[v]:
            after.setdefault(of[u], []).append((of[v], (u, v)))
    rings = [_shortest(start, after) for start in _on_cycles(after) if start < count]
    return [ring for ring in rings if ring]


def _on_cycles(after: Mapping[int, Sequence[tuple[int, Edge]]]) -> list[int]:
    """The nodes on cycles, and those on paths between two cycles: what remains when the ends are taken away."""
    nodes = set(after) | {v for targets in after.values() for v, _ in targets}
    forward = {u: {v for v, _ in after.get(u, ())} for u in nodes}
    backward: dict[int, set[int]] = {u: set() for u in nodes}
    for u, targets in forward.items():
        for v in targets:
            backward[v].add(u)
    for outgoing, incoming in ((forward, backward), (backward, forward)):
        pending = [u for u in sorted(nodes) if not outgoing[u]]
        while pending:
            u = pending.pop()
            nodes.discard(u)
            for other in incoming[u]:
                outgoing[other].discard(u)
                if not outgoing[other] and other in nodes:
                    pending.append(other)
            incoming[u] = set()
    return sorted(nodes)


def _shortest(start: int, after: Mapping[int, Sequence[tuple[int, Edge]]]) -> list[Edge]:
    """The edges of a shortest path from *start* back to itself; empty where there is none."""
    came: dict[int, tuple[int, Edge]] = {}
    pending = deque([start])
    while pending:
        node = pending.popleft()
        for target, edge in after.get(node, ()):
            if target == start:
                path = [edge]
                while node != start:
                    node, edge = came[node]
                    path.append(edge)
                return path[::-1]
            if target not in came:
                came[target] = (node, edge)
                pending.append(target)
    return []


def path_inside(start: int, end: int, neighbours: Mapping[int, Sequence[int]]) -> list[int]:
    """The operators of a shortest path from *start* to *end*, both included; empty where there is none."""
    came = {start: start}
    pending = deque([start])
    while pending and end not in came:
        node = pending.popleft()
        for other in neighbours.get(node, ()):
            if other not in came:
                came[other] = node
                pending.append(other)
    if end not in came:
        return []
    path = [end]
    while path[-1] != start:
        path.append(came[path[-1]])
    return path[::-1]


def components(count: int, edges: Sequence[Edge]) -> list[int]:
    """For each of *count* operators the least operator that *edges* connect it to."""
    root = list(range(count))

    def find(node: int) -> int:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for u, v in edges:
        a, b = find(u), find(v)
        if a != b:
            root[max(a, b)] = min(a, b)
    return [find(o) for o in range(count)]
