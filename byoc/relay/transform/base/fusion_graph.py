"""The graph that operator fusion looks at: who uses a value and how, and the post-dominator of each node.

Nodes are numbered in post-order, so a user's number is always higher than that of what it uses. A node that is used
by something which cannot be part of a kernel (a let, a branch, the end of a function) is *extern*: nothing dominates
it. Source: ``IndexedForwardGraph`` and ``DominatorTree`` of Relay; ancestors are found by jump pointers (Myers,
"An applicative random-access stack", 1983), so that graphs of any shape take n log n steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.op import Op, OpPattern
from byoc.ir.types import Any, Dim, TensorType, TupleType, Type
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem
from byoc.relay.op.core.builder import takes_dtypes
from byoc.relay.traverse import children, post_order

ELEMWISE, BROADCAST, INJECTIVE = int(OpPattern.ELEMWISE), int(OpPattern.BROADCAST), int(OpPattern.INJECTIVE)
COMM_REDUCE, OUT_FUSABLE = int(OpPattern.COMM_REDUCE), int(OpPattern.OUT_ELEMWISE_FUSABLE)
TUPLE, OPAQUE = int(OpPattern.TUPLE), int(OpPattern.OPAQUE)

# functions that other parts compile as a whole: fusion does not look inside
_UNITS = ("Primitive", "Composite", "Compiler")


class FusionNode:
    """A node of the fusion graph: its number, its kind of operator, and its users with the kind of each use."""

    __slots__ = ("extern", "index", "pattern", "ref", "users")

    def __init__(self, index: int, ref: RelayExpr, pattern: int):
        self.index, self.ref, self.pattern = index, ref, pattern
        self.extern = False
        self.users: list[tuple[FusionNode, int]] = []


def fusion_children(expr: RelayExpr) -> Sequence[RelayExpr]:
    """The sub-expressions of *expr*, without the inside of functions that are a unit of their own."""
    if isinstance(expr, Function) and any(expr.attrs.get(key) for key in _UNITS):
        return ()
    return children(expr)


def uncompiled_children(expr: RelayExpr) -> Sequence[RelayExpr]:
    """The sub-expressions of *expr*, those of composites too, without the inside of compiled functions."""
    if isinstance(expr, Function) and any(expr.attrs.get(key) for key in ("Primitive", "Compiler")):
        return ()
    return children(expr)


def is_scalar_constant(expr: RelayExpr) -> bool:
    """True for a constant that is written into the code of a kernel rather than passed to it."""
    return isinstance(expr, Constant) and expr.data.ndim == 0 and expr.data.dtype != "string"


@dataclass(frozen=True)
class FusionRules:
    """What may be fused: with *dynamic* values of unknown size too; *max_function_args* of a function (0: any)."""

    dynamic: bool = False
    max_function_args: int = 0

    def allows(self, ty: Type | None) -> bool:
        """True when a kernel may compute values of that type."""
        if isinstance(ty, TensorType):
            return (self.dynamic or ty.is_symbolic) and ty.dtype != "string"
        return isinstance(ty, TupleType) and all(map(self.allows, ty.fields))


GENERATED = FusionRules()  # what code can be generated for


def call_pattern(call: Call, rules: FusionRules = GENERATED) -> int:
    """How a call may be fused: as its operator, but not where a numpy kernel has to run it.

    That is the case for operators without a tensor expression for the dtypes, and for types that *rules* do not allow.
    """
    op = call.op
    if not isinstance(op, Op) or op.compute is None:
        return OPAQUE
    types = [arg.checked_type for arg in call.args]
    if not all(map(rules.allows, (call.checked_type, *types))) or not takes_dtypes(op, call.attrs, types):
        return OPAQUE
    return int(op.get_attr("TOpPattern"))


def _node_pattern(expr: RelayExpr, rules: FusionRules) -> int:
    if isinstance(expr, Call):
        return call_pattern(expr, rules)
    if isinstance(expr, Tuple):
        return TUPLE
    if isinstance(expr, TupleGetItem):
        return INJECTIVE if rules.allows(expr.tuple_value.checked_type) else OPAQUE
    return ELEMWISE if is_scalar_constant(expr) else OPAQUE


def _is_same(a: Dim, b: Dim) -> bool:
    """Whether two dimensions count as equal: one ``?`` does as another."""
    return a == b or (isinstance(a, Any) and isinstance(b, Any) and not a.name and not b.name)


def _have_one_shape(a: Type, b: Type) -> bool:
    if not isinstance(a, TensorType) or not isinstance(b, TensorType) or a.ndim != b.ndim:
        return False
    return all(map(_is_same, a.shape, b.shape))


def _uses(expr: RelayExpr, pattern: int, rules: FusionRules) -> Iterator[tuple[RelayExpr, int | None]]:
    """The sub-expressions of *expr* with the kind of their use; None where it makes them extern."""
    if isinstance(expr, Call) and isinstance(expr.op, Op):
        result = expr.checked_type
        for arg in expr.args:
            elementwise = pattern == BROADCAST and _have_one_shape(arg.checked_type, result)
            yield arg, ELEMWISE if elementwise else pattern
    elif isinstance(expr, Call):
        for child in children(expr):
            yield child, OPAQUE
    elif isinstance(expr, Tuple):
        for field in expr.fields:
            yield field, INJECTIVE if rules.allows(field.checked_type_) else None
    elif isinstance(expr, TupleGetItem):
        yield expr.tuple_value, INJECTIVE if pattern == INJECTIVE else None
    else:
        for child in fusion_children(expr):
            yield child, None


def build_graph(root: RelayExpr, rules: FusionRules = GENERATED) -> list[FusionNode]:
    """The fusion graph under *root*, which has been typed; operators and global names are no nodes."""
    nodes: list[FusionNode] = []
    by_ref: dict[RelayExpr, FusionNode] = {}
    for expr in post_order(root, fusion_children):
        node = by_ref[expr] = FusionNode(len(nodes), expr, _node_pattern(expr, rules))
        nodes.append(node)
        for child, kind in _uses(expr, node.pattern, rules):
            if isinstance(child, (Op, GlobalVar)):
                continue
            if kind is None:
                by_ref[child].extern = True
            else:
                by_ref[child].users.append((node, kind))
    nodes[-1].extern = True
    return nodes


class Dominator:
    """A node of the post-dominator tree.

    ``pattern`` is the strongest kind of use on any path from the node to its parent; ``jump_pattern`` the strongest
    on the path to ``jump``, an ancestor further up.
    """

    __slots__ = ("depth", "jump", "jump_pattern", "node", "parent", "pattern")

    def __init__(self, node: FusionNode, parent: Dominator | None, pattern: int):
        self.node, self.parent, self.pattern = node, parent, pattern
        if parent is None:
            self.depth, self.jump, self.jump_pattern = 1, self, pattern
            return
        self.depth = parent.depth + 1
        far = parent.jump
        if parent.depth - far.depth == far.depth - far.jump.depth:
            self.jump = far.jump
            self.jump_pattern = max(pattern, parent.jump_pattern, far.jump_pattern)
        else:
            self.jump, self.jump_pattern = parent, pattern


def _climb(tree: Dominator, stop: Callable[[Dominator], bool]) -> tuple[Dominator, int]:
    """The first node at or above *tree* where *stop* holds (it must hold above it too), and the strongest use."""
    pattern = ELEMWISE
    while not stop(tree):
        if tree.parent is None:
            break
        if stop(tree.jump):
            pattern, tree = max(pattern, tree.pattern), tree.parent
        else:
            pattern, tree = max(pattern, tree.jump_pattern), tree.jump
    return tree, pattern


def _common_ancestor(a: Dominator, b: Dominator) -> tuple[Dominator | None, int]:
    """The lowest common ancestor of two nodes, or None, with the strongest use on the paths to it."""
    if a.depth < b.depth:
        a, b = b, a
    a, pattern = _climb(a, lambda t: t.depth <= b.depth)
    while a is not b:
        if a.parent is None or b.parent is None:
            return None, OPAQUE
        if a.jump is b.jump:
            pattern = max(pattern, a.pattern, b.pattern)
            a, b = a.parent, b.parent
        else:
            pattern = max(pattern, a.jump_pattern, b.jump_pattern)
            a, b = a.jump, b.jump
    return a, pattern


def post_dominators(nodes: Sequence[FusionNode]) -> list[Dominator]:
    """The post-dominator tree: each node's parent is the first that every way out of the node passes."""
    tree: dict[int, Dominator] = {}
    for node in reversed(nodes):
        parent: Dominator | None = None
        pattern = OPAQUE
        if not node.extern and node.users:
            first, pattern = node.users[0]
            parent = tree[first.index]
            for user, kind in node.users[1:]:
                parent, way = _common_ancestor(parent, tree[user.index])
                if parent is None:
                    break
                pattern = max(pattern, kind, way)
        tree[node.index] = Dominator(node, parent, pattern)
    return [tree[index] for index in range(len(nodes))]
