"""The values inside of a library: what stands between the nodes of its graph in one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from byoc.runtime.core.strict_json import mapping_of
from byoc.runtime.library import Library


@dataclass(frozen=True)
class Value:
    """A tensor of one run, the ONNX nodes that it comes from, and the function that gave it.

    *read* are the values that the function read: inputs, constants and what came before.
    *is_whole*: its last node is done with it, so that no later value computes a part of that node.
    """

    name: str
    nodes: tuple[str, ...]
    array: np.ndarray
    function: str = ""
    is_whole: bool = True
    read: tuple[np.ndarray, ...] = ()


def values_of(library: Library, inputs: Mapping[str, np.ndarray], with_read: bool = False) -> list[Value]:
    """Each value between the nodes of *library*, in the order in which they are computed, node by node.

    A value is called by the last ONNX node that it comes from, with a number where a node gives several. *with_read*
    keeps what each function read, too.
    """
    executor = library.graph_executor()
    for name, array in inputs.items():
        executor.set_input(name, array)
    executor.run()
    found: list[Value] = []
    origins = _origins(library)
    for step, node in zip(executor.steps, executor.graph.calls, strict=True):
        read = tuple(v.copy() for e in node.inputs if (v := executor.value_of(e)) is not None) if with_read else ()
        step()
        for k, entry in enumerate(node.outputs):
            value = executor.value_of(entry)
            nodes = origins.get(node.name, ())
            if value is not None:
                base = nodes[-1] if nodes else node.name
                name = base if len(node.outputs) == 1 else f"{base}:{k}"
                found.append(Value(name, nodes, value.copy(), node.function, read=read))
    return [replace(v, is_whole=not any(_last(v) in w.nodes for w in found[k + 1 :])) for k, v in enumerate(found)]


def _last(value: Value) -> str:
    return value.nodes[-1] if value.nodes else value.name


def _origins(library: Library) -> dict[str, tuple[str, ...]]:
    """The ONNX nodes of each node of the graph, by its name."""
    nodes = library.graph_json["nodes"]
    assert isinstance(nodes, list)
    found: dict[str, tuple[str, ...]] = {}
    for raw in nodes:
        told = mapping_of(raw, "a node")
        origin = mapping_of(told.get("attrs", {}), "its attributes").get("origin", ())
        found[str(told["name"])] = tuple(map(str, origin)) if isinstance(origin, list) else ()
    return found
