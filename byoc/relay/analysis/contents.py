"""What a function holds anywhere: found by one walk, which all who ask whether there is something for them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from byoc.ir.op import Op
from byoc.relay.expr import Call, Function
from byoc.relay.traverse import post_order

T = TypeVar("T")


@dataclass(frozen=True)
class Contents:
    """The operators that are called in a function, its inner functions included, the classes of the nodes inside of it,
    and what else its calls are of, by class.
    """

    operators: frozenset[Op]
    nodes: frozenset[type]
    callees: frozenset[type]

    def has_operator(self, name: str) -> bool:
        """Whether the operator *name* is called."""
        return any(op.name == name for op in self.operators)

    def has_attribute(self, key: str) -> bool:
        """Whether an operator with the attribute *key* is called."""
        return any(op.has_attr(key) for op in self.operators)


def kept_with(function: Function, find: Callable[[Function], T]) -> T:
    """What *find* says of *function*; kept with it, since it does not change."""
    if find not in function.facts:
        function.facts[find] = find(function)
    return cast(T, function.facts[find])


def contents_of(function: Function) -> Contents:
    """What *function* holds; kept with it."""
    return kept_with(function, _contents)


def _contents(function: Function) -> Contents:
    operators: set[Op] = set()
    nodes: set[type] = set()
    callees: set[type] = set()
    for node in post_order(function):
        if node is not function:
            nodes.add(type(node))
        if isinstance(node, Call):
            if isinstance(node.op, Op):
                operators.add(node.op)
            else:
                callees.add(type(node.op))
    return Contents(frozenset(operators), frozenset(nodes), frozenset(callees))
