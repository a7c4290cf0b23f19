"""A graph with numbers: post-order, users, post-dominators and nodes by what they are, each made when first needed.

One index serves every pattern that is tried on the same graph. Source: Relay's ``IndexedGraph``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.relay.dataflow_pattern.dominators import PostDominators
from byoc.relay.expr import Call, Function
from byoc.relay.traverse import children, post_order

PARTITIONED = "PartitionedFromPattern"
# what a node is, as far as it is known without looking below it: a call's operator, or the node's class
RootKey = Op | type


def root_key(node: RelayExpr) -> RootKey:
    """What *node* is: the operator that it calls, else its class."""
    return node.op if type(node) is Call and type(node.op) is Op else type(node)


class IndexedGraph:
    """The nodes under *root* in post-order: ``nodes[index[n]] is n``, and a node comes after all that it uses."""

    def __init__(self, root: RelayExpr):
        self.root = root
        self.nodes: list[RelayExpr] = list(post_order(root))

    @cached_property
    def index(self) -> dict[RelayExpr, int]:
        """The number of each node."""
        return {node: number for number, node in enumerate(self.nodes)}

    @cached_property
    def users(self) -> list[list[int]]:
        """For each number the numbers of the nodes that use it, ascending; a user of two arguments stands twice."""
        users: list[list[int]] = [[] for _ in self.nodes]
        index = self.index
        for number, node in enumerate(self.nodes):
            for child in children(node):
                users[index[child]].append(number)
        return users

    def users_of(self, number: int) -> list[int]:
        """The numbers of the nodes that use node *number*, ascending."""
        return self.users[number]

    @cached_property
    def post_dominators(self) -> PostDominators:
        """The tree that says through which nodes the uses of a node must pass."""
        return PostDominators(self.users)

    @cached_property
    def _by_key(self) -> dict[RootKey, list[int]]:
        found: dict[RootKey, list[int]] = {}
        for number, node in enumerate(self.nodes):
            found.setdefault(root_key(node), []).append(number)
        return found

    @cached_property
    def partitioned(self) -> set[RelayExpr]:
        """The functions that a pattern made, and what is in them: no pattern looks there again."""
        made = [n for n in self.nodes if type(n) is Function and PARTITIONED in n.attrs]
        return {node for func in made for node in (func, *post_order(func.body))}

    def candidates(self, keys: Iterable[RootKey] | None) -> list[int]:
        """The numbers of the nodes with one of *keys* (of all nodes for None), from the last to the first."""
        if keys is None:
            return list(range(len(self.nodes) - 1, -1, -1))
        return sorted((n for key in keys for n in self._by_key.get(key, ())), reverse=True)

    def dominates(self, above: RelayExpr, node: RelayExpr) -> bool:
        """True when all that uses *node* flows into *above*, another node."""
        return self.post_dominators.dominates(self.index[above], self.index[node])
