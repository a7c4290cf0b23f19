"""A private copy of a graph in which matches are replaced in place, so that many patterns share one index.

Making a graph anew for each pattern costs the whole graph each time; here a replacement costs its own size and its
users. Invariant: the copy belongs to this object alone until it is handed out as ``root``; numbers keep saying that a
node comes after all that it uses, a node that is gone has no users, and nodes inside of what was made have no numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from byoc.ir.expr import RelayExpr
from byoc.relay.adt import Clause, Match
from byoc.relay.dataflow_pattern.dominators import PostDominators
from byoc.relay.dataflow_pattern.indexed_graph import IndexedGraph, RootKey, root_key
from byoc.relay.expr import Call, Function, If, Let, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem
from byoc.relay.traverse import REBUILD, children, post_order


def private_copy(root: RelayExpr) -> RelayExpr:
    """*root* with every node made again, types and spans kept; variables, constants and names stay themselves."""
    memo: dict[RelayExpr, RelayExpr] = {}
    for node in post_order(root):
        make = REBUILD.get(type(node))
        if make is None:
            memo[node] = node
            continue
        copy = make(node, [memo[c] for c in children(node)])
        copy._checked_type = node._checked_type
        memo[node] = copy
    return memo[root]


class MutableGraph(IndexedGraph):
    """The indexed copy of the graph under *root*; :meth:`replace` changes it."""

    def __init__(self, root: RelayExpr):
        super().__init__(private_copy(root))
        self._gone: set[int] = set()

    def candidates(self, keys: Iterable[RootKey] | None) -> list[int]:
        """The numbers of the nodes that are still there with one of *keys*, from the last to the first."""
        nodes, gone = self.nodes, self._gone
        if keys is None:
            return [n for n in range(len(nodes) - 1, -1, -1) if n not in gone]
        found = [n for key in keys for n in self._by_key.get(key, ()) if n not in gone and root_key(nodes[n]) is key]
        return sorted(found, reverse=True)

    def replace(self, interior: Sequence[RelayExpr], inputs: Iterable[RelayExpr], new: Call) -> None:
        """Let *new*, which reads *inputs*, stand for the last node of *interior*, which is in post-order.

        The others of *interior* are gone, but for those that something else uses.
        """
        index, users, root = self.index, self.users, interior[-1]
        number = index.pop(root)
        for user in dict.fromkeys(users[number]):
            replace_child(self.nodes[user], root, new)
        self.nodes[number] = new
        index[new] = number
        self._by_key.setdefault(root_key(new), []).append(number)
        if root is self.root:
            self.root = new
        self._retire(interior[:-1], number)
        for node in inputs:
            place = index.get(node)
            if place is not None:
                users[place].append(number)  # those that are gone are left out when the list is read
        self.__dict__.pop("post_dominators", None)

    def users_of(self, number: int) -> list[int]:
        """The numbers of the nodes that use node *number*."""
        return [user for user in self.users[number] if user not in self._gone]

    @cached_property
    def post_dominators(self) -> PostDominators:
        """The tree that says through which nodes the uses of a node must pass, as the graph is now."""
        return PostDominators([self.users_of(number) for number in range(len(self.nodes))])

    def _retire(self, interior: Sequence[RelayExpr], number: int) -> None:
        for node in reversed(interior):
            place = self.index.get(node)
            if place is None:
                continue
            self.users[place] = [user for user in self.users_of(place) if user != number]
            if not self.users[place]:
                self._gone.add(place)


def replace_child(node: RelayExpr, old: RelayExpr, new: RelayExpr) -> None:
    """Let *node*, which nobody else has seen yet, read *new* where it reads *old*."""
    _REPLACE[type(node)](node, lambda e: new if e is old else e)


_Swap = Callable[[RelayExpr], RelayExpr]


def _in_call(node: Call, swap: _Swap) -> None:
    node.op, node.args = swap(node.op), tuple(map(swap, node.args))


def _in_match(node: Match, swap: _Swap) -> None:
    node.data = swap(node.data)
    node.clauses = tuple(Clause(c.lhs, swap(c.rhs)) for c in node.clauses)


def _in_fields(*names: str) -> Callable[[RelayExpr, _Swap], None]:
    def replace(node: RelayExpr, swap: _Swap) -> None:
        for name in names:
            setattr(node, name, swap(getattr(node, name)))

    return replace


def _in_tuple(node: Tuple, swap: _Swap) -> None:
    node.fields = tuple(map(swap, node.fields))


# node class -> how its sub-expressions are replaced; those that are bound variables never are
_REPLACE: dict[type, Callable[..., None]] = {
    Call: _in_call,
    Tuple: _in_tuple,
    Match: _in_match,
    TupleGetItem: _in_fields("tuple_value"),
    Function: _in_fields("body"),
    Let: _in_fields("value", "body"),
    If: _in_fields("cond", "true_branch", "false_branch"),
    RefCreate: _in_fields("value"),
    RefRead: _in_fields("ref"),
    RefWrite: _in_fields("ref", "value"),
}
