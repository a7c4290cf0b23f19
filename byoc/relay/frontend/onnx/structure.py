"""What is refused of a model's structure before anything is converted: names made twice, negative sizes, nesting and
calls without end.

Functions of a model are expanded where they are called, and sub-graphs are converted inside of each other; so how many
nodes there will be, and how deep, is counted first, each function once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from byoc.errors import ImportModelError
from byoc.relay.frontend.onnx.load import domain_name

MAX_DEPTH = 64  # of sub-graphs inside of sub-graphs, and of functions that call functions
MAX_EXPANDED_NODES = 1 << 18  # of all calls of functions together

Key = tuple[str, str, str]


def check_structure(proto: ModelProto, name: str) -> None:
    """Raises ImportModelError for names made twice, sizes below -1, and nesting or calls of functions beyond limits."""
    for graph in _graphs(proto.graph.node):
        _check_graph(graph, name)
    _check_graph(proto.graph, name)
    for function in proto.functions:
        _check_made_once(function.input, function.node, f"{name}: the function {function.name}")
        for graph in _graphs(function.node):
            _check_graph(graph, name)
    _check_sizes(proto.graph, name)
    table = {(domain_name(f.domain), f.name, f.overload): f for f in proto.functions}
    if len(table) < len(proto.functions):
        raise ImportModelError(f"{name}: two functions have the same name, domain and overload; the model is damaged")
    expanded = _expanded(proto.graph.node, table, name)
    if expanded > MAX_EXPANDED_NODES + len(proto.graph.node):
        raise ImportModelError(
            f"{name}: its functions call each other so often that {expanded:,} nodes would be made, "
            f"supported are {MAX_EXPANDED_NODES:,}"
        )


def _graphs(nodes: Iterable[NodeProto]) -> Iterator[GraphProto]:
    """The sub-graphs of *nodes*, as deep as they go."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs:
                yield graph
                stack.extend(graph.node)


def _check_graph(graph: GraphProto, name: str) -> None:
    """A value is made once; an input may have an initialiser as its default."""
    seen: set[str] = set()
    kinds = [("inputs", [v.name for v in graph.input]), ("initialisers", [t.name for t in graph.initializer])]
    for what, names in kinds:
        if len(set(names)) < len(names):
            twice = next(n for k, n in enumerate(names) if n in names[:k])
            raise ImportModelError(f"{name}: two {what} are called {twice!r}; the model is damaged")
        seen.update(names)
    _check_made_once(seen, graph.node, name)


def _check_made_once(given: Iterable[str], nodes: Iterable[NodeProto], name: str) -> None:
    """No node makes what is *given* or what a node before it makes, and an If no more than its branches do."""
    seen = set(given)
    for position, node in enumerate(nodes):
        called = node.name or f"{node.op_type}_{position}"
        for output in node.output:
            if output and output in seen:
                raise ImportModelError(
                    f"{name}: node {called} makes {output!r}, which something before it makes too; the model is damaged"
                )
            seen.add(output)
        if node.op_type == "If" and not domain_name(node.domain):
            fewest = min((len(a.g.output) for a in node.attribute if a.HasField("g")), default=len(node.output))
            if len(node.output) > fewest:
                raise ImportModelError(
                    f"{name}: node {called} (If) has {len(node.output)} outputs, and a branch of it makes {fewest}; "
                    "the model is damaged"
                )


def _check_sizes(graph: GraphProto, name: str) -> None:
    """Raises ImportModelError for a negative size that a value has by the graph. -1 is one that nobody knows, as some
    exporters write it; ONNX's checker and ONNX Runtime take inputs that have it.
    """
    for kind, values in (("input", graph.input), ("output", graph.output), ("value", graph.value_info)):
        for value in values:
            sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            if any(size < -1 for size in sizes):
                axis = next(k for k, size in enumerate(sizes) if size < -1)
                raise ImportModelError(
                    f"{name}: {kind} {value.name!r} has the size {sizes[axis]} along axis {axis}: a size is "
                    "a number from 0 on, or a name where it is free"
                )


def _expanded(nodes: Iterable[NodeProto], table: Mapping[Key, FunctionProto], name: str) -> int:
    """How many nodes *nodes* are once every call of a function is replaced by its body; each function counted once."""
    counts: dict[Key, tuple[int, int]] = {}  # nodes and depth of a body

    def measure(nodes: Iterable[NodeProto]) -> tuple[int, int] | Key:
        """The nodes and the depth; or the first function that has not been counted."""
        total, deepest = 0, 0
        stack = [(node, 0) for node in nodes]
        while stack:
            node, depth = stack.pop()
            if depth > MAX_DEPTH:
                raise ImportModelError(f"{name}: sub-graphs are nested deeper than {MAX_DEPTH}; flatten the model")
            inner = (1, 0)
            if table:
                key = (domain_name(node.domain), node.op_type, node.overload)
                if key in table:
                    if key not in counts:
                        return key
                    inner = counts[key]
            total, deepest = total + inner[0], max(deepest, inner[1])
            for attribute in node.attribute:
                graphs = [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs
                stack.extend((n, depth + 1) for g in graphs for n in g.node)
        return total, deepest

    pending: list[Key | None] = [None]  # None: the graph itself
    while True:
        key = pending[-1]
        found = measure(nodes if key is None else table[key].node)
        if len(found) == 3:
            if found in pending:
                raise ImportModelError(f"{name}: the function {found[1]} calls itself, which ONNX does not allow")
            pending.append(found)
        elif key is None:
            return found[0]
        else:
            if found[1] >= MAX_DEPTH:
                raise ImportModelError(f"{name}: functions call each other deeper than {MAX_DEPTH}; flatten the model")
            counts[key] = (found[0], found[1] + 1)
            pending.pop()
