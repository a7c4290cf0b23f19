"""Importing a model some of whose nodes stay as they are, because what they become is not written as ONNX.

Ensures: a node that stays is one composite (``byoc/relay/onnx_writer/kept.py``), typed by what the importer makes of
it; what it gives is not folded into what reads it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from onnx import ModelProto, NodeProto

from byoc.ir.expr import RelayExpr
from byoc.ir.span import Span
from byoc.ir.types import TupleType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.analysis.variables import free_vars
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.relay.frontend.onnx.functions import all_nodes, bound_attributes
from byoc.relay.frontend.onnx.graph import GraphImporter
from byoc.relay.frontend.onnx.load import LoadedModel, domain_name
from byoc.relay.frontend.onnx.node import GraphServices
from byoc.relay.frontend.onnx.scope import Body, OnnxScope, as_sequence, values_read
from byoc.relay.frontend.onnx.subgraphs import TakenDecision
from byoc.relay.onnx_writer.kept import COMPOSITE, NUMBER
from byoc.relay.onnx_writer.source import KeptNode, graphs_of, inner_nodes
from byoc.relay.traverse import substitute

DRAWING = (  # operators that draw numbers anew in each run; the importer draws once
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
    "Dropout",
)


def draws(source: LoadedModel) -> bool:
    """Whether a node of *source* may draw numbers."""
    outer = [*source.proto.graph.node, *(node for function in source.proto.functions for node in function.node)]
    return any(found.op_type in DRAWING for node in outer for found in (node, *inner_nodes(node)))


class KeepingImporter(GraphImporter):
    """Imports *model*; the nodes called *kept*, and those that draw numbers, become composites.

    ``nodes`` has what these were, by key, and ``left`` why some that were called did not, by name.
    """

    def __init__(self, model: LoadedModel, kept: Collection[str]):
        super().__init__(model)
        self.nodes: dict[str, KeptNode] = {}
        self.left: dict[str, str] = {}  # why nodes that were called do not stay
        self._kept, self._is_inside = frozenset(kept), False
        self._empty: dict[RelayExpr, int] = {}  # sequences without an element: the type of the elements

    def _convert(
        self, proto: NodeProto, name: str, body: Body, services: GraphServices, taken: tuple[TakenDecision, ...] = ()
    ) -> Sequence[RelayExpr | None]:
        """The outputs of a node. A function of the model is entered: what stays of it are nodes inside."""
        node = NodeProto()
        node.CopyFrom(proto)
        del node.attribute[:]
        node.attribute.extend(bound_attributes(proto, body.attrs, body.defaults))
        drawn = proto.op_type in DRAWING and not domain_name(proto.domain)
        stays = (drawn or name in self._kept) and not self._is_inside and body.table.own(proto) is None
        problem = _problem(node, body, bool(taken)) if stays else ""
        if problem:
            self.left[name] = problem
        if not stays or problem:
            made = super()._convert(proto, name, body, services, taken)
            if node.op_type == "SequenceEmpty" and made[0] is not None:
                self._empty[made[0]] = next((a.i for a in node.attribute if a.name == "dtype"), 1)
            return made
        self._is_inside = True
        try:
            made = super()._convert(proto, name, body, services, taken)
        finally:
            self._is_inside = False
        if all(value is None or isinstance(value, Constant) for value in made) and not drawn:
            return made
        if proto.op_type == "Dropout" and made[0] is body.scope.find(proto.input[0]):  # not in training
            return made
        return self._composite(node, made, body, Span.named(name))

    def _composite(
        self, node: NodeProto, made: Sequence[RelayExpr | None], body: Body, span: Span
    ) -> Sequence[RelayExpr | None]:
        """A call of a composite for what the importer *made* of *node*; that itself where it reads more than *node*."""
        outputs = [bool(name) for name in node.output]
        made = [value if k < len(outputs) and outputs[k] else None for k, value in enumerate(made)]
        read = _values(node, body.scope)
        params = [Var(f"x{k}", infer_expr(value)) for k, value in enumerate(read.values())]
        replaced: dict[RelayExpr, RelayExpr] = {}
        for value, param in zip(read.values(), params, strict=True):
            if not isinstance(value, Constant):
                replaced.setdefault(value, param)
            if isinstance(value, Tuple):
                for k, field in enumerate(value.fields):
                    if not isinstance(field, Constant):
                        replaced.setdefault(field, TupleGetItem(param, k))
        given = [as_sequence(value) for value in made if value is not None]
        result = substitute(given[0] if len(given) == 1 else Tuple(given), replaced)
        key = str(len(self.nodes))
        function = Function(params, result, infer_expr(result), attrs={"Composite": COMPOSITE, NUMBER: key})
        if free_vars(function):
            self.left[str(span)] = f"what {node.op_type} became reads more than the node did"
            return made
        empty = {name: self._empty[value] for name, value in read.items() if value in self._empty}
        wanted = [bool(name) and k < len(made) and made[k] is not None for k, name in enumerate(node.output)]
        node.output[:] = [name if used else "" for name, used in zip(node.output, wanted, strict=True)]
        opset = body.table.opset(domain_name(node.domain))
        self.nodes[key] = KeptNode(node, list(read), opset, empty)
        call = Call(function, list(read.values()), span=span)
        if not isinstance(infer_expr(call), TupleType):
            return [call if value is not None else None for value in made]
        fields = iter(range(len(given)))
        found = [TupleGetItem(call, next(fields), span) if value is not None else None for value in made]
        for output in found:
            if output is not None:
                infer_expr(output)
        return found


def _values(node: NodeProto, scope: OnnxScope) -> dict[str, RelayExpr]:
    """What *node* reads, its own inputs first, then what the graphs inside of it read from around them."""
    own = list(dict.fromkeys(name for name in node.input if name))
    found = {name: scope.find(name) for name in [*own, *sorted(values_read(node).difference(own, [""]))]}
    return {name: value for name, value in found.items() if value is not None}


def with_named_nodes(source: LoadedModel) -> LoadedModel:
    """*source* with a name of its own for each node in a graph inside of another; itself where all have one."""
    main = [node.name for node in source.proto.graph.node]
    inner = [n for node in source.proto.graph.node for n in inner_nodes(node)]
    taken = Counter([*main, *(node.name for node in inner)])
    if all(node.name and taken[node.name] == 1 for node in inner):
        return source
    proto = ModelProto()
    proto.CopyFrom(source.proto)
    for node in (n for outer in proto.graph.node for n in inner_nodes(outer)):
        if not node.name or taken[node.name] > 1:
            stem = node.name or node.op_type
            node.name = next(name for k in itertools.count() if (name := f"{stem}_inside_{k}") not in taken)
            taken[node.name] += 1
    return replace(source, proto=proto)


def _problem(node: NodeProto, body: Body, taken: bool) -> str:
    """Why *node* does not stay as it is, of which one branch may be *taken*; "" where it does."""
    if taken and node.op_type == "If":
        return "the rest of the model depends on which branch an If takes"
    inner = [found for graph in graphs_of(node) for found in all_nodes(graph, body.table)]
    if any(table.own(n) is not None or any(a.ref_attr_name for a in n.attribute) for n, table in inner):
        return f"a graph inside of {node.op_type} calls a function of the model, which onnx.inliner puts in its place"
    return ""


__all__ = ["KeepingImporter", "draws", "with_named_nodes"]
