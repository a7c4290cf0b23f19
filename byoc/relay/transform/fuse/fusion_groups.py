"""Which nodes of the fusion graph become one kernel. Source: ``GraphPartitioner`` of Relay.

Invariant: when a node joins its post-dominator, everything on the paths between joins too, so that a group is convex:
no value leaves it and comes back. Three phases: elementwise tails join what computes sums (convolutions, products);
then injective operators (reshape, transpose, concatenate) join; last, injective operators join tuples that phase two
has fused into others. No group grows beyond a given number of nodes, which also bounds each search, so the whole is
linear in the size of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.errors import InternalError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.op import Op
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.transform.base.fusion_graph import (
    BROADCAST,
    COMM_REDUCE,
    ELEMWISE,
    INJECTIVE,
    OPAQUE,
    OUT_FUSABLE,
    TUPLE,
    Dominator,
    FusionNode,
    fusion_children,
    is_scalar_constant,
    post_dominators,
)

# (kind of a group, whether it is the sink) -> whether the path may pass it
Condition = Callable[[int, bool], bool]


class FusionGroup:
    """A set of nodes by union-find. The root of the set knows its kind, size, last node and anchor."""

    __slots__ = ("anchor", "index", "members", "parent", "pattern", "ref", "size")

    def __init__(self, node: FusionNode):
        self.parent: FusionGroup | None = None
        self.index, self.ref, self.pattern = node.index, node.ref, node.pattern
        self.anchor: RelayExpr | None = node.ref if node.pattern == OUT_FUSABLE else None
        self.size = 1
        self.members = [node.ref]

    def find(self) -> FusionGroup:
        """The root of the set, with the path to it made short."""
        root = self
        while root.parent is not None:
            root = root.parent
        here = self
        while here.parent is not None:
            here.parent, here = (root if here.parent is not root else here.parent), here.parent
        return root


def _merge(child: FusionGroup, parent: FusionGroup) -> None:
    child, parent = child.find(), parent.find()
    if child is parent:
        return
    parent.size += child.size
    parent.members += child.members
    child.parent = parent
    if child.anchor is not None:
        if parent.anchor is not None:
            raise InternalError("FuseOps: a group would have two anchors")
        parent.anchor = child.anchor
        parent.pattern = max(child.pattern, parent.pattern)


def _up_to_broadcast(kind: int, is_sink: bool) -> bool:
    return kind <= BROADCAST


def _up_to_injective(kind: int, is_sink: bool) -> bool:
    return kind <= INJECTIVE


def _into_anchor(kind: int, is_sink: bool) -> bool:
    """On the paths up to injective; the sink may be a reduction or hold a convolution already."""
    return kind <= INJECTIVE or (is_sink and kind in (COMM_REDUCE, OUT_FUSABLE))


class FusionPartitioner:
    """Grows the groups of one graph; *max_size* bounds the nodes of a group, *level* 0 leaves every node alone.

    *max_args* bounds the arguments of what a group becomes; 0 does not.
    """

    def __init__(self, nodes: Sequence[FusionNode], level: int, max_size: int, max_args: int = 0):
        self.nodes = nodes
        self.max_size, self.max_args = max_size, max_args
        self.groups = [FusionGroup(node) for node in nodes]
        if level <= 0:
            return
        self.tree = post_dominators(nodes)
        for phase in range(3):
            for node in nodes:
                dom = self.tree[node.index]
                if node.pattern != OPAQUE and dom.parent is not None:
                    self._visit(node, dom, dom.parent.node, phase)

    def _visit(self, node: FusionNode, dom: Dominator, sink: FusionNode, phase: int) -> None:
        target = self.groups[sink.index]
        root = target.find()
        if self.groups[node.index].find() is root:
            return
        kind = self.groups[node.index].pattern
        condition = self._condition(kind, dom.pattern, target.pattern, root.pattern, phase)
        if condition is None:
            return
        between = self._between(node, sink, self.max_size - root.size)
        if between is None:
            return
        on_way = all(condition(self.groups[n.index].find().pattern, False) for n in between[1:])
        if on_way and condition(root.pattern, True) and self._takes_few(between, root):
            for member in between:
                _merge(self.groups[member.index], target)

    def _takes_few(self, between: Sequence[FusionNode], root: FusionGroup) -> bool:
        """Whether *root*, joined with the groups of *between*, has no more arguments and outputs than there may be."""
        if not self.max_args:
            return True
        groups = {root, *(self.groups[node.index].find() for node in between)}
        inside = {member for group in groups for member in group.members}
        args = {child for member in inside for child in fusion_children(member)} - inside
        counted = [arg for arg in args if not isinstance(arg, (Op, GlobalVar)) and not is_scalar_constant(arg)]
        outputs = sum(1 + unknown_dims(ty) for ty in tensor_types(root.ref.checked_type))
        return sum(map(_argument_count, counted)) <= self.max_args - outputs

    @staticmethod
    def _condition(kind: int, way: int, sink: int, sink_root: int, phase: int) -> Condition | None:
        """What the paths to the post-dominator must satisfy; None where this phase does not try."""
        if phase == 2:
            tuple_inside = sink == TUPLE and sink_root <= INJECTIVE
            return _up_to_injective if kind <= INJECTIVE and tuple_inside else None
        if sink == TUPLE:
            return None
        if kind == OUT_FUSABLE:
            return _up_to_broadcast if phase == 0 and way == ELEMWISE else None
        if kind <= BROADCAST:
            return _into_anchor if way <= INJECTIVE or way == COMM_REDUCE else None
        if kind in (INJECTIVE, TUPLE):
            return _up_to_injective if phase == 1 else None
        return None

    def _between(self, source: FusionNode, sink: FusionNode, room: int) -> list[FusionNode] | None:
        """*source* and all nodes on the paths from it to *sink*, without that; None when they are more than *room*.

        Nodes that belong to groups count with the nodes of their group, as in Relay's bound on the size.
        """
        seen: dict[FusionNode, None] = {source: None}
        stack = [source]
        count = 0
        while stack:
            node = stack.pop()
            count += self.groups[node.index].size
            if count > room:
                return None
            for user, _ in node.users:
                if user is not sink and user not in seen:
                    seen[user] = None
                    if len(seen) > room:
                        return None
                    stack.append(user)
        return list(seen)


def unknown_dims(ty: TensorType) -> int:
    """How many dimensions of *ty* are no numbers."""
    return sum(not isinstance(d, int) for d in ty.shape)


def _argument_count(arg: RelayExpr) -> int:
    """What an argument takes of a function's: one a tensor; its sizes and strides too where some size is unknown."""
    unknown = [(ty, unknown_dims(ty)) for ty in tensor_types(arg.checked_type)]
    return sum(1 + (count + ty.ndim if count else 0) for ty, count in unknown)


def fusion_groups(
    nodes: Sequence[FusionNode], level: int, max_size: int, max_args: int = 0
) -> dict[RelayExpr, FusionGroup]:
    """The root group of each node of the graph."""
    partition = FusionPartitioner(nodes, level, max_size, max_args)
    return {node.ref: group.find() for node, group in zip(nodes, partition.groups, strict=True)}
