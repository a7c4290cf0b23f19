"""Cycles of imports: packages, and files, that import each other, and the fewest imports that hold a cycle together.

The compatibility layer is left out: nothing imports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import networkx

from tools.health.sources import imported, imported_by_name, modules, package_of, typed_only


@cache
def import_graph() -> networkx.DiGraph:
    """Modules, with an edge from each to what it imports."""
    graph = networkx.DiGraph()
    for name in modules():
        if not name.startswith("byoc.compat"):
            graph.add_edges_from((name, other) for other in imported(name) if other != name)
    return graph


def package_graph() -> networkx.DiGraph:
    """Packages, with an edge from each to those that its files import from; ``imports`` of an edge are these.

    A module that is imported by its name counts too, where that is spelt.
    """
    graph = networkx.DiGraph()
    by_name = [(name, other) for name in import_graph() for other in imported_by_name(name)]
    for name, other in [*import_graph().edges, *by_name]:
        own, their = package_of(name), package_of(other)
        if own != their:
            if not graph.has_edge(own, their):
                graph.add_edge(own, their, imports=[])
            graph.edges[own, their]["imports"].append((name, other))
    return graph


def circles(graph: networkx.DiGraph) -> list[list[str]]:
    """The sets of nodes that reach each other, the largest first."""
    found = [sorted(c) for c in networkx.strongly_connected_components(graph) if len(c) > 1]
    return sorted(found, key=lambda c: (-len(c), c))


def holding_edges(circle: networkx.DiGraph) -> list[tuple[str, str]]:
    """Edges without which the packages of *circle* import each other in one direction, of few imports.

    Not always the fewest, which are hard to find: packages are put in a row from both ends, each time one that imports
    nothing that is left, or is imported by nothing, else the one that is imported most for what it imports. Source:
    Eades, Lin and Smyth, *A fast and effective heuristic for the feedback arc set problem*, 1993.
    """
    left = circle.copy()
    first: list[str] = []
    last: list[str] = []

    def imports(edges: Iterable[tuple[str, str]]) -> int:
        return sum(len(circle.edges[edge]["imports"]) for edge in edges)

    while left:
        nodes = sorted(left)
        sink = next((n for n in nodes if not left.out_degree(n)), None)
        source = next((n for n in nodes if not left.in_degree(n)), None)
        if sink is not None:
            last.append(sink)
        else:
            first.append(source or max(nodes, key=lambda n: imports(left.out_edges(n)) - imports(left.in_edges(n))))
        left.remove_node(sink if sink is not None else first[-1])
    height = {name: number for number, name in enumerate([*first, *reversed(last)])}
    return [(a, b) for a, b in circle.edges if height[a] > height[b]]


def explained() -> Iterator[str]:
    """Each cycle of packages, and below it the imports that hold it together; whether one is for types alone."""
    graph = package_graph()
    for circle in circles(graph):
        yield f"{len(circle)} packages: {' '.join(circle)}"
        inner = graph.subgraph(circle)
        for own, their in sorted(holding_edges(inner), key=lambda e: len(inner.edges[e]["imports"])):
            found = inner.edges[own, their]["imports"]
            yield f"  {own} -> {their}, {len(found)}:"
            yield from (f"    {a} imports {b}{' for types' if typed_only(a, b) else ''}" for a, b in found)
