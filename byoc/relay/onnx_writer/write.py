"""A function as an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx import ModelProto, ValueInfoProto, checker, helper

from byoc.errors import InternalError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.op import Op
from byoc.ir.types import TensorType
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.expr import Call, Constant, Function, If, Tuple, TupleGetItem, Var
from byoc.relay.onnx_writer.control import NO_VALUE, Names, flat, written_call, written_if
from byoc.relay.onnx_writer.graph import OPSET, GraphWriter, UnwritableError, ports_of, value_info
from byoc.relay.onnx_writer.rules import write_call
from byoc.relay.traverse import post_order

IR_VERSION = 8  # of the oldest library that reads OPSET


@dataclass(frozen=True)
class PortNames:
    """What the inputs and the outputs of a model are called, tuples flattened; where there are too few, ``x0``,
    ``y0``, …
    by their places.
    """

    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()

    def input(self, number: int) -> str:
        """The name of an input."""
        return self.inputs[number] if number < len(self.inputs) else f"x{number}"

    def output(self, number: int) -> str:
        """The name of an output."""
        return self.outputs[number] if number < len(self.outputs) else f"y{number}"


def to_onnx(function: Function, name: str = "region") -> ModelProto:
    """*function* as a model whose inputs are ``x0``, ``x1``, … and whose outputs ``y0``, ``y1``, …, tuples flattened.

    Composite functions inside are written as what they hold. Raises UnwritableError for what has no rule; the model
    is checked by ONNX.
    """
    model = written_model(function, name)
    try:
        checker.check_model(model)
    except checker.ValidationError as error:
        raise InternalError(f"what was written of {name} is no ONNX: {error}") from error
    return model


def written_model(
    function: Function,
    name: str,
    ports: PortNames | None = None,
    functions: Mapping[GlobalVar, Function] | None = None,
) -> ModelProto:
    """As :func:`to_onnx`, unchecked; a whole model, for which there are more rules, where *ports* has its names.

    *functions*, which are typed as *function* is then, may be called by their names.
    """
    function = function if functions else infer_function(function)
    of_model, ports = ports is not None, ports or PortNames()
    graph = GraphWriter([*ports.inputs, *ports.outputs], of_model, functions)
    names: dict[RelayExpr, Names] = {}
    inputs: list[ValueInfoProto] = []
    for param in function.params:
        names[param] = _inputs_of(param, inputs, ports)
        for given, port in zip(flat([names[param]]), ports_of(param.checked_type), strict=True):
            graph.note(given, port)
    found = _written(function.body, names, graph)
    outputs = []
    for number, (ty, source) in enumerate(zip(ports_of(function.body.checked_type), flat([found]), strict=True)):
        if not isinstance(ty, TensorType):
            raise UnwritableError(f"the output {ports.output(number)!r}, whose rank only the run knows: ONNX wants it")
        if source != ports.output(number):  # an input that is an output, of one name
            graph.nodes.append(helper.make_node("Identity", [source], [ports.output(number)]))
        outputs.append(value_info(ports.output(number), ty))
    made = helper.make_graph(graph.nodes, name, inputs, outputs, graph.constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    model.producer_name = "byoc"
    return model


def _inputs_of(param: Var, inputs: list[ValueInfoProto], ports: PortNames) -> Names:
    types = ports_of(param.checked_type)
    names = [ports.input(len(inputs) + k) for k in range(len(types))]
    inputs.extend(value_info(name, ty) for name, ty in zip(names, types, strict=True))
    return names[0] if isinstance(param.checked_type, TensorType) else names


def _written(body: RelayExpr, names: dict[RelayExpr, Names], graph: GraphWriter) -> Names:
    """The names of *body*, all below it written."""
    for node in post_order(body, lambda n: () if isinstance(n, Function) else _children(n)):
        if node not in names and not isinstance(node, (Op, Function, GlobalVar)):
            names[node] = _name_of(node, names, graph)
    return names[body]


def _children(node: RelayExpr) -> Sequence[RelayExpr]:
    if isinstance(node, Call):
        return node.args
    if isinstance(node, Tuple):
        return node.fields
    if isinstance(node, If):
        return (node.cond,)
    return (node.tuple_value,) if isinstance(node, TupleGetItem) else ()


def _name_of(node: RelayExpr, names: dict[RelayExpr, Names], graph: GraphWriter) -> Names:
    if isinstance(node, Constant):
        return graph.constant(node.data.numpy())
    if isinstance(node, Tuple):
        return flat([names[f] for f in node.fields])
    if isinstance(node, TupleGetItem):
        return names[node.tuple_value][node.index]
    if isinstance(node, Call) and isinstance(node.op, Function):  # a composite
        inner = infer_function(node.op)
        return _written(inner.body, {p: names[a] for p, a in zip(inner.params, node.args, strict=True)}, graph)
    if isinstance(node, If) and graph.of_model:
        return written_if(node, names, graph, _written)
    if isinstance(node, Call) and isinstance(node.op, GlobalVar) and graph.functions:
        return written_call(node, [names[a] for a in node.args], graph, _written)
    if calls(node, "sequence.empty") and graph.functions:
        return NO_VALUE
    if isinstance(node, Call):
        found = write_call(node, graph, [names[a] for a in node.args], graph.of_model)
        return found[0] if isinstance(node.checked_type, TensorType) else found
    raise UnwritableError(f"a {type(node).__name__}: ONNX is written of calls of operators and tuples")
