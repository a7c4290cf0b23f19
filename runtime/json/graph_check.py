"""A graph of the JSON engine that somebody else wrote: its layout looked at before the engine reads it.

The layout is that of ``codegen/json/schema.json``; beyond it, nodes read entries of nodes before them, and inputs,
outputs and constants are those of the signature and of the attributes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.signature import Signature, TensorSpec, shape_of
from byoc.runtime.core.strict_json import at, list_of, mapping_of, number_of, numbered, object_of, text_of, texts_of
from byoc.runtime.graph.graph_check import checked_entry, checked_rows

_KEYS = ("symbol", "nodes", "arg_nodes", "heads", "node_row_ptr")
_KEY = re.compile(r"(op\.)?[A-Za-z_]\w*")
_COUNTS = ("num_inputs", "num_outputs")


def checked_json_graph(data: object, signature: Signature, where: str) -> dict[str, object]:
    """*data*, which is the graph of *signature*. Raises ArtifactError that names what is not."""
    graph = object_of(data, where, _KEYS)
    if graph["symbol"] != signature.symbol:
        raise ArtifactError(f"{where}.symbol: expected {signature.symbol!r}")
    nodes = numbered(graph, "nodes", where)
    rows = checked_rows(graph["node_row_ptr"], len(nodes), at(where, "node_row_ptr"))
    types = [_node(node, place, k, rows) for k, (place, node) in enumerate(nodes)]
    kinds = [mapping_of(node, place)["op"] for place, node in nodes]
    arguments = [k for k, kind in enumerate(kinds) if kind != "kernel"]
    if [number_of(n, place) for place, n in numbered(graph, "arg_nodes", where)] != arguments:
        raise ArtifactError(f"{where}.arg_nodes: expected the nodes that are inputs or constants, in order")
    heads = [checked_entry(h, place, len(nodes), rows) for place, h in numbered(graph, "heads", where)]
    inputs = [spec for kind, specs in zip(kinds, types, strict=True) if kind == "input" for spec in specs]
    entries = [spec for specs in types for spec in specs]
    _check_like(inputs, signature.inputs, f"{where}: its inputs")
    _check_like([entries[h] for h in heads], signature.outputs, f"{where}: its outputs")
    return graph


def constant_specs(graph: Mapping[str, object]) -> list[TensorSpec]:
    """What the constants of a checked graph are, in order."""
    nodes = enumerate(list_of(graph["nodes"], "nodes"))
    return [_types(node, f"nodes[{k}]")[0] for k, node in nodes if mapping_of(node, "nodes")["op"] == "const"]


def _node(data: object, where: str, index: int, rows: Sequence[int]) -> list[TensorSpec]:
    """Check a node; the tensors that it gives."""
    node = object_of(data, where, ("op", "name", "attrs"), ("inputs",))
    text_of(node["name"], at(where, "name"))
    if node["op"] not in ("input", "const", "kernel"):
        raise ArtifactError(f"{where}.op: expected input, const or kernel")
    inputs = numbered(node, "inputs", where) if "inputs" in node else []
    if inputs and node["op"] != "kernel":
        raise ArtifactError(f"{where}: only a kernel has inputs")
    for place, entry in inputs:
        checked_entry(entry, place, index, rows)
    types = _types(node, where)
    if len(types) != rows[index + 1] - rows[index] or (node["op"] == "const" and len(types) != 1):
        raise ArtifactError(f"{where}: it has {rows[index + 1] - rows[index]} outputs, and types for {len(types)}")
    for key, value in mapping_of(node["attrs"], at(where, "attrs")).items():
        if not _KEY.fullmatch(key) or (node["op"] != "kernel" and key not in ("shape", "dtype")):
            raise ArtifactError(f"{where}.attrs: {key[:80]!r} is no attribute of {node['op']} nodes")
        if key in _COUNTS:
            if value != str(len(inputs) if key == "num_inputs" else len(types)):
                raise ArtifactError(f"{where}.attrs.{key}: it is another number")
        elif key != "shape":
            for place, texts in ((f"{where}.attrs.{key}[{k}]", t) for k, t in enumerate(list_of(value, where))):
                texts_of(texts, place)
    return types


def _types(node: object, where: str) -> list[TensorSpec]:
    """The tensors of the node's attributes ``shape`` and ``dtype``; -1 is a dimension that is known afterwards."""
    attrs = object_of(node, where, ("attrs",), ("op", "name", "inputs"))["attrs"]
    if not isinstance(attrs, dict) or not {"shape", "dtype"} <= attrs.keys():
        raise ArtifactError(f"{where}.attrs: expected a shape and a dtype")
    (listed,) = list_of(attrs["shape"], at(where, "attrs.shape"), 1)
    (annotated,) = list_of(attrs["dtype"], at(where, "attrs.dtype"), 1)
    dtypes = texts_of(annotated, at(where, "attrs.dtype"))
    shapes = list_of(listed, at(where, "attrs.shape"), len(dtypes))
    return [TensorSpec("", _shape(s, t, where), t) for s, t in zip(shapes, dtypes, strict=True)]


def _shape(data: object, dtype: str, where: str) -> tuple[int | str | None, ...]:
    dims = [None if d == -1 and type(d) is int else d for d in list_of(data, at(where, "attrs.shape"))]
    return shape_of(dims, dtype, where)


def _check_like(found: Sequence[TensorSpec], wanted: Sequence[TensorSpec], where: str) -> None:
    if [(s.dtype, len(s.shape)) for s in found] != [(s.dtype, len(s.shape)) for s in wanted]:
        raise ArtifactError(f"{where} are not those of the signature")
    for one, other in zip(found, wanted, strict=True):
        if any(
            isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(one.shape, other.shape, strict=True)
        ):
            raise ArtifactError(f"{where}: {one.dtype}{one} is not {other.dtype}{other} of the signature")
