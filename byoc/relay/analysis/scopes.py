"""The scope in which each expression of a graph is to be evaluated.

A branch, a clause, the body of a function and a let each open a scope. An expression belongs to the innermost scope
that holds all its uses; one that is used in several branches therefore belongs above them. Source: ``CalcScope`` and
``DependencyGraph`` of Relay (``to_a_normal_form.cc``); common ancestors by jump pointers, so that the work is n log n.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.op import Op
from byoc.relay.adt import Match
from byoc.relay.analysis.ancestor_tree import AncestorTree
from byoc.relay.expr import Function, If, Let, Var
from byoc.relay.traverse import children

# what is named and not evaluated: its scope does not matter
NAMES = (Op, GlobalVar, Constructor, Var)


def scope_children(node: RelayExpr) -> Sequence[RelayExpr]:
    """The sub-expressions of *node*; a function that is a unit (``Primitive``) has none."""
    return () if isinstance(node, Function) and node.attrs.get("Primitive") else children(node)


class Scopes:
    """For each node under *root* its scope; for each that opens scopes, these; and what was *lifted*.

    An expression is lifted when its scope is not that of its first use.
    """

    def __init__(self, root: RelayExpr):
        self.tree = AncestorTree()
        self.of: dict[RelayExpr, int] = {root: 0}
        self.opened: dict[RelayExpr, tuple[int, ...]] = {}
        self.lifted: dict[RelayExpr, None] = {}
        order, first_use = _walk(root)
        uses: dict[RelayExpr, list[int]] = {root: [0]}
        first: dict[RelayExpr, int] = {root: 0}
        for node in reversed(order):
            self._place(node, uses.pop(node), first[node])
            for slot, (child, scope) in enumerate(self._inner(node)):
                uses.setdefault(child, []).append(scope)
                if first_use[child] == (node, slot):
                    first[child] = scope

    def _place(self, node: RelayExpr, scopes: list[int], first: int) -> None:
        scope = scopes[0]
        for other in scopes[1:]:
            scope = self.tree.common_ancestor(scope, other)
        self.of[node] = scope
        if scope != first and not isinstance(node, NAMES):
            self.lifted[node] = None

    def _inner(self, node: RelayExpr) -> list[tuple[RelayExpr, int]]:
        """The sub-expressions of *node* with the scope in which it uses each."""
        here = self.of[node]
        inner = scope_children(node)
        if isinstance(node, If):
            scopes = [here, *self._open(node, 2)]
        elif isinstance(node, (Function, Let)) and inner:
            scopes = list(self._open(node, 1)) * len(inner)
        elif isinstance(node, Match):
            opened = self._open(node, len(node.clauses))
            scopes = [here] * (len(inner) - len(opened)) + list(opened)
        else:
            scopes = [here] * len(inner)
        return list(zip(inner, scopes, strict=True))

    def _open(self, node: RelayExpr, count: int) -> tuple[int, ...]:
        self.opened[node] = tuple(self.tree.add(self.of[node]) for _ in range(count))
        return self.opened[node]


def _walk(root: RelayExpr) -> tuple[list[RelayExpr], dict[RelayExpr, tuple[RelayExpr, int]]]:
    """The nodes under *root* in post-order, and for each the user, with the place in it, that came to it first."""
    order: list[RelayExpr] = []
    first_use: dict[RelayExpr, tuple[RelayExpr, int]] = {}
    seen = {root}
    stack = [(root, scope_children(root), 0)]
    while stack:
        node, inner, slot = stack.pop()
        if slot == len(inner):
            order.append(node)
            continue
        stack.append((node, inner, slot + 1))
        child = inner[slot]
        if child not in seen:
            seen.add(child)
            first_use[child] = (node, slot)
            stack.append((child, scope_children(child), 0))
    return order, first_use
