"""A function's expressions by post-order index, with what flows where: the ground that sub-graphs are cut from.

The index of a node is its place in post-order where a callee (an operator too, once) comes before the arguments, and
the value of a let before its variable. Every node has an index. Edges follow data: a parameter reaches its uses, not
the function that binds it. Source: Collage's ``DataflowGraph`` and Relay's ``IndexedGraph<Expr>``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from byoc.annex.collage.index_set import IndexSet, indexes_of
from byoc.ir.expr import RelayExpr
from byoc.relay.dataflow_pattern.dominators import PostDominators
from byoc.relay.dataflow_pattern.indexed_graph import IndexedGraph
from byoc.relay.expr import Call, Function, If, Let
from byoc.relay.traverse import children, post_order

Block = tuple[int, int]


def visited_before(expr: RelayExpr) -> Sequence[RelayExpr]:
    """The sub-expressions of *expr* in the order of the indexes, operators included."""
    if type(expr) is Call:
        return (expr.op, *expr.args)
    if type(expr) is Let:
        return (expr.value, expr.variable, expr.body)
    return children(expr)


def flows_from(expr: RelayExpr) -> Sequence[RelayExpr]:
    """The sub-expressions whose values *expr* uses: not the parameters of a function, nor the variable of a let."""
    if type(expr) is Function:
        return (expr.body,)
    if type(expr) is Let:
        return (expr.body,)
    return visited_before(expr)


class DataflowGraph:
    """The nodes of *expr*, whose types are inferred: ``nodes[index[n]] is n``; ``expr`` itself is the last."""

    def __init__(self, expr: RelayExpr):
        self.expr = expr
        self.nodes: list[RelayExpr] = list(post_order(expr, visited_before))
        self.index: dict[RelayExpr, int] = {node: number for number, node in enumerate(self.nodes)}
        self.inputs: list[IndexSet] = [0] * len(self.nodes)
        self.outputs: list[IndexSet] = [0] * len(self.nodes)
        for number, node in enumerate(self.nodes):
            for source in flows_from(node):
                self._add_edge(self.index[source], number)
            if type(node) is Let:
                self._add_edge(self.index[node.value], self.index[node.variable])

    def _add_edge(self, source: int, sink: int) -> None:
        if source < sink:  # the use of a recursive function inside itself is no flow
            self.inputs[sink] |= 1 << source
            self.outputs[source] |= 1 << sink

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def external(self) -> int:
        """The index of the node whose value is the result."""
        return len(self.nodes) - 1

    @cached_property
    def downstream(self) -> list[IndexSet]:
        """For each index all indexes that its value reaches."""
        reached: list[IndexSet] = [0] * len(self.nodes)
        for number in range(len(self.nodes) - 1, -1, -1):
            for sink in indexes_of(self.outputs[number]):
                reached[number] |= (1 << sink) | reached[sink]
        return reached

    @cached_property
    def upstream(self) -> list[IndexSet]:
        """For each index all indexes whose values reach it."""
        reached: list[IndexSet] = [0] * len(self.nodes)
        for number in range(len(self.nodes)):
            for source in indexes_of(self.inputs[number]):
                reached[number] |= (1 << source) | reached[source]
        return reached

    @cached_property
    def matching(self) -> IndexedGraph:
        """The same expression as the pattern matcher wants it."""
        return IndexedGraph(self.expr)

    @cached_property
    def post_dominators(self) -> PostDominators:
        """The tree that says through which nodes a value must pass."""
        return PostDominators([list(indexes_of(sinks)) for sinks in self.outputs])

    @cached_property
    def blocks(self) -> list[Block]:
        """For each index its basic block: the innermost function or branch that is left only at its end."""
        return _Blocks(self).of


class _Blocks:
    """The basic blocks, from the outermost inwards: a node that two blocks use belongs to the one around both."""

    def __init__(self, graph: DataflowGraph):
        outermost: Block = (-1, 0)
        self._around: dict[Block, tuple[int, Block]] = {outermost: (0, outermost)}
        found: list[Block | None] = [None] * len(graph)
        for number in range(len(graph) - 1, -1, -1):
            node = graph.nodes[number]
            mine = found[number] = found[number] or outermost
            for part in visited_before(node):
                inner = self._block_of_part(node, part, number, mine)
                known = found[graph.index[part]]
                found[graph.index[part]] = inner if known is None else self._common(known, inner)
        self.of: list[Block] = [block or outermost for block in found]

    def _block_of_part(self, node: RelayExpr, part: RelayExpr, number: int, mine: Block) -> Block:
        """The block of *part* as far as its use by *node* says."""
        branch = 0
        if type(node) is If:
            branch = 0 if part is node.cond else 1 + (part is node.false_branch)
        elif type(node) is Function:
            branch = 1
        if not branch:
            return mine
        self._around.setdefault((number, branch), (self._around[mine][0] + 1, mine))
        return number, branch

    def _common(self, one: Block, other: Block) -> Block:
        while one != other:
            if self._around[one][0] >= self._around[other][0]:
                one = self._around[one][1]
            else:
                other = self._around[other][1]
        return one


def neighbours(edges: Sequence[IndexSet], inside: IndexSet) -> IndexSet:
    """All that *edges* (``inputs`` or ``outputs`` of a graph) lead to from the indexes in *inside*."""
    result = 0
    for number in indexes_of(inside):
        result |= edges[number]
    return result
