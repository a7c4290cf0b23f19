"""A model of one node, typed by the values of its inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import ModelProto, NodeProto, OperatorSetIdProto, TypeProto, ValueInfoProto, checker, defs, helper
from onnx.onnx_cpp2py_export.checker import CheckerContext

from byoc.errors import ImportModelError, InputError
from byoc.relay.frontend.onnx.load import MAX_OPSET

IR_VERSION = 10  # the oldest that has the types of every operator set that is read


def node_model(
    node: NodeProto, inputs: Sequence[object], version: int | None = None
) -> tuple[ModelProto, list[object]]:
    """A model that is *node* alone, and the values of the model's inputs, each name once.

    Args:
        node: any operator; a sub-graph in it may read its inputs.
        inputs: a value for each input that has a name, or for each input with None for those left out.
        version: of the operator set of the node's domain; None for the newest that byoc reads.

    Raises:
        ImportModelError: a node that ONNX does not allow.
        InputError: another number of values than the node has inputs, or a value without a type.
    """
    named = [name for name in node.input if name]
    given = list(inputs)
    if len(given) not in (len(named), len(node.input)):
        raise InputError(f"node {node.name or node.op_type} has {len(named)} inputs, got {len(given)}")
    pairs = zip(named if len(given) == len(named) else node.input, given, strict=True)
    values = {name: value for name, value in pairs if name and value is not None}
    opsets = _opsets(node, version)
    _check(node, opsets)
    graph = helper.make_graph(
        [node],
        node.op_type,
        [_typed(name, value) for name, value in values.items()],
        [ValueInfoProto(name=name) for name in node.output if name],
    )
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION), list(values.values())


def _check(node: NodeProto, opsets: Sequence[OperatorSetIdProto]) -> None:
    context = CheckerContext()
    context.ir_version = IR_VERSION
    context.opset_imports = {opset.domain: opset.version for opset in opsets}
    try:
        checker.check_node(node, context)
    except checker.ValidationError as error:
        sentence = str(error).strip().splitlines()[0]
        raise ImportModelError(f"node {node.name or node.op_type}: ONNX does not allow it: {sentence}") from error


def _opsets(node: NodeProto, version: int | None) -> list[OperatorSetIdProto]:
    newest = min(defs.onnx_opset_version(), MAX_OPSET)
    if node.domain in ("", "ai.onnx"):
        return [helper.make_opsetid("", version or newest)]
    known = [schema.since_version for schema in defs.get_all_schemas_with_history() if schema.domain == node.domain]
    return [helper.make_opsetid("", newest), helper.make_opsetid(node.domain, version or max(known, default=1))]


def _typed(name: str, value: object) -> ValueInfoProto:
    return helper.make_value_info(name, _type(name, value))


def _type(name: str, value: object) -> TypeProto:
    if isinstance(value, list):
        if not value:
            raise InputError(f"input {name} is an empty list, whose elements have no type; give a model and not a node")
        return helper.make_sequence_type_proto(_tensor_type([np.asarray(v) for v in value]))
    return _tensor_type([np.asarray(value)])


def _tensor_type(arrays: Sequence[np.ndarray]) -> TypeProto:
    """The type of all *arrays*: their shape where it is one, else no shape."""
    shapes = {a.shape for a in arrays}
    return helper.make_tensor_type_proto(
        helper.np_dtype_to_tensor_dtype(arrays[0].dtype), shapes.pop() if len(shapes) == 1 else None
    )
