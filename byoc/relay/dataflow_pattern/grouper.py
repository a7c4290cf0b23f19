"""The grouper: disjoint matches of a pattern in a graph, outermost first, each with its inputs and its interior.

Invariant: no interior node belongs to two groups, and none but the root is used outside its group, unless all that
uses it flows into the root. Work is linear in the number of candidates times the size of a match. Source: Relay's
``PatternGrouper``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.relay.dataflow_pattern import patterns as p
from byoc.relay.dataflow_pattern.indexed_graph import IndexedGraph
from byoc.relay.dataflow_pattern.matcher import Matcher, Memo
from byoc.relay.dataflow_pattern.pattern_graph import graph_of
from byoc.relay.expr import Constant, Function, Var
from byoc.relay.traverse import children, post_order


@dataclass(frozen=True)
class MatchedGroup:
    """One match: its root, what each part of the pattern matched, the parameters by input, the nodes in post-order."""

    root: RelayExpr
    matched: Memo
    inputs: dict[RelayExpr, Var]
    interior: tuple[RelayExpr, ...]


class Grouper:
    """Finds the groups of *pattern* in *graph*: ``groups`` by root. *overlapping*: every match, disjoint or not."""

    def __init__(self, pattern: p.DFPattern, graph: IndexedGraph, overlapping: bool = False):
        self._overlapping = overlapping
        self.graph = graph
        self.groups: dict[RelayExpr, MatchedGroup] = {}
        self._matcher = Matcher(graph)
        looked_at = graph_of(pattern)
        self._open, self._fuzzy_parts = looked_at.open_parts, looked_at.fuzzy_parts
        self._taken: set[RelayExpr] = set()
        self._count = 0
        for number in graph.candidates(looked_at.root_keys):
            node = graph.nodes[number]
            if node in self._taken or node in graph.partitioned:
                continue
            if looked_at.arguments.admits(node) and self._matcher.match(pattern, node):
                self._group(node)

    def _group(self, root: RelayExpr) -> None:
        memo = self._matcher.memo
        inputs: dict[RelayExpr, Var] = {}
        fuzzy = self._fuzzy(memo)
        for part, node in self._leaf_matches(memo):
            if node not in inputs and node not in fuzzy and not isinstance(node, (Op, Function)):
                if not (isinstance(node, Constant) and _embeds(part)):
                    inputs[node] = self._parameter(node, len(inputs))
        self._count += 1
        interior = tuple(n for n in post_order(root, lambda e: () if e in inputs else children(e)) if n not in inputs)
        if self._is_valid(root, interior):
            if not self._overlapping:
                self._taken.update(interior)
            self.groups[root] = MatchedGroup(root, memo, inputs, interior)

    def _parameter(self, node: RelayExpr, index: int) -> Var:
        return Var(f"FunctionVar_{self._count}_{index}", span=node.span)

    def _fuzzy(self, memo: Memo) -> set[RelayExpr]:
        """The nodes that are no inputs although a leaf matched them: on dominated paths and inside functions."""
        fuzzy: set[RelayExpr] = set()
        for part in self._fuzzy_parts:
            if isinstance(part, p.DominatorPattern):
                fuzzy.update(memo.get(part.parent, ()))
                fuzzy.update(memo.get(part.path, ()))
            else:
                for func in memo.get(part, ()):
                    fuzzy.update(post_order(func))
        return fuzzy

    def _leaf_matches(self, memo: Memo) -> Iterator[tuple[p.DFPattern, RelayExpr]]:
        """What the pattern leaves open, with the part that left it, in the order of the parameters."""
        for part, leaves in self._open:
            for node in memo.get(part, ()):
                for leaf in leaves(node):
                    yield part, leaf

    def _is_valid(self, root: RelayExpr, interior: tuple[RelayExpr, ...]) -> bool:
        inside = set(interior)
        graph = self.graph
        for node in interior:
            if isinstance(node, (Function, Constant)):
                continue
            if node in self._taken:
                return False
            if node is root:
                continue
            place = graph.index.get(node)
            if place is None:  # inside of what another pattern made, where nothing else reaches
                continue
            for number in graph.users_of(place):
                user = graph.nodes[number]
                if user not in inside and not graph.dominates(root, user):
                    return False
        return True


def _embeds(part: p.DFPattern) -> bool:
    """True when a constant that *part* matched stays inside: the pattern says that it is one."""
    return isinstance(part, p.ConstantPattern) or (isinstance(part, p.ExprPattern) and isinstance(part.expr, Constant))
