"""What ONNX's schemas say of a node: the element types of its inputs, how many inputs and outputs it may have, and its
attributes, asked once for every operator.

A converter would take more types than its operator has (an average of integers, rounded in some way), and pass over
an attribute that it does not know, so that a misspelled one gave other numbers in silence; ONNX Runtime refuses such
models when it loads them. Operators without a schema (``com.microsoft``, custom domains) have no such rule, nor have
values that are no tensors. Schemas of ONNX's own operators before opset 7, the oldest that ONNX Runtime takes, are not
held to: some list other types than every model of their time has (Tile-1 has its repeats in floats). Source:
``OpSchema::Verify`` of ONNX, which passes over attributes whose names begin with two underscores as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import onnx.defs
from onnx import AttributeProto, NodeProto

from byoc.ir.types import TensorType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.frontend.onnx.dtypes import schema_dtype
from byoc.relay.frontend.onnx.node import OnnxNode

OLDEST = 7
_KIND_NAMES = {number: name for name, number in AttributeProto.AttributeType.items()}
Allowed = tuple[str, frozenset[str]]  # the name of an input, its element types


def _schema(domain: str, op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    if not domain and opset < OLDEST:
        return None
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


@lru_cache(maxsize=1024)
def allowed_types(domain: str, op_type: str, opset: int) -> tuple[tuple[Allowed, ...], bool] | None:
    """For each input its name and element types, and whether the last may be repeated; None without a schema."""
    schema = _schema(domain, op_type, opset)
    if schema is None:
        return None
    variables = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    inputs = tuple((i.name, _elements(variables.get(i.type_str, [i.type_str]))) for i in schema.inputs)
    return inputs, bool(schema.inputs) and schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic


def _elements(types: Sequence[str]) -> frozenset[str]:
    """The element types of the tensors among *types*; none where only other values are allowed."""
    return frozenset(dtype for t in types if (dtype := schema_dtype(t)) is not None)


def check_element_types(node: OnnxNode, domain: str) -> None:
    """Raise ImportModelError for an input of *node* whose element type its operator does not take."""
    allowed = allowed_types(domain, node.op_type, node.opset)
    if allowed is None or not allowed[0]:
        return
    inputs, repeats = allowed
    for index, value in enumerate(node.inputs):
        if value is None or (index >= len(inputs) and not repeats):
            continue
        name, types = inputs[min(index, len(inputs) - 1)]
        ty = infer_expr(value)
        if types and isinstance(ty, TensorType) and ty.dtype not in types:
            listed = ", ".join(sorted(types))
            raise node.error(
                f"input {index} ({name}) is {ty.dtype}, and {node.op_type} of opset {node.opset} takes {listed}: "
                "cast it before, or export the model for an opset that takes it"
            )


@dataclass(frozen=True)
class NodeForm:
    """The most inputs and outputs of an operator, and the kind (``INT``, ``FLOATS``) of each attribute by its name."""

    inputs: int
    outputs: int
    kinds: Mapping[str, str]


@lru_cache(maxsize=1024)
def node_form(domain: str, op_type: str, opset: int) -> NodeForm | None:
    """The form of an operator's nodes; None where there is no schema to hold them to."""
    schema = _schema(domain, op_type, opset)
    if schema is None:
        return None
    kinds = {name: str(attribute.type).rpartition(".")[2] for name, attribute in schema.attributes.items()}
    return NodeForm(schema.max_input, schema.max_output, kinds)


def check_node_form(node: OnnxNode, proto: NodeProto, attributes: Sequence[AttributeProto], domain: str) -> None:
    """Raise ImportModelError for what the operator of *node* does not have.

    Args:
        node: the node, which names its place in messages.
        proto: the same as it stands in the file.
        attributes: its attributes, those that a function's call gives among them.
        domain: its domain, empty for ONNX's own.
    """
    form = node_form(domain, node.op_type, node.opset)
    if form is None:
        return
    what = f"{node.op_type} of opset {node.opset}"
    for given, most, kind in ((proto.input, form.inputs, "input"), (proto.output, form.outputs, "output")):
        if len(given) > most:
            some = f"{most} {kind}{'s' * (most != 1)}"
            raise node.error(f"{what} has at most {some}, got {len(given)}; the model is damaged")
    for attribute in attributes:
        _check_attribute(node, attribute, form, what)


def _check_attribute(node: OnnxNode, attribute: AttributeProto, form: NodeForm, what: str) -> None:
    name, kind = attribute.name, form.kinds.get(attribute.name)
    if kind is None:
        if name.startswith("__"):
            return
        import difflib

        near = difflib.get_close_matches(name, form.kinds, 1)
        listed = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(form.kinds)) or 'none'}"
        raise node.error(f"{what} has no attribute {name!r}: {listed}")
    if attribute.type not in (AttributeProto.UNDEFINED, AttributeProto.AttributeType.Value(kind)):
        raise node.error(f"the attribute {name!r} is of type {kind}, got {_KIND_NAMES[attribute.type]}")
