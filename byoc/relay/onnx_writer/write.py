"""A function as an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx import ModelProto, ValueInfoProto, checker, helper

from byoc.errors import InternalError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.types import TensorType, TupleType
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.expr import Call, Constant, Function, If, Tuple, TupleGetItem, Var
from byoc.relay.onnx_writer.control import COLLECTED, NO_VALUE, Names, flat, written_call, written_if
from byoc.relay.onnx_writer.graph import GraphWriter, Port, UnwritableError, elements_of, ports_of, value_info
from byoc.relay.onnx_writer.kept import kept_key, written_kept
from byoc.relay.onnx_writer.rules import needs, write_call
from byoc.relay.onnx_writer.source import SourceModel
from byoc.relay.onnx_writer.tidy import tidied
from byoc.relay.op.sequence import is_any_rank
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
    source: SourceModel | None = None,
) -> ModelProto:
    """As :func:`to_onnx`, unchecked; a whole model, for which there are more rules and which is tidied, where *ports*
    has its names.

    *functions*, which are typed as *function* is then, may be called by their names. The model has the opset of its
    *source* where that is newer than ``OPSET``. Raises UnwritableError, for a whole model with all that is not written.
    """
    function = function if functions else infer_function(function)
    of_model, ports = ports is not None, ports or PortNames()
    source = source or SourceModel()
    graph = GraphWriter([*ports.inputs, *ports.outputs], of_model, functions)
    graph.after = source
    names: dict[RelayExpr, Names] = {}
    inputs: list[ValueInfoProto] = []
    for param in function.params:
        names[param] = _inputs_of(param, inputs, ports, source)
        for given, port in zip(flat([names[param]]), ports_of(param.checked_type), strict=True):
            graph.note(given, port)
    found = _written(function.body, names, graph)
    if graph.problems:
        raise UnwritableError(str(graph.problems[0]), [name for problem in graph.problems for name in problem.nodes])
    outputs = []
    for number, (ty, value) in enumerate(zip(ports_of(function.body.checked_type), flat([found]), strict=True)):
        own = ports.output(number)
        outputs.append(_port_info(own, ty, source))
        if value == NO_VALUE:
            elements = outputs[-1].type.sequence_type.elem_type.tensor_type
            value = graph.value("SequenceEmpty", dtype=elements.elem_type)
        if value != own:  # an input that is an output, of one name
            graph.nodes.append(helper.make_node("Identity", [value], [own]))
    made = helper.make_graph(graph.nodes, name, inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid(domain, version) for domain, version in {"": graph.opset, **graph.opsets}.items()]
    version = max(IR_VERSION, helper.find_min_ir_version_for(opsets, ignore_unknown=True))
    model = helper.make_model(made, opset_imports=opsets, ir_version=version)
    model.producer_name = "byoc"
    return tidied(model, graph.kept_outputs) if of_model else model


def _port_info(name: str, ty: Port, source: SourceModel) -> ValueInfoProto:
    """The type of an input or an output; what the source declares where the graph says too little for ONNX."""
    if isinstance(ty, TensorType) or not (is_any_rank(ty) or elements_of(ty) is None):
        return value_info(name, ty)
    declared = source.declared(name)
    if declared is None:
        unknown = "whose rank" if is_any_rank(ty) else "whose elements' type"
        raise UnwritableError(f"{name!r}, {unknown} only the run knows: ONNX wants it, so declare it in the model")
    return declared


def _inputs_of(param: Var, inputs: list[ValueInfoProto], ports: PortNames, source: SourceModel) -> Names:
    types = ports_of(param.checked_type)
    names = [ports.input(len(inputs) + k) for k in range(len(types))]
    inputs.extend(_port_info(name, ty, source) for name, ty in zip(names, types, strict=True))
    return names if isinstance(param.checked_type, TupleType) else names[0]


def _written(body: RelayExpr, names: dict[RelayExpr, Names], graph: GraphWriter) -> Names:
    """The names of *body*, all below it written."""
    for node in post_order(body, lambda n: () if isinstance(n, Function) else _children(n)):
        if node not in names and not isinstance(node, (Op, Function, GlobalVar)):
            try:
                names[node] = _name_of(node, names, graph)
            except UnwritableError as error:
                if not graph.of_model:
                    raise
                names[node] = _unwritten(node, error, graph)
    return names[body]


def _unwritten(node: RelayExpr, error: UnwritableError, graph: GraphWriter) -> Names:
    """Names for what is not written, so that all that is not is found. Raises *error* where it is no call."""
    error.nodes = error.nodes or frozenset(span_names(node.span))
    graph.problems.append(error)
    try:
        made = [graph.name("unwritten") for _ in ports_of(node.checked_type)]
    except UnwritableError:
        raise error from None
    return made if isinstance(node.checked_type, TupleType) else made[0]


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
    key = kept_key(node) if isinstance(node, Call) else None
    if isinstance(node, Call) and key is not None:
        return written_kept(node, graph.after.nodes[key], [names[a] for a in node.args], graph)
    if isinstance(node, Call) and isinstance(node.op, Function):  # a composite
        inner = infer_function(node.op)
        return _written(inner.body, {p: names[a] for p, a in zip(inner.params, node.args, strict=True)}, graph)
    if isinstance(node, If) and graph.of_model:
        return written_if(node, names, graph, _written)
    if isinstance(node, Call) and isinstance(node.op, GlobalVar) and graph.functions:
        return written_call(node, [names[a] for a in node.args], graph, _written)
    if calls(node, "sequence.empty") and graph.of_model:
        return NO_VALUE
    if isinstance(node, Call):
        read = flat([names[a] for a in node.args])
        needs(COLLECTED not in read, "a sequence that a loop changes")
        if calls(node, "sequence.insert") and graph.of_model:
            sequence, *rest = read
            operator = "SequenceConstruct" if sequence == NO_VALUE else "SequenceInsert"
            return graph.value(operator, *([rest[0]] if sequence == NO_VALUE else read))
        found = write_call(node, graph, [names[a] for a in node.args], graph.of_model)
        return found if isinstance(node.checked_type, TupleType) else found[0]
    raise UnwritableError(f"a {type(node).__name__}: ONNX is written of calls of operators and tuples")
