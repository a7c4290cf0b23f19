"""Operators that a graph of simpler ones defines: the model's own functions, and those of the ONNX standard.

An operator without a converter is imported through the body that its schema gives, for the opset of the model. Every
node of a body counts as the node that it was called from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto, TypeProto

from byoc.ir.types import Any, TensorType
from byoc.relay.frontend.onnx.attributes import NodeAttributes
from byoc.relay.frontend.onnx.dtypes import DTYPE_OF
from byoc.relay.frontend.onnx.load import domain_name
from byoc.relay.frontend.onnx.registry import find_converter

_ELEM_TYPE = {dtype: number for number, dtype in DTYPE_OF.items()}


@dataclass(frozen=True)
class FunctionTable:
    """The functions that a model brings, by (domain, name, overload), and the operator sets that it uses."""

    functions: Mapping[tuple[str, str, str], FunctionProto]
    opsets: Mapping[str, int]

    @staticmethod
    def of(functions: Sequence[FunctionProto], opsets: Mapping[str, int]) -> FunctionTable:
        """The table of a model's functions."""
        return FunctionTable({(domain_name(f.domain), f.name, f.overload): f for f in functions}, opsets)

    def own(self, node: NodeProto) -> FunctionProto | None:
        """The model's own function that *node* calls, or None."""
        if not self.functions:
            return None
        return self.functions.get((domain_name(node.domain), node.op_type, node.overload))

    def opset(self, domain: str) -> int:
        """The version of a domain; 1 for one that the model does not name."""
        return self.opsets.get(domain, 1)

    def supports(self, node: NodeProto) -> bool:
        """True when *node* has a converter, is a function of the model, or is defined by its schema."""
        domain = domain_name(node.domain)
        if self.own(node) is not None or find_converter(domain, node.op_type, self.opset(domain)):
            return True
        schema = _schema(node, self.opset(domain))
        if schema is None:
            return False
        if schema.has_function:
            body = _plain_body(schema, self.opset(domain))
            return body is not None and all(self.inside(body).supports(n) for n in body.node)
        return schema.has_context_dependent_function

    def inside(self, body: FunctionProto) -> FunctionTable:
        """The table that holds inside *body*, which names its own operator sets."""
        opsets = {domain_name(o.domain): o.version for o in body.opset_import}
        return FunctionTable(self.functions, {**self.opsets, **opsets})

    def defaults(self, node: NodeProto) -> list[AttributeProto]:
        """The attributes that the function of *node* takes when its caller leaves them out."""
        own = self.own(node)
        if own is not None:
            return list(own.attribute_proto)
        schema = _schema(node, self.opset(domain_name(node.domain)))
        declared = schema.attributes.values() if schema is not None else ()
        return [a.default_value for a in declared if a.default_value.type != AttributeProto.UNDEFINED]

    def body(self, node: NodeProto, input_types: Sequence[TensorType | None]) -> FunctionProto | None:
        """The body of *node* for inputs of these types, or None where nothing defines it."""
        own = self.own(node)
        if own is not None:
            return own
        opset = self.opset(domain_name(node.domain))
        schema = _schema(node, opset)
        if schema is None:
            return None
        if schema.has_function:
            return _plain_body(schema, opset)
        written = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        if not written:
            return None
        types = [_type_proto(t).SerializeToString() for t in input_types]
        try:
            return _parsed(
                schema.get_context_dependent_function_with_opset_version(max(written), node.SerializeToString(), types)
            )
        except RuntimeError:  # ONNX writes the body as text, and reads it with the names that the node has
            return None


@runtime_checkable
class _Schema(Protocol):
    """What ``onnx.defs.OpSchema`` has of functions, which its stub does not declare."""

    @property
    def attributes(self) -> Mapping[str, onnx.defs.OpSchema.Attribute]: ...
    @property
    def has_function(self) -> bool: ...
    @property
    def has_context_dependent_function(self) -> bool: ...
    @property
    def context_dependent_function_opset_versions(self) -> Sequence[int]: ...
    def get_function_with_opset_version(self, version: int) -> bytes | FunctionProto: ...
    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, input_types: Sequence[bytes]
    ) -> bytes | FunctionProto: ...


def _schema(node: NodeProto, opset: int) -> _Schema | None:
    if not 1 <= opset < 1 << 31:  # of another domain than the default one, whose version is checked when it is read
        return None
    try:
        schema: object = onnx.defs.get_schema(node.op_type, opset, domain_name(node.domain))
    except onnx.defs.SchemaError:
        return None
    assert isinstance(schema, _Schema)
    return schema


def _plain_body(schema: _Schema, opset: int) -> FunctionProto | None:
    return _parsed(schema.get_function_with_opset_version(opset))


def _parsed(text: bytes | FunctionProto) -> FunctionProto | None:
    if isinstance(text, FunctionProto):
        return text
    if not text:
        return None
    body = FunctionProto()
    body.ParseFromString(text)
    return body


def _type_proto(ty: TensorType | None) -> TypeProto:
    proto = TypeProto()
    if ty is not None:
        proto.tensor_type.elem_type = _ELEM_TYPE.get(ty.dtype, TensorProto.UNDEFINED)
        proto.tensor_type.shape.SetInParent()
        for size in ty.shape:
            dim = proto.tensor_type.shape.dim.add()
            if isinstance(size, Any):
                dim.dim_param = size.name
            else:
                dim.dim_value = size
    return proto


def bound_attributes(
    node: NodeProto, given: NodeAttributes | None, defaults: Sequence[AttributeProto] = ()
) -> list[AttributeProto]:
    """The attributes of a node of a function's body, with references replaced by what the caller gave.

    A reference to an attribute that the caller left out takes the function's default, or disappears.
    """
    bound: list[AttributeProto] = []
    if not node.attribute:
        return bound
    default_of = {a.name: a for a in defaults}
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            bound.append(attribute)
            continue
        source = given.proto(attribute.ref_attr_name) if given is not None else None
        source = source if source is not None else default_of.get(attribute.ref_attr_name)
        if source is not None:
            copy = AttributeProto()
            copy.CopyFrom(source)
            copy.name = attribute.name
            bound.append(copy)
    return bound


def all_nodes(graph: GraphProto, table: FunctionTable) -> Iterator[tuple[NodeProto, FunctionTable]]:
    """Every node of a graph, of its sub-graphs, and of the model's functions that they call, each function once."""
    seen: set[tuple[str, str, str]] = set()
    stack = [(node, table) for node in reversed(graph.node)]
    while stack:
        node, here = stack.pop()
        yield node, here
        own = here.own(node)
        if own is not None:
            key = (domain_name(node.domain), node.op_type, node.overload)
            if key not in seen:
                seen.add(key)
                stack.extend((n, here.inside(own)) for n in reversed(own.node))
        for attribute in node.attribute:
            graphs = [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs
            stack.extend((n, here) for g in graphs for n in reversed(g.node))
