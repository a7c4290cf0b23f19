"""The contracted graph of a function: its regions, and each node outside them, as units that depend on one another.

A unit is a region or a single node. Units are convex and can run one after another exactly when this graph has no
cycle. A variable that a ``let`` binds depends on its value. A let-bound function may refer to itself, and its variable
has no such edge: what it captures is evaluated outside the let's body (see ``scopes``). The inside of a composite is
no part of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from byoc.ir.expr import RelayExpr
from byoc.relay.analysis.ancestor_tree import AncestorTree
from byoc.relay.analysis.annotated_regions import AnnotatedRegion, AnnotatedRegionSet
from byoc.relay.expr import Function, If, Let, Var
from byoc.relay.traverse import children, post_order


def open_children(expr: RelayExpr) -> Sequence[RelayExpr]:
    """The sub-expressions of *expr*, but none of a composite: it is one operator."""
    return () if type(expr) is Function and "Composite" in expr.attrs else children(expr)


class RegionGraph:
    """Units by number: ``unit_of`` each node, the ``region`` of each unit (or None), and its ``parents``."""

    def __init__(self, func: Function):
        self.regions = AnnotatedRegionSet(func)
        self.nodes = list(post_order(func, open_children))
        self.unit_of: dict[RelayExpr, int] = {}
        self.region: list[AnnotatedRegion | None] = []
        self.first: list[RelayExpr] = []
        numbers: dict[AnnotatedRegion, int] = {}
        for node in self.nodes:
            region = self.regions.get_region(node)
            unit = numbers.setdefault(region, len(self.region)) if region is not None else len(self.region)
            if unit == len(self.region):
                self.region.append(region)
                self.first.append(node)
            self.unit_of[node] = unit
        self._of_region: dict[AnnotatedRegion, list[RelayExpr]] = {region: [] for region in numbers}
        for node in self.nodes:
            owner = self.region[self.unit_of[node]]
            if owner is not None:
                self._of_region[owner].append(node)
        self.parents = self._collect_parents()

    def region_nodes(self, region: AnnotatedRegion) -> list[RelayExpr]:
        """The nodes of *region*, its begins and ends among them, in post-order."""
        return self._of_region[region]

    def _collect_parents(self) -> list[list[int]]:
        parents: list[dict[int, None]] = [{} for _ in self.region]
        bound = {n.variable: n.value for n in self.nodes if isinstance(n, Let) and not isinstance(n.value, Function)}
        for node in self.nodes:
            unit = self.unit_of[node]
            needed = (bound[node],) if isinstance(node, Var) and node in bound else open_children(node)
            for child in needed:
                other = self.unit_of[child]
                if other != unit:
                    parents[unit][other] = None
        return [list(found) for found in parents]

    def order(self) -> tuple[list[int], list[int]]:
        """The units, parents first, in the order of visiting; and the units of a cycle, or none."""
        state = bytearray(len(self.region))  # 0 new, 1 open, 2 done
        done: list[int] = []
        for start in range(len(self.region)):
            if state[start]:
                continue
            state[start] = 1
            path: list[tuple[int, Iterator[int]]] = [(start, iter(self.parents[start]))]
            while path:
                unit, pending = path[-1]
                parent = next((p for p in pending if state[p] != 2), None)
                if parent is None:
                    state[unit] = 2
                    done.append(unit)
                    path.pop()
                elif state[parent] == 1:
                    units = [u for u, _ in path]
                    return done, units[units.index(parent):]
                else:
                    state[parent] = 1
                    path.append((parent, iter(self.parents[parent])))
        return done, []

    def scopes(self) -> list[int]:
        """For each unit where it is evaluated: equal numbers are the same function, branch or let body.

        A node used in several places belongs to the innermost place around them all.
        """
        tree = AncestorTree()
        scope: dict[RelayExpr, int] = {}
        for node in reversed(self.nodes):
            here = scope.setdefault(node, 0)
            inner = _SCOPED.get(type(node), ())
            for child in open_children(node):
                opened = any(child is getattr(node, name) for name in inner)
                seen_from = tree.add(here) if opened else here
                known = scope.get(child)
                scope[child] = seen_from if known is None else tree.common_ancestor(known, seen_from)
        return [scope[node] for node in self.first]


# node class -> the fields that are evaluated apart from the rest of the graph
_SCOPED: dict[type, tuple[str, ...]] = {
    Function: ("body",),
    If: ("true_branch", "false_branch"),
    Let: ("body",),
}
