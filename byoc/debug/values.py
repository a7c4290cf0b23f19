"""The values inside of a library: what stands between the nodes of its graph in one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from byoc.base.progress import Progress
from byoc.runtime.core.strict_json import mapping_of
from byoc.runtime.graph.graph import RESHAPE, Node
from byoc.runtime.library import Library


@dataclass(frozen=True)
class InnerValue:
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


def values_of(
    library: Library,
    inputs: Mapping[str, np.ndarray],
    with_read: bool = False,
    progress: Progress | None = None,
) -> list[InnerValue]:
    """Each value between the nodes of *library*, in the order in which they are computed, node by node.

    A value is called by the last ONNX node that it comes from, with a number where a node gives several. *with_read*
    keeps what each function read, too. *progress* is called with each node before it is run.
    """
    executor = library.graph_executor()
    for name, array in inputs.items():
        executor.set_input(name, array)
    origins = _origins(library)
    if progress is not None:
        executor.wrap = partial(_ReportedCall, progress, origins)
    executor.run()
    found: list[InnerValue] = []
    for step, node in zip(executor.steps, executor.graph.calls, strict=True):
        read = tuple(v.copy() for e in node.inputs if (v := executor.value_of(e)) is not None) if with_read else ()
        step()
        for k, entry in enumerate(node.outputs):
            value = executor.value_of(entry)
            nodes = origins[entry[0]]
            if value is not None and (nodes or node.function != RESHAPE):  # not a view of an input
                base = nodes[-1] if nodes else node.name
                name = base if len(node.outputs) == 1 else f"{base}:{k}"
                found.append(InnerValue(name, nodes, value.copy(), node.function, read=read))
    return [replace(v, is_whole=not any(_last(v) in w.nodes for w in found[k + 1 :])) for k, v in enumerate(found)]


class _ReportedCall:
    """A step of a run that is reported before it begins: the ONNX nodes of *node*, and the function that it calls."""

    def __init__(self, progress: Progress, origins: Sequence[tuple[str, ...]], node: Node, step: Callable[[], object]):
        nodes = [name for entry in node.outputs for name in origins[entry[0]]]
        named = ", ".join(dict.fromkeys(nodes)) or node.name
        self._progress, self._text, self._step = progress, f"node {named} ({node.function})", step

    def __call__(self) -> None:
        self._progress(self._text)
        self._step()

    def __getattr__(self, name: str) -> object:  # of a step that is started and waited for
        self._progress(self._text)
        return getattr(self._step, name)


def _last(value: InnerValue) -> str:
    return value.nodes[-1] if value.nodes else value.name


def _origins(library: Library) -> list[tuple[str, ...]]:
    """The ONNX nodes of each node of the graph, in its order: their names are not their own (all views share one)."""
    nodes = library.graph_json["nodes"]
    assert isinstance(nodes, list)
    found: list[tuple[str, ...]] = []
    for raw in nodes:
        recorded = mapping_of(raw, "a node")
        origin = mapping_of(recorded.get("attrs", {}), "its attributes").get("origin", ())
        found.append(tuple(map(str, origin)) if isinstance(origin, list) else ())
    return found
