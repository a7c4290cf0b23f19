"""Nodes of the source that are written as they were, because no rule writes what they became.

Such a node is a composite function, ``Composite="onnx.node"``, whose body is what the importer made of it: passes see
its types and leave it whole. Its arguments are the values that the node reads, those that graphs inside of it read
from around them behind its own. Ensures: a node means at the opset that is written what it meant at its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import GraphProto, NodeProto

from byoc.ir.types import TupleType
from byoc.relay.expr import Call, Function
from byoc.relay.onnx_writer.control import NO_VALUE, Names
from byoc.relay.onnx_writer.graph import GraphWriter, ports_of
from byoc.relay.onnx_writer.rules import needs
from byoc.relay.onnx_writer.source import DEFAULT_DOMAINS, KeptNode, graphs_of, inner_nodes

COMPOSITE, NUMBER = "onnx.node", "OnnxNode"  # the value of Composite, and the attribute that holds the node's key


def kept_key(call: Call) -> str | None:
    """The key of the node that *call* stands for; None for another call."""
    if isinstance(call.op, Function) and call.op.attrs.get("Composite") == COMPOSITE:
        return str(call.op.attrs[NUMBER])
    return None


def written_kept(call: Call, kept: KeptNode, args: Sequence[Names], graph: GraphWriter) -> Names:
    """Write the node that *call* stands for; the names of what it gives. Raises UnwritableError."""
    for node in (kept.proto, *inner_nodes(kept.proto)):
        _check_version(node, kept, graph)
    named: dict[str, str] = {}
    for name, arg, given in zip(kept.reads, call.args, args, strict=True):
        if not isinstance(arg.checked_type, TupleType):
            needs(given != NO_VALUE, "an empty sequence that a loop fills")
            named[name] = str(given)
        elif given:
            named[name] = graph.value("SequenceConstruct", *given)
        else:
            needs(name in kept.empty, "an empty sequence of whose elements nothing is known")
            named[name] = graph.value("SequenceEmpty", dtype=kept.empty[name])
    node = NodeProto()
    node.CopyFrom(kept.proto)
    node.input[:] = [named.get(name, "") for name in kept.proto.input]
    node.output[:] = [graph.name(kept.proto.op_type.lower()) if name else "" for name in kept.proto.output]
    for inner in graphs_of(node):
        _rename(inner, dict(named), graph)
    graph.nodes.append(node)
    graph.kept_outputs.update(node.output)
    if kept.domain:
        graph.opsets[kept.domain] = kept.opset
    made = [name for name in node.output if name]
    for name, port in zip(made, ports_of(call.checked_type), strict=True):
        graph.note(name, port)
    return made if isinstance(call.checked_type, TupleType) else made[0]


def _rename(inner: GraphProto, named: dict[str, str], graph: GraphWriter) -> None:
    """Give all values of a graph inside a node names that no other value has, and those around it their new ones."""
    del inner.value_info[:]
    inner.name = graph.name(inner.name or "graph")
    own = [v.name for v in inner.input] + [t.name for t in inner.initializer]
    named.update({name: graph.name(name) for name in [*own, *(o for node in inner.node for o in node.output)] if name})
    for value in (*inner.input, *inner.output, *inner.initializer):
        value.name = named[value.name]
    for node in inner.node:
        node.input[:] = [named[name] if name else "" for name in node.input]
        node.output[:] = [named[name] if name else "" for name in node.output]
        for nested in graphs_of(node):
            _rename(nested, dict(named), graph)


def _check_version(node: NodeProto, kept: KeptNode, graph: GraphWriter) -> None:
    """Raise UnwritableError where *node* is called otherwise at the opset that is written."""
    if node.domain not in DEFAULT_DOMAINS:
        return
    opset = kept.opset if not kept.domain else graph.after.opset
    forms = [_form(node.op_type, version) for version in (opset, graph.opset)]
    where = f"{node.op_type} of opset {opset}, which opset {graph.opset} has in another form"
    needs(forms[0] is not None and forms[1] is not None and _is_within(forms[0], forms[1], node), where)


# inputs with what each may be, attributes with their defaults
CallingForm = tuple[tuple[tuple[str, str], ...], Mapping[str, bytes]]


def _form(op_type: str, opset: int) -> CallingForm | None:
    """How an operator is called at an *opset*; None where it is not."""
    try:
        schema = onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None
    if schema.deprecated:
        return None
    inputs = tuple((i.name, str(i.option)) for i in schema.inputs)
    return inputs, {name: a.default_value.SerializeToString() for name, a in schema.attributes.items()}


def _is_within(first: CallingForm, second: CallingForm, node: NodeProto) -> bool:
    """Whether *node*, in the first form, means the same in the second: more inputs and attributes may be there."""
    stated = {attribute.name for attribute in node.attribute}
    inputs = [a[0].lower() == b[0].lower() for a, b in zip(first[0], second[0], strict=False)]
    same = all(key in second[1] and (key in stated or second[1][key] == default) for key, default in first[1].items())
    return len(first[0]) <= len(second[0]) and all(inputs) and same
