"""The graph executor: nodes in topological order, each a function of the library, over one planned arena.

The graph is Relay's JSON layout (``nodes``, ``arg_nodes``, ``heads``, ``node_row_ptr``, ``attrs``). Everything that can
be decided before a run is: shapes are bound to the sizes of the inputs, buffers placed, and each node becomes a call
without arguments. A run then only calls them. Named dimensions are bound anew when an input changes its shape. A node
whose shapes are known only afterwards is marked ``dynamic`` and returns its outputs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.runtime.errors import InputError, InternalError, UserError
from byoc.runtime.memory_plan import Lifetime, MemoryPlan, physical_memory, plan_memory
from byoc.runtime.module import Module, PackedFunction
from byoc.runtime.ndarray import NDArray, from_any, numpy_dtype
from byoc.runtime.signature import TensorSpec

RESHAPE = "__nop"
Entry = tuple[int, int]


@dataclass(frozen=True)
class Node:
    """A node of the graph; ``function`` is empty for an input."""

    name: str
    function: str
    inputs: tuple[Entry, ...]
    outputs: tuple[Entry, ...]
    dynamic: bool = False


class Graph:
    """A graph read from its JSON form: nodes, the spec of every entry, inputs and heads."""

    def __init__(self, data: Mapping[str, object]):
        rows: Sequence[int] = data["node_row_ptr"]  # type: ignore[assignment]
        attrs: Mapping[str, Sequence[object]] = data["attrs"]  # type: ignore[assignment]
        shapes, dtypes = attrs["shape"][1], attrs["dltype"][1]
        self.nodes: list[Node] = []
        self.specs: dict[Entry, TensorSpec] = {}
        for index, raw in enumerate(data["nodes"]):  # type: ignore[arg-type, var-annotated]
            outputs = tuple((index, k) for k in range(rows[index + 1] - rows[index]))
            for k, entry in enumerate(outputs):
                position = rows[index] + k
                self.specs[entry] = TensorSpec(raw["name"], tuple(shapes[position]), dtypes[position])  # type: ignore[index]
            info = raw.get("attrs", {})
            self.nodes.append(
                Node(
                    raw["name"],
                    info.get("func_name", ""),
                    tuple((nid, k) for nid, k, _ in raw["inputs"]),
                    outputs,
                    info.get("dynamic") == "1",
                )
            )
        self.inputs = [self.nodes[i] for i in data["arg_nodes"]]  # type: ignore[union-attr]
        self.heads: list[Entry] = [(nid, k) for nid, k, _ in data["heads"]]  # type: ignore[union-attr]

    @property
    def calls(self) -> list[Node]:
        """The nodes that call a function, in order."""
        return [node for node in self.nodes if node.function]


class GraphExecutor:
    """Runs one graph over the functions of a module tree; not for two threads at once.

    ``set_input``, ``run``, ``get_output``, or calling the executor with all inputs. *params* gives values to inputs
    that the caller does not set. Raises InputError for an input that is missing, unknown, or of another shape or dtype.
    """

    def __init__(self, graph: Graph, module: Module, params: Mapping[str, NDArray] | None = None):
        self.graph = graph
        self._functions = {node.function: module[node.function] for node in graph.calls if node.function != RESHAPE}
        self._values: dict[str, np.ndarray] = {}
        self._names = [node.name for node in graph.inputs]
        self._sizes: dict[str, int] | None = None
        self._buffers: dict[Entry, np.ndarray] = {}
        self._steps: list[Callable[[], object]] = []
        self.memory = MemoryPlan((), 0)
        for name, value in (params or {}).items():
            self.set_input(name, value)

    def set_input(self, key: str | int, value: object) -> None:
        """Set an input by its name or position; the value is taken over when the graph runs."""
        name = self._names[key] if isinstance(key, int) and 0 <= key < len(self._names) else key
        if name not in self._names:
            raise InputError(f"the model has no input {key!r}; its inputs are {', '.join(self._names)}")
        node = self.graph.inputs[self._names.index(name)]
        self._values[name] = _as_input(value, self.graph.specs[node.outputs[0]])

    def run(self, **inputs: object) -> None:
        """Run the graph on the inputs that are set. Raises InputError when one is missing or does not fit."""
        for name, value in inputs.items():
            self.set_input(name, value)
        self._bind()
        for node in self.graph.inputs:
            np.copyto(self._buffers[node.outputs[0]], self._values[node.name])
        for node, step in zip(self.graph.calls, self._steps, strict=True):
            try:
                step()
            except MemoryError as error:
                raise UserError(f"{node.name}: this machine has too little memory ({error})") from error

    def get_output(self, index: int = 0) -> NDArray:
        """Output *index* of the last run: a view that the next run overwrites.

        Raises UserError before a run, and for a number that no output has.
        """
        if not isinstance(index, int) or not 0 <= index < len(self.graph.heads):
            count = len(self.graph.heads)
            raise UserError(f"the outputs are numbered from 0 to {count - 1}, got {index!r}")
        if not self._steps and not self._buffers:
            raise UserError("there is no output yet: call run first")
        return NDArray(self._buffers[self.graph.heads[index]])

    @property
    def input_values(self) -> Mapping[str, np.ndarray]:
        """The inputs that are set, by name."""
        return self._values

    @property
    def steps(self) -> Sequence[Callable[[], object]]:
        """The calls of the nodes that call a function, in order, as the last run prepared them."""
        return tuple(self._steps)

    def value_of(self, entry: Entry) -> np.ndarray | None:
        """What stands in the place of *entry* after a run, or None; another entry may have taken the place since."""
        return self._buffers.get(entry)

    def get_num_outputs(self) -> int:
        """How many outputs the graph has."""
        return len(self.graph.heads)

    def get_num_inputs(self) -> int:
        """How many inputs the graph has."""
        return len(self._names)

    def __call__(self, inputs: Mapping[str, object]) -> list[np.ndarray]:
        """Set *inputs*, run, and return copies of all outputs."""
        for name, value in inputs.items():
            self.set_input(name, value)
        self.run()
        return [self._buffers[head].copy() for head in self.graph.heads]

    def _bind(self) -> None:
        sizes: dict[str, int] = {}
        for node in self.graph.inputs:
            if node.name not in self._values:
                missing = [n for n in self._names if n not in self._values]
                known = ", ".join(self._names)
                raise InputError(f"input {', '.join(map(repr, missing))} is missing; the inputs are {known}")
            self.graph.specs[node.outputs[0]].bind(self._values[node.name], sizes)
        if sizes != self._sizes:
            self._sizes = None  # until all is in place: a failure below must not leave half of it in use
            self._allocate(sizes)
            self._steps = [self._prepare(node) for node in self.graph.calls]
            self._sizes = sizes

    def _allocate(self, sizes: Mapping[str, int]) -> None:
        """Place every entry of known shape: intermediates in one arena, inputs and outputs in buffers of their own."""
        shapes = {
            entry: spec.concrete_shape(sizes) for entry, spec in self.graph.specs.items() if None not in spec.shape
        }
        self._check_sizes(shapes)
        roots = self._storage_roots(shapes)
        own = {roots[node.outputs[0]] for node in self.graph.inputs}
        own |= {roots[head] for head in self.graph.heads if head in roots}
        lifetimes = self._lifetimes(shapes, roots, own)
        self.memory = plan_memory(list(lifetimes.values()))
        if self.memory.total > physical_memory():
            raise UserError(
                f"the values between the model's nodes take {self.memory.total:,} bytes, this machine has "
                f"{physical_memory():,}; run smaller inputs"
            )
        arena = np.empty(self.memory.total + 64, np.uint8)
        base = -arena.ctypes.data % 64
        offsets = dict(zip(lifetimes, self.memory.offsets, strict=True))
        storage = {
            root: _view(arena, base + offsets[root], shapes[root], self._dtype(root))
            if root in offsets
            else _aligned_empty(shapes[root], self._dtype(root))
            for root in dict.fromkeys(roots.values())
        }
        self._buffers = {entry: storage[roots[entry]].reshape(shape) for entry, shape in shapes.items()}

    def _check_sizes(self, shapes: Mapping[Entry, tuple[int, ...]]) -> None:
        """Refuse what cannot fit, before memory is taken: the sizes come from the model. Raises UserError."""
        limit = physical_memory()
        for entry, shape in shapes.items():
            size = math.prod(shape) * self._dtype(entry).itemsize
            if size > limit:
                spec = self.graph.specs[entry]
                raise UserError(
                    f"{spec.name}: {spec.dtype}{list(shape)} takes {size:,} bytes, this machine has {limit:,}; "
                    "check the model's sizes and those of its inputs"
                )

    def _dtype(self, entry: Entry) -> np.dtype:
        return numpy_dtype(self.graph.specs[entry].dtype)

    def _storage_roots(self, shapes: Mapping[Entry, tuple[int, ...]]) -> dict[Entry, Entry]:
        """The entry whose memory each entry uses: its own, but for reshapes that of their input."""
        roots = {entry: entry for entry in shapes}
        for node in self.graph.calls:
            if node.function == RESHAPE:
                roots[node.outputs[0]] = roots[node.inputs[0]]
        return roots

    def _lifetimes(
        self, shapes: Mapping[Entry, tuple[int, ...]], roots: Mapping[Entry, Entry], own: set[Entry]
    ) -> dict[Entry, Lifetime]:
        first: dict[Entry, int] = {}
        last: dict[Entry, int] = {}
        for step, node in enumerate(self.graph.calls):
            for entry in (*node.inputs, *node.outputs):
                root = roots.get(entry)
                if root is not None and root not in own:
                    first.setdefault(root, step)
                    last[root] = step
        return {
            root: Lifetime(math.prod(shapes[root]) * self._dtype(root).itemsize, first[root], last[root])
            for root in first
        }

    def _prepare(self, node: Node) -> Callable[[], object]:
        if node.function == RESHAPE:
            return _nothing
        function = self._functions[node.function]
        if node.dynamic:
            return functools.partial(self._run_dynamic, function, node)
        arrays = [self._buffers[e] for e in (*node.inputs, *node.outputs)]
        bind = getattr(function, "bind", None)
        return bind(arrays) if bind is not None else functools.partial(function, *map(NDArray, arrays))

    def _run_dynamic(self, function: PackedFunction, node: Node) -> None:
        """Call a function that returns its outputs; those of known shape go to their planned place.

        A kernel may return a view of what it was given, whose place in the arena is soon another's: that is copied.
        """
        inputs = [self._buffers[e] for e in node.inputs]
        results = function.call_returning(inputs)  # type: ignore[attr-defined]
        for entry, result in zip(node.outputs, results, strict=True):
            if None in self.graph.specs[entry].shape:
                is_view = any(np.may_share_memory(result, array) for array in inputs)
                self._buffers[entry] = result.copy() if is_view else result
            elif result.shape != self._buffers[entry].shape:
                raise InternalError(f"{node.name}: planned {self._buffers[entry].shape}, computed {result.shape}")
            else:
                np.copyto(self._buffers[entry], result)


def _as_input(value: object, spec: TensorSpec) -> np.ndarray:
    """*value* as an array; numbers and sequences, which have no dtype, take that of *spec* where it holds their kind.

    Raises InputError for what is no array.
    """
    try:
        array = np.asarray(from_any(value))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"input {spec.name!r}: a {type(value).__name__} that is no array ({error})") from error
    plain = isinstance(value, (int, float, list, tuple))
    if array.dtype.hasobject and not plain and not hasattr(value, "dtype"):
        raise InputError(f"input {spec.name!r}: a {type(value).__name__} is no array")
    wanted = numpy_dtype(spec.dtype)
    return array.astype(wanted) if plain and np.can_cast(array.dtype, wanted, "same_kind") else array


def _nothing() -> None:
    """A reshape that shares storage has nothing to do."""


def _view(arena: np.ndarray, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    count = math.prod(shape)
    if dtype.hasobject:
        return np.empty(shape, dtype)
    return np.frombuffer(arena, dtype, count, offset).reshape(shape)


def _aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if dtype.hasobject:
        return np.empty(shape, dtype)
    raw = np.empty(math.prod(shape) * dtype.itemsize + 64, np.uint8)
    return _view(raw, -raw.ctypes.data % 64, shape, dtype)
