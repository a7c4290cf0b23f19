"""A graph in Relay's JSON layout that somebody else wrote: every number looked at before one of them is used.

Ensures of a checked graph: each node reads entries of nodes before it, every entry has a shape and a dtype, inputs have
names of their own, and a reshape has as many bytes as what it shares the memory of.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from byoc.runtime.core.bound_sizes import is_computable
from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.signature import Dim, Signature, shape_of, symbol_of
from byoc.runtime.core.strict_json import at, list_of, number_of, numbered, object_of, text_of, texts_of
from byoc.runtime.graph.graph import RESHAPE

MOST_NODES = 1 << 22
_KEYS = ("nodes", "arg_nodes", "heads", "node_row_ptr", "attrs")
_ATTRS = ("func_name", "num_inputs", "num_outputs", "flatten_data")
_OUR_ATTRS = ("module", "origin", "dynamic", "starts")


def checked_graph(data: object, where: str) -> dict[str, object]:
    """*data*, which is a whole graph. Raises ArtifactError that names what is not."""
    graph = object_of(data, where, _KEYS)
    nodes = numbered(graph, "nodes", where)
    rows = checked_rows(graph["node_row_ptr"], len(nodes), at(where, "node_row_ptr"))
    shapes, dtypes = _types(graph["attrs"], rows[-1], at(where, "attrs"))
    names: set[str] = set()
    arguments = {k for k, node in enumerate(nodes) if _node(node[1], node[0], k, rows, shapes, dtypes, names)}
    listed = [number_of(n, place, 0, len(nodes) - 1) for place, n in numbered(graph, "arg_nodes", where)]
    if set(listed) != arguments or len(listed) != len(arguments):
        raise ArtifactError(f"{where}.arg_nodes: expected the nodes that are inputs, each once")
    known = {d for n in arguments for d in shapes[rows[n]] if isinstance(d, str)}
    named = [d for shape in shapes if None not in shape for d in shape if isinstance(d, str)]
    unknown = [d for d in named if not is_computable(d, known)]
    if unknown:
        raise ArtifactError(f"{where}: no input determines the size {unknown[0][:80]!r}")
    for place, head in numbered(graph, "heads", where):
        checked_entry(head, place, len(nodes), rows)
    return graph


def checked_rows(data: object, count: int, where: str) -> list[int]:
    """Where the entries of each of *count* nodes begin, and the end. Raises ArtifactError."""
    rows = [number_of(row, where, 0, MOST_NODES) for row in list_of(data, where, count + 1)]
    if rows[0] or any(row > after for row, after in itertools.pairwise(rows)):
        raise ArtifactError(f"{where}: expected numbers from 0 on that do not fall")
    return rows


def checked_entry(data: object, where: str, before: int, rows: Sequence[int]) -> int:
    """The position of an entry of one of the nodes *before*. Raises ArtifactError."""
    node, output, _ = (number_of(n, where) for n in list_of(data, where, 3))
    if node >= before or output >= rows[node + 1] - rows[node] or list_of(data, where)[2] != 0:
        raise ArtifactError(f"{where}: there is no output {output} of a node {node} before it")
    return rows[node] + output


def _types(data: object, count: int, where: str) -> tuple[list[tuple[Dim, ...]], tuple[str, ...]]:
    fields = object_of(data, where, ("shape", "dltype"), ("device_index", "storage_id"))
    values = {}
    for key, value in fields.items():
        kind, values[key] = list_of(value, at(where, key), 2)
        text_of(kind, at(where, key))
        list_of(values[key], at(where, key), count)
    dtypes = texts_of(values["dltype"], at(where, "dltype"))
    shapes = list_of(values["shape"], at(where, "shape"))
    return [shape_of(s, d, f"{where}.shape[{k}]") for k, (s, d) in enumerate(zip(shapes, dtypes, strict=True))], dtypes


def _node(
    data: object,
    where: str,
    index: int,
    rows: Sequence[int],
    shapes: Sequence[tuple[Dim, ...]],
    dtypes: Sequence[str],
    names: set[str],
) -> bool:
    """Check a node; whether it is an input."""
    node = object_of(data, where, ("op", "name", "inputs"), ("attrs",))
    name = text_of(node["name"], at(where, "name"))
    inputs = [checked_entry(e, place, index, rows) for place, e in numbered(node, "inputs", where)]
    outputs = range(rows[index], rows[index + 1])
    if node["op"] == "null":
        if inputs or len(outputs) != 1 or "attrs" in node or name in names:
            raise ArtifactError(f"{where}: an input has one output, nothing else, and a name of its own")
        names.add(name)
        return True
    if node["op"] != "tvm_op" or "attrs" not in node:
        raise ArtifactError(f"{where}: expected an input or a call of a function")
    attrs = object_of(node["attrs"], at(where, "attrs"), _ATTRS, _OUR_ATTRS)
    symbol_of(attrs["func_name"], at(where, "attrs.func_name"))
    if (attrs["num_inputs"], attrs["num_outputs"]) != (str(len(inputs)), str(len(outputs))):
        raise ArtifactError(f"{where}: it has {len(inputs)} inputs and {len(outputs)} outputs, and says others")
    for key in ("dynamic", "starts"):
        if attrs.get(key, "0") not in ("0", "1"):
            raise ArtifactError(f"{where}.attrs.{key}: expected '0' or '1'")
    text_of(attrs.get("module", ""), at(where, "attrs.module"))
    texts_of(attrs.get("origin", []), at(where, "attrs.origin"))
    if attrs["func_name"] == RESHAPE:
        _check_reshape(where, inputs, outputs, shapes, dtypes)
    return False


def _check_reshape(
    where: str, inputs: Sequence[int], outputs: Sequence[int], shapes: Sequence[tuple[Dim, ...]], dtypes: Sequence[str]
) -> None:
    if len(inputs) != 1 or len(outputs) != 1 or dtypes[inputs[0]] != dtypes[outputs[0]]:
        raise ArtifactError(f"{where}: a reshape has one input and one output, of one dtype")
    before, after = _size(shapes[inputs[0]]), _size(shapes[outputs[0]])
    if before is not None and after is not None and before != after:
        raise ArtifactError(f"{where}: a reshape of {before} elements to {after}")


def _size(shape: Sequence[Dim]) -> int | None:
    numbers = [d for d in shape if isinstance(d, int)]
    return math.prod(numbers) if len(numbers) == len(shape) else None


def check_calls(graph: Mapping[str, Any], signatures: Mapping[str, Signature], where: str) -> None:
    """Raises ArtifactError where a call does not have the dtypes and the sizes that the function's signature says.

    *signatures* are by symbol; a function without one, of a vendor's module, is left to that.
    """
    rows: Sequence[int] = graph["node_row_ptr"]
    attrs: Mapping[str, Sequence[Sequence[Any]]] = graph["attrs"]
    shapes, dtypes = attrs["shape"][1], attrs["dltype"][1]
    for index, node in enumerate(graph["nodes"]):
        signature = signatures.get(node.get("attrs", {}).get("func_name", ""))
        if signature is None:
            continue
        entries = [*(rows[n] + k for n, k, _ in node["inputs"]), *range(rows[index], rows[index + 1])]
        specs = (*signature.inputs, *signature.outputs)
        if len(signature.inputs) != len(node["inputs"]) or len(specs) != len(entries):
            raise ArtifactError(f"{where}: node {node['name']} has another number of tensors than its function takes")
        for entry, spec in zip(entries, specs, strict=True):
            if dtypes[entry] != spec.dtype or not _may_be(shapes[entry], spec.shape):
                raise ArtifactError(
                    f"{where}: node {node['name']} has {dtypes[entry]}{shapes[entry]} "
                    f"where its function takes {spec.dtype}{spec}"
                )


def _may_be(found: Sequence[object], wanted: Sequence[object]) -> bool:
    if len(found) != len(wanted):
        return False
    return all(not (type(a) is int and type(b) is int) or a == b for a, b in zip(found, wanted, strict=True))
