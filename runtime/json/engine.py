"""The JSON engine: runs one graph in Relay's JSON layout over a table of kernels.

Everything that can be looked up is looked up once, when the engine is made: kernels, decoded attributes, entries.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from byoc.runtime.core.device_event import NO_FACTS, DeviceEvent, EventFacts
from byoc.runtime.core.errors import ArtifactError, ContractError, KernelError
from byoc.runtime.core.ndarray import dtype_name
from byoc.runtime.core.time_limit import check_time
from byoc.runtime.json.attributes import decode_attributes, guessed_annotations
from byoc.runtime.json.table import Kernels, operator_of, reference_attributes
from byoc.runtime.kernels.core.registry import NumpyKernel

Step = Callable[[list[object]], None]
KINDS = frozenset(["input", "const", "kernel"])


class JsonEngine:
    """One symbol's graph, ready to run: ``engine(inputs, constants) -> outputs``.

    Raises ArtifactError for a graph that is not in the layout, KernelError for a kernel that is not in the table,
    ContractError for one whose annotations do not fit its attributes.
    """

    def __init__(self, graph: Mapping[str, Any], table: Kernels):
        self.events: list[DeviceEvent] | None = None  # what its kernels took, while somebody profiles
        try:
            self._read(graph, table)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            if isinstance(error, (KernelError, ContractError)):
                raise
            raise ArtifactError(f"the JSON graph is not in the layout of byoc ({error!r})") from error

    def _read(self, graph: Mapping[str, Any], table: Kernels) -> None:
        self.symbol = str(graph["symbol"])
        rows: Sequence[int] = graph["node_row_ptr"]
        nodes: Sequence[Mapping[str, Any]] = graph["nodes"]
        self._size = rows[-1]
        self._inputs: list[int] = []
        self._constants: list[int] = []
        self.constant_names: list[str] = []
        self._steps: list[Step] = []
        self._names: list[str] = []
        for nid, node in enumerate(nodes):
            if node["op"] not in KINDS:
                raise ArtifactError(f"{self.symbol}: node {nid} is of the unknown kind {node['op']!r}")
            if node["op"] == "input":
                self._inputs.extend(range(rows[nid], rows[nid + 1]))
            elif node["op"] == "const":
                self._constants.append(rows[nid])
                self.constant_names.append(str(node["name"]))
            else:
                self._names.append(str(node["name"]))
                self._steps.append(self._step(node, rows, rows[nid], rows[nid + 1], table))
        self._heads = [rows[nid] + index for nid, index, _ in graph["heads"]]

    @staticmethod
    def _step(node: Mapping[str, Any], rows: Sequence[int], first: int, stop: int, table: Kernels) -> Step:
        name = str(node["name"])
        kernel = table[name]
        annotations, reference = kernel.attributes, reference_attributes(operator_of(name))
        if kernel.takes_all:
            annotations = {**guessed_annotations(node["attrs"]), **reference, **annotations}
        try:
            attrs = decode_attributes(node["attrs"], annotations, reference)
        except KernelError as error:
            raise ContractError(f"the kernel {name!r} of table {table.name!r} declares {error}") from error
        kernel.check_attributes(attrs)
        sources = [rows[nid] + index for nid, index, _ in node.get("inputs", [])]
        types = _declared(node["attrs"]) if table.has_own(name) else []
        declared: Sequence[Sequence[str]] = node["attrs"].get("dtype", [[]])
        wide = tuple(dtype == "int64" for dtype in declared[0]) if len(declared[0]) == stop - first else ()
        return functools.partial(_run_kernel, kernel, attrs, sources, range(first, stop), wide, types)

    def __call__(self, inputs: Sequence[np.ndarray], constants: Sequence[np.ndarray]) -> list[np.ndarray]:
        values: list[Any] = [None] * self._size
        for slot, value in zip(self._inputs, inputs, strict=True):
            values[slot] = value
        for slot, value in zip(self._constants, constants, strict=True):
            values[slot] = value
        if self.events is None:
            for step in self._steps:
                check_time()
                step(values)
        else:
            self._run_timed(values, self.events)
        return [values[head] for head in self._heads]

    def _run_timed(self, values: list[object], events: list[DeviceEvent]) -> None:
        for name, step in zip(self._names, self._steps, strict=True):
            check_time()
            begin = time.perf_counter()
            step(values)
            end, operator = time.perf_counter(), operator_of(name)
            facts = NO_FACTS if operator == name else EventFacts(operators=(operator,))
            events.append(DeviceEvent(self.symbol, name, begin, end, facts=facts))


def _run_kernel(
    kernel: NumpyKernel,
    attrs: dict[str, object],
    sources: list[int],
    slots: range,
    wide: tuple[bool, ...],
    types: Sequence[tuple[str, Sequence[int]]],
    values: list[Any],
) -> None:
    """Run one node; positions, which kernels count in int32, are widened where *wide* says that the graph has int64.

    *types* are what a vendor's kernel must give: dtypes and shapes, in which -1 is any size.
    """
    result = kernel(*kernel.regroup([values[s] for s in sources]), **attrs)
    results = result if isinstance(result, (tuple, list)) else (result,)
    if any(r is None for r in results):
        raise KernelError(f"kernel {kernel.name} gave nothing (None) for an output: it must return its results")
    if len(results) != len(slots):
        raise KernelError(f"kernel {kernel.name} gave {len(results)} outputs where the graph expects {len(slots)}")
    for slot, value in zip(slots, results, strict=True):
        found = np.asarray(value)
        is_narrow = found.dtype == np.int32 and any(wide) and wide[slot - slots.start]
        values[slot] = found.astype(np.int64) if is_narrow else found
    for k, (slot, (dtype, shape)) in enumerate(zip(slots, types, strict=False)):
        found = values[slot]
        fits = found.shape == shape or _fits(found.shape, shape)
        if not fits or dtype_name(found.dtype) != dtype:
            raise _unfit(kernel.name, k, found, dtype, shape)


def _declared(attrs: Mapping[str, Any]) -> list[tuple[str, tuple[int, ...]]]:
    """The dtypes and shapes of a node's outputs; nothing where its attributes do not give them."""
    if "dtype" not in attrs or "shape" not in attrs:
        return []
    return [(dtype, tuple(shape)) for dtype, shape in zip(attrs["dtype"][0], attrs["shape"][0], strict=True)]


def _fits(found: tuple[int, ...], wanted: Sequence[int]) -> bool:
    return len(found) == len(wanted) and all(w in (-1, f) for f, w in zip(found, wanted, strict=True))


def _unfit(kernel: str, k: int, found: np.ndarray, dtype: str, shape: Sequence[int]) -> KernelError:
    wanted = ", ".join("?" if d == -1 else str(d) for d in shape)
    is_other = found.dtype == object and not found.shape  # a generator, an object of the vendor's own
    given = f"a {type(found.item()).__name__}" if is_other else f"{dtype_name(found.dtype)}{list(found.shape)}"
    return KernelError(
        f"kernel {kernel} gave {given} for its output {k}, where the graph has "
        f"{dtype}[{wanted}]: it must give what the operator's type says"
    )
