"""A module, and a plan over it, as a ``networkx.DiGraph``: for analyses of one's own, and as a judge in tests.

networkx is asked for when a graph is made (extra ``graph``), never by importing this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from byoc.contract.verdict import callee_name
from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.span import span_names
from byoc.ir.types import TensorType, TupleType, tensor_types
from byoc.partition.boundaries import HOST
from byoc.partition.calls import calls_of, functions_of
from byoc.partition.content.cut import PlannedCut
from byoc.partition.costs.work import boundary, call_operations, constant_bytes
from byoc.partition.policy.dataflow import constants_of, sources_of
from byoc.relay.analysis.regions.annotated_regions import open_children
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.relay.transform.base.infer_type import InferType
from byoc.relay.traverse import post_order
from byoc.runtime.core.entry_points import install_command

if TYPE_CHECKING:
    import networkx

Node = int | str


def to_networkx(mod: IRModule, plan: PlannedCut | None = None) -> networkx.DiGraph:
    """*mod* as a directed graph, with the places and costs of *plan* where one is given.

    A node for each call, numbered as the plan's decisions are; for each parameter (``%x``), for what is no call (an
    ``if``, a ``match``) and for each function's result (``main:result``). Tuples and projections are seen through. Of
    functions other than ``main`` parameters and results have the function's name before theirs.

    Attributes of nodes: ``kind`` (``call``, ``input``, ``result``, or the class of an expression), ``operator``,
    ``nodes`` (the ONNX nodes), ``type`` (Relay's text), ``shape`` and ``dtype`` of a single tensor, ``bytes`` of what
    it gives (0 for a function or a reference), ``constants`` (bytes that it reads, alone or with others),
    ``operations``; with a plan ``target`` (``host`` too), ``region`` (the name of its function, or None), ``place``,
    and where costs were asked ``seconds`` and ``source``. Edges: ``bytes`` and ``tensors`` (of each that passes: which
    result it is, dtype, shape); with a plan ``crosses``, whether both ends are at different targets or regions. A free
    size counts as 1 and is a text in a shape.

    Raises PartitionError where *plan* was made for another module, UserError where *mod* is none or networkx
    is missing.

    >>> import byoc, networkx
    >>> from byoc import relay
    >>> x = relay.var("x", shape=(1, 4))
    >>> mod = byoc.IRModule.from_expr(relay.nn.relu(relay.add(x, relay.const(1.0))))
    >>> graph = to_networkx(mod, byoc.plan(mod, ["json"]))
    >>> [graph.nodes[n].get("operator", n) for n in networkx.topological_sort(graph)]
    ['%x', 'add', 'nn.relu', 'main:result']
    >>> graph.nodes[1]["target"], graph.edges[0, 1]["bytes"], graph.edges["%x", 0]["crosses"]
    ('json', 16, True)
    """
    if not isinstance(mod, IRModule):
        raise UserError(
            f"to_networkx takes a module, and then a plan of it, got {type(mod).__name__} first; a plan has its module "
            "in plan.origin.mod, unless it was read from a file"
        )
    graph = _empty()
    prepared = InferType()(mod) if plan is None else plan.prepare(mod)
    count = 0
    for var, func in functions_of(prepared):
        calls = {call: count + k for k, call in enumerate(calls_of(func))}
        count += len(calls)
        _add_function(graph, func, calls, "" if var.name_hint == "main" else f"{var.name_hint}:", var.name_hint)
    if plan is not None:
        _add_plan(graph, plan)
    return graph


def _empty() -> networkx.DiGraph:
    try:
        import networkx
    except ImportError as error:
        command = install_command("graph")
        raise UserError(f"a graph of networkx needs the package networkx; {command} installs it") from error
    return networkx.DiGraph()


def _add_function(graph: networkx.DiGraph, func: Function, calls: Mapping[Call, int], before: str, name: str) -> None:
    """Add what *func* holds. An expression that is neither call, parameter, tuple nor constant is a node as it is."""
    ids: dict[RelayExpr, Node] = {}
    composites = {call.op for call in calls}
    for expr in post_order(func, open_children):
        if isinstance(expr, Call) and expr in calls:
            ids[expr] = calls[expr]
            graph.add_node(ids[expr], **_of_call(expr))
        elif isinstance(expr, Var) and expr in func.params:
            ids[expr] = f"{before}%{expr.name_hint}"
            graph.add_node(ids[expr], kind="input", **_of_value(expr))
        elif expr is func:
            ids[expr] = f"{before or 'main:'}result"
            graph.add_node(ids[expr], kind="result", function=name)
        elif isinstance(expr, (Tuple, TupleGetItem, Constant)) or expr in composites:
            continue
        else:
            ids[expr] = f"{before}{type(expr).__name__.lower()}:{len(ids)}"
            graph.add_node(ids[expr], kind=type(expr).__name__, **_of_value(expr))
        for child in _read(expr):
            _add_edges(graph, ids, child, ids[expr])


def _read(expr: RelayExpr) -> Sequence[RelayExpr]:
    """What *expr* reads: a call its arguments and not its composite, a function what it gives and no parameter."""
    if isinstance(expr, Call) and not isinstance(expr.op, Var):
        return expr.args
    parameters = expr.params if isinstance(expr, Function) else ()
    return [c for c in open_children(expr) if c not in parameters]


def _add_edges(graph: networkx.DiGraph, ids: Mapping[RelayExpr, Node], read: RelayExpr, reader: Node) -> None:
    for source, k in sources_of(read):
        if source not in ids:
            continue  # a constant, which is counted at its reader
        tensor = boundary("", tensor_types(source.checked_type)[k])
        edge = graph.edges.get((ids[source], reader))
        if edge is None:
            graph.add_edge(ids[source], reader, bytes=0, tensors=())
            edge = graph.edges[ids[source], reader]
        described = (k, tensor.dtype, tensor.shape)
        if described not in edge["tensors"]:  # a tensor that is read twice passes once
            edge["bytes"] += tensor.bytes
            edge["tensors"] = (*edge["tensors"], described)


def _of_call(call: Call) -> dict[str, object]:
    """The attributes of a call."""
    return {
        "kind": "call",
        "operator": callee_name(call),
        "nodes": tuple(span_names(call.span)),
        "operations": _operations(call),
        "constants": sum(map(constant_bytes, constants_of(call))),
        **_of_value(call),
    }


def _operations(call: Call) -> int:
    """The operations of *call*, those of a composite's body summed."""
    inner: Sequence[RelayExpr] = list(post_order(call.op.body)) if isinstance(call.op, Function) else [call]
    return sum(call_operations(c) for c in inner if isinstance(c, Call))


def _of_value(expr: RelayExpr) -> dict[str, object]:
    """What an expression gives."""
    kind = expr.checked_type
    holds_tensors = isinstance(kind, (TensorType, TupleType))
    tensors = [boundary("", t) for t in tensor_types(kind)] if holds_tensors else []
    found: dict[str, object] = {"type": str(kind), "bytes": sum(t.bytes for t in tensors)}
    if len(tensors) == 1:
        found |= {"shape": tensors[0].shape, "dtype": tensors[0].dtype}
    return found


def _add_plan(graph: networkx.DiGraph, plan: PlannedCut) -> None:
    """Write the places and costs of *plan* into *graph*."""
    symbols = plan.symbols()
    for node, attributes in graph.nodes.items():
        attributes |= {"target": HOST, "region": None}
        if attributes["kind"] == "call":
            decision = plan.decisions[node]
            attributes["target"] = decision.target or HOST
            attributes["region"] = symbols[node] or None
            attributes["place"] = decision.chosen or decision.place
            if decision.seconds is not None:
                attributes |= {"seconds": decision.seconds, "source": decision.source}
    for (start, end), attributes in graph.edges.items():
        ends = [(graph.nodes[n]["target"], graph.nodes[n]["region"]) for n in (start, end)]
        attributes["crosses"] = ends[0] != ends[1]
