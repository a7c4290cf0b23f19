"""Circles of imports: packages, and files, that import each other.

The compatibility layer is left out: nothing imports it.
"""

from __future__ import annotations

import networkx

from tools.health.sources import imported, modules, package_of


def import_graph() -> networkx.DiGraph:
    """Modules, with an edge from each to what it imports."""
    graph = networkx.DiGraph()
    for name in modules():
        if not name.startswith("byoc.compat"):
            graph.add_edges_from((name, other) for other in imported(name) if other != name)
    return graph


def package_graph() -> networkx.DiGraph:
    """Packages, with an edge from each to those that its files import from."""
    graph = networkx.DiGraph()
    for name, other in import_graph().edges:
        if package_of(name) != package_of(other):
            graph.add_edge(package_of(name), package_of(other))
    return graph


def circles(graph: networkx.DiGraph) -> list[list[str]]:
    """The sets of nodes that reach each other, the largest first."""
    found = [sorted(c) for c in networkx.strongly_connected_components(graph) if len(c) > 1]
    return sorted(found, key=lambda c: (-len(c), c))
