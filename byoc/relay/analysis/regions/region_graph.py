"""The contracted graph of a function: its regions, and each node outside them, as units that depend on one another.

A unit is a region or a single node. Units are convex and can run one after another exactly when this graph has no
cycle. A variable that a ``let`` binds depends on its value. A let-bound function may refer to itself, and its variable
has no such edge: what it captures is evaluated outside the let's body (see ``scopes``). The inside of a composite is
no part of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.relay.adt import Match
from byoc.relay.analysis.ancestor_tree import AncestorTree
from byoc.relay.analysis.regions.annotated_regions import AnnotatedRegion, AnnotatedRegionSet, open_children
from byoc.relay.expr import Call, Function, If, Let, Var
from byoc.relay.traverse import children


class RegionGraph:
    """Units by number: ``unit_of`` each node, the ``region`` of each unit (or None), and its ``parents``."""

    def __init__(self, func: Function):
        self.regions = AnnotatedRegionSet(func)
        self.nodes = self.regions.nodes
        self.unit_of: dict[RelayExpr, int] = {}
        self.region: list[AnnotatedRegion | None] = []
        self.first: list[RelayExpr] = []
        self._of_region: dict[AnnotatedRegion, list[RelayExpr]] = {}
        get_region, unit_of, of_region = self.regions.get_region, self.unit_of, self._of_region
        for node in self.nodes:
            region = get_region(node)
            members = of_region.get(region) if region is not None else None
            if members is not None:
                unit_of[node] = unit_of[members[0]]
                members.append(node)
                continue
            unit_of[node] = len(self.region)
            self.region.append(region)
            self.first.append(node)
            if region is not None:
                of_region[region] = [node]
        self.parents = self._collect_parents()
        self._order: tuple[list[int], list[int]] | None = None

    def region_nodes(self, region: AnnotatedRegion) -> list[RelayExpr]:
        """The nodes of *region*, its begins and ends among them, in post-order."""
        return self._of_region[region]

    def _collect_parents(self) -> list[list[int]]:
        parents: list[dict[int, None]] = [{} for _ in self.region]
        bound = {n.variable: n.value for n in self.nodes if isinstance(n, Let) and not isinstance(n.value, Function)}
        unit_of = self.unit_of
        for node in self.nodes:
            if type(node) is Call and type(node.op) is Op:
                needed: Sequence[RelayExpr] = node.args
            else:
                needed = (bound[node],) if type(node) is Var and node in bound else open_children(node)
            unit = unit_of[node]
            for child in needed:
                other = unit_of[child]
                if other != unit:
                    parents[unit][other] = None
        return [list(found) for found in parents]

    def order(self) -> tuple[list[int], list[int]]:
        """The units, parents first, in the order of visiting; and the units of a cycle, or none."""
        if self._order is None:
            self._order = self._find_order()
        return self._order

    def _find_order(self) -> tuple[list[int], list[int]]:
        state = bytearray(len(self.region))  # 0 new, 1 open, 2 done
        done: list[int] = []
        for start in range(len(self.region)):
            stack = [start]  # ~u stands for the end of unit u, above which its parents are
            while stack:
                unit = stack.pop()
                if unit < 0:
                    state[~unit] = 2
                    done.append(~unit)
                elif state[unit] == 0:
                    state[unit] = 1
                    stack.append(~unit)
                    stack += self.parents[unit][::-1]
                elif state[unit] == 1:
                    path = [~u for u in stack if u < 0]
                    return done, path[path.index(unit) :]
        return done, []

    def scopes(self) -> list[int]:
        """For each unit where it is evaluated: equal numbers are the same function, branch or let body.

        A node used in several places belongs to the innermost place around them all.
        """
        root = self.nodes[-1]
        if all(node is root or type(node) not in _SCOPED or not open_children(node) for node in self.nodes):
            outside = {root, *children(root)[:-1]}  # one body, and nothing inside it is apart
            return [int(node not in outside) for node in self.first]
        tree = AncestorTree()
        scope: dict[RelayExpr, int] = {}
        for node in reversed(self.nodes):
            here = scope.setdefault(node, 0)
            apart = _SCOPED.get(type(node))
            inner = apart(node) if apart is not None else ()
            for child in open_children(node):
                opened = any(child is part for part in inner)
                seen_from = tree.add(here) if opened else here
                known = scope.get(child)
                if known is None:
                    scope[child] = seen_from
                elif known != seen_from:
                    scope[child] = tree.common_ancestor(known, seen_from)
        return [scope[node] for node in self.first]


# node class -> the sub-expressions that are evaluated apart from the rest of the graph
_SCOPED: dict[type, Callable[..., Sequence[RelayExpr]]] = {
    Function: lambda e: (e.body,),
    If: lambda e: (e.true_branch, e.false_branch),
    Let: lambda e: (e.body,),
    Match: lambda e: tuple(clause.rhs for clause in e.clauses),
}
