"""Every node of a model that byoc does not take, and what is left of the model without them.

The importer stops at the first node that it refuses. Here that node is cut out: what it gives becomes an input where
ONNX's shape inference knows its type, else the nodes that read it go too; and the rest is imported again, until
nothing is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from google.protobuf.message import EncodeError
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, shape_inference

from byoc.errors import ImportModelError
from byoc.ir.module import IRModule
from byoc.relay.frontend.onnx.functions import FunctionTable, all_nodes
from byoc.relay.frontend.onnx.load import LoadedModel, domain_name
from byoc.relay.frontend.onnx.names import NodeNames
from byoc.relay.frontend.onnx.scope import values_read
from byoc.relay.frontend.onnx_importer import import_loaded

MOST_ROUNDS = 200  # refusals one after the other; each costs an import
NO_CONVERTER = "the operator is not supported; replace it in the model, or register a converter for it"


@dataclass(frozen=True)
class UnsupportedNode:
    """A *node* that is refused, of *operator* in *version* of its *domain*; both are empty for the model as a whole."""

    operator: str
    domain: str
    version: int
    node: str
    reason: str

    def __str__(self) -> str:
        if not self.node:
            return self.reason
        return f"{self.operator} (domain {self.domain}, opset {self.version}) at {self.node}: {self.reason}"


@dataclass(frozen=True)
class Import:
    """What is refused of a model, and the module of the rest, None where nothing is left to look at.

    *unseen* counts the nodes that were taken out because they read what a refused node gives.
    """

    unsupported: tuple[UnsupportedNode, ...]
    mod: IRModule | None
    unseen: int = 0


def imported(model: LoadedModel, shapes: Mapping[str, Sequence[int | str]] | None = None) -> Import:
    """Import *model* without the nodes that are refused.

    Raises ImportModelError for options that do not fit the model.
    """
    try:
        return Import((), import_loaded(model, shapes))
    except ImportModelError as error:
        problem = str(error)
    found: list[UnsupportedNode] = []
    unseen = 0
    for _ in range(MOST_ROUNDS):
        refused = _refused(model, problem)
        if not refused:
            return Import((*found, _of_model(model, problem)), None, unseen)
        found += [reason for place in refused.values() for reason in place]
        rest, gone = _without(model, set(refused))
        unseen += gone
        if rest is None:
            return Import(tuple(found), None, unseen)
        model = dataclasses.replace(model, proto=rest)
        try:
            return Import(tuple(found), import_loaded(model, shapes), unseen)
        except ImportModelError as error:
            problem = str(error)
    return Import((*found, _of_model(model, problem)), None, unseen)


def _of_model(model: LoadedModel, problem: str) -> UnsupportedNode:
    return UnsupportedNode("", "", 0, "", problem.removeprefix(f"{model.name}: "))


def _refused(model: LoadedModel, problem: str) -> dict[int, list[UnsupportedNode]]:
    """The nodes of the graph, by position, that have operators nobody converts; else the one that *problem* names."""
    graph = model.proto.graph
    table = FunctionTable.of(model.proto.functions, model.opsets)
    names = NodeNames(graph).main
    found: dict[int, list[UnsupportedNode]] = {}
    for position, node in enumerate(graph.node):
        for inner, inside in all_nodes(GraphProto(node=[node]), table):
            if not inside.supports(inner):
                own = names[position]
                at = own if inner == node else f"{own}, inside of it {inner.name or inner.op_type}"
                found.setdefault(position, []).append(_unsupported(inner, inside, at, NO_CONVERTER))
    if found:
        return found
    for position, node in enumerate(graph.node):
        _, named, reason = problem.partition(f"node {names[position]} ({node.op_type})")
        if named:
            reason = reason.removeprefix(": ").removeprefix(" ")
            return {position: [_unsupported(node, table, names[position], reason)]}
    return {}


def _unsupported(node: NodeProto, table: FunctionTable, place: str, reason: str) -> UnsupportedNode:
    domain = domain_name(node.domain)
    return UnsupportedNode(node.op_type, domain or "ai.onnx", table.opset(domain), place, reason)


def _without(model: LoadedModel, refused: set[int]) -> tuple[ModelProto | None, int]:
    """The model without these nodes, and how many more went with them; None where no output is left."""
    rest = ModelProto()
    rest.CopyFrom(model.proto)
    graph = rest.graph
    types = _types(rest)
    lost: set[str] = set()
    kept, gone = [], 0
    for position, node in enumerate(model.proto.graph.node):
        if position in refused:
            for name in filter(None, node.output):
                if name in types:
                    graph.input.append(types[name])
                else:
                    lost.add(name)
        elif lost.intersection(values_read(node)):
            lost.update(filter(None, node.output))
            gone += 1
        else:
            kept.append(node)
    outputs = [o for o in graph.output if o.name not in lost]
    del graph.node[:], graph.output[:]
    graph.node.extend(kept)
    graph.output.extend(outputs)
    return (rest if kept and outputs else None), gone


def _types(model: ModelProto) -> dict[str, ValueInfoProto]:
    """The values whose shape and element type are known."""
    try:
        graph = shape_inference.infer_shapes(model).graph
    except (shape_inference.InferenceError, EncodeError, ValueError):  # not inferable, or larger than a message may be
        graph = model.graph
    known = [*graph.value_info, *graph.output]
    return {v.name: v for v in known if v.type.tensor_type.HasField("shape") and v.type.tensor_type.elem_type}
