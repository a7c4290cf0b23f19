"""Making functions of sub-graphs, and calls of them in place of their nodes.

A function gets a parameter ``FunctionVar_<k>`` for each input, numbered as the inputs are met walking down from the
exits, of which the last is first, arguments from left to right; operators, functions and scalar constants are used as
they are. Several exits are a tuple, in the order of their indexes. Requires types; ensures them. Source: Collage's
``Extractor`` and ``Rewriter``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from byoc.annex.collage.dataflow_graph import DataflowGraph, visited_before
from byoc.annex.collage.index_set import IndexSet, indexes_of
from byoc.annex.collage.sub_expr_kind import can_inline
from byoc.annex.collage.sub_graph import NestedSubGraph, SubGraph
from byoc.ir.expr import RelayExpr
from byoc.ir.span import merge_spans
from byoc.ir.types import TupleType
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.relay.traverse import typed_function, typed_rewrite


@dataclass(frozen=True)
class _Extracted:
    """A function of a sub-graph, the nodes that are its arguments, and the nodes that are its results."""

    function: Function
    args: tuple[RelayExpr, ...]
    exits: tuple[RelayExpr, ...]


class _Level:
    """What becomes of the nodes in *inside* when *nested*, disjoint parts of it, are called as functions."""

    def __init__(self, graph: DataflowGraph, inside: IndexSet, nested: Iterable[NestedSubGraph]):
        self.params: dict[RelayExpr, Var] = {}
        self._graph = graph
        self._inside = inside
        self._part_of: dict[RelayExpr, _Extracted] = {}
        self._calls: dict[int, Call] = {}
        self._new: dict[RelayExpr, RelayExpr] = {}
        for part in nested:
            made = _extract(part.sub_graph, dict(part.attrs))
            for index in indexes_of(part.sub_graph.inside):
                self._part_of[graph.nodes[index]] = made

    def rewritten(self, root: RelayExpr) -> RelayExpr:
        """*root*, a node inside, over what became of the nodes that it uses."""
        return typed_rewrite(root, self._become, self._used_by, self._new)

    def _is_inside(self, node: RelayExpr) -> bool:
        return bool(self._inside >> self._graph.index[node] & 1)

    def _used_by(self, node: RelayExpr) -> Sequence[RelayExpr]:
        if node in self._new or not self._is_inside(node):
            return ()
        part = self._part_of.get(node)
        return part.args if part is not None else visited_before(node)

    def _become(self, node: RelayExpr, after: RelayExpr) -> RelayExpr:
        if node in self._new:
            return self._new[node]
        if not self._is_inside(node):
            return node if can_inline(node) else self._param(node)
        part = self._part_of.get(node)
        return self._result(part, node) if part is not None else after

    def _param(self, node: RelayExpr) -> Var:
        var = Var(f"FunctionVar_{len(self.params)}", node.checked_type, node.span)
        self.params[node] = var
        return var

    def _result(self, part: _Extracted, node: RelayExpr) -> RelayExpr:
        call = self._calls.get(id(part))
        if call is None:
            call = Call(part.function, [self._new[arg] for arg in part.args], span=part.function.span)
            call._checked_type = part.function.body.checked_type
            self._calls[id(part)] = call
        if len(part.exits) == 1:
            return call
        item = TupleGetItem(call, part.exits.index(node), node.span)
        item._checked_type = node.checked_type
        return item


def _extract(sub_graph: SubGraph, attrs: Mapping[str, object]) -> _Extracted:
    graph = sub_graph.graph
    level = _Level(graph, sub_graph.inside, sub_graph.nested)
    exits = tuple(graph.nodes[index] for index in indexes_of(sub_graph.exits))
    made = {node: level.rewritten(node) for node in reversed(exits)}
    results = [made[node] for node in exits]
    inside = (graph.nodes[index] for index in indexes_of(sub_graph.inside))
    span = merge_spans(node.span for node in inside if not isinstance(node, (Constant, Var)))
    body = results[0] if len(results) == 1 else _tuple_of(results)
    func = Function(list(level.params.values()), body, body.checked_type, attrs=attrs, span=span)
    return _Extracted(typed_function(func), tuple(level.params), exits)


def _tuple_of(fields: Sequence[RelayExpr]) -> Tuple:
    made = Tuple(fields)
    made._checked_type = TupleType([field.checked_type for field in fields])
    return made


def extract_function(sub_graph: SubGraph) -> Function:
    """*sub_graph* as a function of its own, without attributes; its nested sub-graphs are called in it."""
    return _extract(sub_graph, {}).function


def rewrite_sub_graphs(graph: DataflowGraph, sub_graphs: Iterable[SubGraph]) -> RelayExpr:
    """The expression of *graph* where the nested sub-graphs of *sub_graphs*, which are disjoint, are called."""
    everything = (1 << len(graph)) - 1
    nested = [part for sub_graph in sub_graphs for part in sub_graph.nested]
    return _Level(graph, everything, nested).rewritten(graph.expr) if nested else graph.expr
