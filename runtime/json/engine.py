"""The JSON engine: runs one graph in Relay's JSON layout over a table of kernels.

Everything that can be looked up is looked up once, when the engine is made: kernels, decoded attributes, entries.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from byoc.runtime.core.errors import ArtifactError, KernelError
from byoc.runtime.core.time_limit import check_time
from byoc.runtime.json.attributes import decode_attributes
from byoc.runtime.json.table import KernelTable
from byoc.runtime.kernels.core.registry import Kernel

Step = Callable[[list[object]], None]
KINDS = frozenset(["input", "const", "kernel"])


class JsonEngine:
    """One symbol's graph, ready to run: ``engine(inputs, constants) -> outputs``.

    Raises ArtifactError for a graph that is not in the layout, KernelError for a kernel that is not in the table.
    """

    def __init__(self, graph: Mapping[str, Any], table: KernelTable):
        try:
            self._read(graph, table)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            if isinstance(error, KernelError):
                raise
            raise ArtifactError(f"the JSON graph is not in the layout of byoc ({error!r})") from error

    def _read(self, graph: Mapping[str, Any], table: KernelTable) -> None:
        self.symbol = str(graph["symbol"])
        rows: Sequence[int] = graph["node_row_ptr"]
        nodes: Sequence[Mapping[str, Any]] = graph["nodes"]
        self._size = rows[-1]
        self._inputs: list[int] = []
        self._constants: list[int] = []
        self.constant_names: list[str] = []
        self._steps: list[Step] = []
        for nid, node in enumerate(nodes):
            if node["op"] not in KINDS:
                raise ArtifactError(f"{self.symbol}: node {nid} is of the unknown kind {node['op']!r}")
            if node["op"] == "input":
                self._inputs.extend(range(rows[nid], rows[nid + 1]))
            elif node["op"] == "const":
                self._constants.append(rows[nid])
                self.constant_names.append(str(node["name"]))
            else:
                self._steps.append(self._step(node, rows, rows[nid], rows[nid + 1], table))
        self._heads = [rows[nid] + index for nid, index, _ in graph["heads"]]

    @staticmethod
    def _step(node: Mapping[str, Any], rows: Sequence[int], first: int, stop: int, table: KernelTable) -> Step:
        kernel = table[str(node["name"])]
        attrs = decode_attributes(node["attrs"], kernel.attributes)
        sources = [rows[nid] + index for nid, index, _ in node.get("inputs", [])]
        declared: Sequence[Sequence[str]] = node["attrs"].get("dtype", [[]])
        wide = tuple(dtype == "int64" for dtype in declared[0]) if len(declared[0]) == stop - first else ()
        return functools.partial(_run_kernel, kernel, attrs, sources, first, stop, wide)

    def __call__(self, inputs: Sequence[np.ndarray], constants: Sequence[np.ndarray]) -> list[np.ndarray]:
        values: list[Any] = [None] * self._size
        for slot, value in zip(self._inputs, inputs, strict=True):
            values[slot] = value
        for slot, value in zip(self._constants, constants, strict=True):
            values[slot] = value
        for step in self._steps:
            check_time()
            step(values)
        return [values[head] for head in self._heads]


def _run_kernel(
    kernel: Kernel,
    attrs: dict[str, object],
    sources: list[int],
    first: int,
    stop: int,
    wide: tuple[bool, ...],
    values: list[Any],
) -> None:
    """Run one node; positions, which kernels count in int32, are widened where *wide* says that the graph has int64."""
    result = kernel(*kernel.regroup([values[s] for s in sources]), **attrs)
    results = result if isinstance(result, (tuple, list)) else (result,)
    if len(results) != stop - first:
        raise KernelError(f"kernel {kernel.name} gave {len(results)} outputs where the graph expects {stop - first}")
    for slot, value in zip(range(first, stop), results, strict=True):
        found = np.asarray(value)
        is_narrow = found.dtype == np.int32 and any(wide) and wide[slot - first]
        values[slot] = found.astype(np.int64) if is_narrow else found
