"""The graph executor: nodes in topological order, each a function of the library, over one planned arena.

The graph is Relay's JSON layout (``nodes``, ``arg_nodes``, ``heads``, ``node_row_ptr``, ``attrs``). Everything that can
be decided before a run is: shapes are bound to the sizes of the inputs, buffers placed, and each node becomes a call
without arguments. A run then only calls them. Named dimensions are bound anew when an input changes its shape. A node
whose shapes are known only afterwards is marked ``dynamic`` and returns its outputs.

An input that lies in memory as the code reads it (contiguous, aligned, writable, of the right dtype) is not copied: the
functions get the caller's own memory, which they read during the run and never write to. It may be changed between
runs; it is copied where an output is the same memory, or where it is this executor's own. Of a call's outputs the large
ones are not copied either: the caller gets the memory that they were written to, and the next run has other memory.

Nodes that can be started (regions on a device of their own) are waited for when their outputs are read; until then the
memory that they read and write is nobody else's (``overlap.py``).
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.errors import InternalError, OutOfMemoryError, UserError
from byoc.runtime.core.ndarray import NDArray, numpy_dtype
from byoc.runtime.core.time_limit import LIMIT, check_time, patience
from byoc.runtime.files.file_memory import FileWatch
from byoc.runtime.graph.executor_base import Executor, check_arena, check_sizes, too_little
from byoc.runtime.graph.graph import RESHAPE, Entry, Graph, Node
from byoc.runtime.graph.memory_plan import Lifetime, MemoryPlan, plan_memory
from byoc.runtime.modules.module import Module, PackedFunction
from byoc.runtime.region.abandoned_work import at_work, hold
from byoc.runtime.region.function import guards_of
from byoc.runtime.region.vendor_time_limit import run_again

Step = Callable[[], object]  # of a started node a RegionCall
Wrap = Callable[[Node, Step], Step]
LARGE_OUTPUT = 1 << 18  # bytes from which other memory costs less than a copy


class GraphExecutor(Executor):
    """Runs one graph over the functions of a module tree, node by node; not for two threads at once.

    *params* gives values to inputs that the caller does not set.
    """

    def __init__(
        self, graph: Graph, module: Module, params: Mapping[str, NDArray] | None = None, watch: FileWatch | None = None
    ):
        super().__init__(graph)
        self._watch = watch
        self._functions: dict[str, PackedFunction] = {
            node.function: module[node.function] for node in graph.calls if node.function != RESHAPE
        }
        self._guards = guards_of(self._functions.values())
        self._calls = graph.calls
        self._overlap = graph.overlap()
        self._is_overlapping = any(self._overlap.is_started(k) for k in range(len(self._calls)))
        self._roots = graph.storage()
        self._shared = {self._roots[head] for head in graph.heads}  # their memory is handed out
        self._uses = self._uses_of([node.outputs[0] for node in graph.inputs])
        self._given_away = self._uses_of(self._outputs_alone())
        self._given: list[Entry] = []  # of those, whose memory the caller has by now
        self._taken: dict[str, np.ndarray] = {}  # the inputs that are read where they lie
        checked = {name for inner in module.walk() for name in getattr(inner, "sanitizers", ())}
        self._is_guarded = "address" in checked  # each value has memory of its own, whose ends are known
        self._complete = False
        self._sizes: Sizes | None = None
        self._buffers: dict[Entry, np.ndarray] = {}
        self._own: dict[Entry | None, np.ndarray] = {}  # the arena, and what outputs are written to
        self._steps: list[Callable[[], object]] = []
        self.memory = MemoryPlan((), 0)
        self.wrap: Wrap | None = None  # what a profiler puts around the steps of a run
        for name, value in (params or {}).items():
            self.set_input(name, value)

    def _run_once(self) -> None:
        run_again(self._attempt, len(self._guards))

    def _attempt(self) -> None:
        self._complete = False  # what a run leaves behind that fails is no output
        self._look_at_file()
        self._bind()
        for node in self.graph.inputs:
            self._take(node)
        try:
            steps = self._steps if self.wrap is None else list(map(self.wrap, self._calls, self._steps))
            if self._is_overlapping:
                self._run_overlapping(steps)
            else:
                self._run_in_order(steps)
        except BaseException:
            self._leave_memory()
            raise
        self._look_at_file()  # what was computed meanwhile may be of both contents
        self._complete = True

    def _look_at_file(self) -> None:
        if self._watch is not None:
            self._watch.check()

    def _run_in_order(self, steps: Sequence[Step]) -> None:
        for node, step in zip(self._calls, steps, strict=True):
            if LIMIT.deadline:
                check_time()
            try:
                step()
            except MemoryError as error:
                raise too_little(node, error) from error

    def _leave_memory(self) -> None:
        """Take other memory for the next run, where something is at work on that of the one that failed."""
        if at_work():
            hold((self._buffers, self._own, dict(self._values)))
            self._sizes = None

    def _run_overlapping(self, steps: Sequence[Step]) -> None:
        """The steps in their order, those that can be started being waited for only when they are needed."""
        order = self._overlap
        try:
            for k, (node, step) in enumerate(zip(self._calls, steps, strict=True)):
                with _named(node):
                    check_time()
                    self._wait(steps, order.waits[k])
                    if order.is_started(k):
                        step.start([steps[a] for a in order.after[k]])  # type: ignore[attr-defined]  # a RegionCall
                    else:
                        step()
            self._wait(steps, order.waits[-1])
        except BaseException as error:
            for k, step in enumerate(steps):
                if order.is_started(k):
                    step.abandon(patience(error))  # type: ignore[attr-defined]  # the same
            raise

    def _wait(self, steps: Sequence[Step], started: Sequence[int]) -> None:
        for k in started:
            with _named(self._calls[k]):
                steps[k].wait()  # type: ignore[attr-defined]  # a RegionCall

    def _take(self, node: Node) -> None:
        """Have the steps read the input's value where it lies, or copy it."""
        value, entry = self._values[node.name], node.outputs[0]
        if self._taken.get(node.name) is value:
            return
        if self._can_take(value, entry):
            self._taken[node.name] = value
            self._place(entry, value)
        else:
            if node.name in self._taken:
                del self._taken[node.name]
                self._place(entry, self._empty(value.shape, entry))
            np.copyto(self._buffers[entry], value)

    def _uses_of(self, roots: Sequence[Entry]) -> dict[Entry, tuple[list[Entry], list[int]]]:
        """For each of *roots* the entries that are its memory, and the calls that read or fill it."""
        uses: dict[Entry, tuple[list[Entry], list[int]]] = {root: ([], []) for root in roots}
        for entry, root in self._roots.items():
            if root in uses:
                uses[root][0].append(entry)
        for k, node in enumerate(self._calls):
            for root in dict.fromkeys(self._roots[e] for e in (*node.inputs, *node.outputs)):
                if root in uses:
                    uses[root][1].append(k)
        return uses

    def _outputs_alone(self) -> list[Entry]:
        """The memory of outputs that is no input's and no other output's, where its dtype is one of numbers."""
        inputs = {node.outputs[0] for node in self.graph.inputs}
        roots = [self._roots[head] for head in self.graph.heads if None not in self.graph.specs[head].shape]
        alone = [root for root in roots if root not in inputs and roots.count(root) == 1]
        return [root for root in alone if not self._dtype(root).hasobject]

    def _can_take(self, value: np.ndarray, entry: Entry) -> bool:
        flags = value.flags
        if not (flags.c_contiguous and flags.aligned and flags.writeable) or value.dtype != self._dtype(entry):
            return False
        if value.dtype.hasobject or entry in self._shared:
            return False
        return not any(np.may_share_memory(value, array) for array in self._own.values())

    def _place(self, entry: Entry, memory: np.ndarray) -> None:
        """Let *memory* be what the input *entry* and its reshapes are read from."""
        self._move(self._uses[entry], memory)

    def _move(self, uses: tuple[list[Entry], list[int]], memory: np.ndarray) -> None:
        names, calls = uses
        for name in names:
            self._buffers[name] = memory.reshape(self._buffers[name].shape)
        for k in calls:
            self._steps[k] = self._prepare(self._calls[k], self.sizes)

    def get_output(self, index: int = 0) -> NDArray:
        """Output *index* of the last run: a view that the next run overwrites.

        Raises UserError before a run, and for a number that no output has.
        """
        index = self._checked_index(index)
        if not self._complete:
            raise UserError("there is no output yet: call run first")
        return NDArray(self._buffers[self.graph.heads[index]])

    @property
    def steps(self) -> Sequence[Callable[[], object]]:
        """The calls of the nodes that call a function, in order, as the last run prepared them."""
        return tuple(self._steps)

    def live_bytes(self) -> list[int]:
        """For each of the steps, as the last run prepared them: bytes of all values that are needed while it runs."""
        shapes = {entry: array.shape for entry, array in self._buffers.items()}
        roots = {entry: self._roots[entry] for entry in shapes}
        lives = self._lifetimes(shapes, roots, set()).values()
        return [sum(v.size for v in lives if v.first <= k <= v.last) for k in range(len(self._calls))]

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes of the free dimensions in the last run."""
        return self._sizes or {}

    @property
    def buffers(self) -> Mapping[Entry, np.ndarray]:
        """The memory of each entry, as the last run left it; another entry may have taken its place since."""
        return self._buffers

    def value_of(self, entry: Entry) -> np.ndarray | None:
        """What stands in the place of *entry* after a run, or None; another entry may have taken the place since."""
        return self._buffers.get(entry)

    def __call__(self, inputs: Mapping[str, object]) -> list[np.ndarray]:
        """Set *inputs*, run, and return all outputs, which are the caller's."""
        for name, value in inputs.items():
            self.set_input(name, value)
        self.run()
        return [self._given_output(head) for head in self.graph.heads]

    def _given_output(self, head: Entry) -> np.ndarray:
        """An output's own memory where it is large and nothing else, else a copy."""
        memory, root = self._buffers[head], self._roots[head]
        if memory.nbytes < LARGE_OUTPUT or root not in self._given_away or self._is_guarded:
            return memory.copy()
        self._given.append(root)
        return memory

    def _replace_given(self) -> None:
        """Other memory for the outputs whose memory the caller has."""
        given, self._given = self._given, []
        for root in given:
            self._own[root] = self._empty(self._own[root].shape, root)
            self._move(self._given_away[root], self._own[root])

    def _bind(self) -> None:
        sizes = self._bound_sizes()
        if sizes != self._sizes:
            self._sizes = None  # until all is in place: a failure below must not leave half of it in use
            self._taken.clear()
            self._allocate(sizes)
            self._steps = [self._prepare(node, sizes) for node in self._calls]
            self._given.clear()
            self._sizes = sizes
        self._replace_given()

    def _allocate(self, sizes: Mapping[str, int]) -> None:
        """Place every entry of known shape: intermediates in one arena, inputs and outputs in buffers of their own."""
        shapes = {
            entry: spec.concrete_shape(sizes) for entry, spec in self.graph.specs.items() if None not in spec.shape
        }
        check_sizes(self.graph, sizes)
        roots = {entry: self._roots[entry] for entry in shapes}
        own = {roots[node.outputs[0]] for node in self.graph.inputs}
        own |= {roots[head] for head in self.graph.heads if head in roots}
        if self._is_guarded:
            own = set(roots.values())
        lifetimes = self._lifetimes(shapes, roots, own)
        self.memory = plan_memory(list(lifetimes.values()))
        check_arena(self.memory.total)
        arena = np.empty(self.memory.total + 64, np.uint8)
        base = -arena.ctypes.data % 64
        offsets = dict(zip(lifetimes, self.memory.offsets, strict=True))
        storage = {
            root: _view(arena, base + offsets[root], shapes[root], self._dtype(root))
            if root in offsets
            else self._empty(shapes[root], root)
            for root in dict.fromkeys(roots.values())
        }
        heads = {roots[head] for head in self.graph.heads if head in roots}
        self._own = {None: arena, **{root: storage[root] for root in dict.fromkeys(roots.values()) if root in heads}}
        self._buffers = {entry: storage[roots[entry]].reshape(shape) for entry, shape in shapes.items()}

    def _empty(self, shape: tuple[int, ...], entry: Entry) -> np.ndarray:
        dtype = self._dtype(entry)
        return np.empty(shape, dtype) if self._is_guarded else _aligned_empty(shape, dtype)

    def _dtype(self, entry: Entry) -> np.dtype:
        return numpy_dtype(self.graph.specs[entry].dtype)

    def _lifetimes(
        self, shapes: Mapping[Entry, tuple[int, ...]], roots: Mapping[Entry, Entry], own: set[Entry]
    ) -> dict[Entry, Lifetime]:
        first: dict[Entry, int] = {}
        last: dict[Entry, int] = {}
        for step, node in enumerate(self._calls):
            done = self._overlap.end[step] - 1  # waited for before another step begins behind this one
            for entry in (*node.inputs, *node.outputs):
                root = roots.get(entry)
                if root is not None and root not in own:
                    first.setdefault(root, step)
                    last[root] = max(last.get(root, 0), done)
        return {
            root: Lifetime(math.prod(shapes[root]) * self._dtype(root).itemsize, first[root], last[root])
            for root in first
        }

    def _prepare(self, node: Node, sizes: Mapping[str, int]) -> Callable[[], object]:
        if node.function == RESHAPE:
            return _nothing
        function = self._functions[node.function]
        undetermined = getattr(function, "undetermined_sizes", ())
        given = ({name: sizes[name] for name in undetermined},) if undetermined else ()
        if node.dynamic:
            return functools.partial(self._run_dynamic, function, node, given)
        arrays = [self._buffers[e] for e in (*node.inputs, *node.outputs)]
        bind = getattr(function, "bind", None)
        return bind(arrays, *given) if bind is not None else functools.partial(function, *map(NDArray, arrays))

    def _run_dynamic(self, function: PackedFunction, node: Node, given: tuple[Mapping[str, int], ...]) -> None:
        """Call a function that returns its outputs; those of known shape go to their planned place.

        A kernel may return a view of what it was given, whose place in the arena is soon another's: that is copied.
        """
        inputs = [self._buffers[e] for e in node.inputs]
        results = function.call_returning(inputs, *given)  # type: ignore[attr-defined]  # of a native module
        for entry, result in zip(node.outputs, results, strict=True):
            if None in self.graph.specs[entry].shape:
                is_view = any(np.may_share_memory(result, array) for array in inputs)
                self._buffers[entry] = result.copy() if is_view else result
            elif result.shape != self._buffers[entry].shape:
                raise InternalError(f"{node.name}: planned {self._buffers[entry].shape}, computed {result.shape}")
            else:
                np.copyto(self._buffers[entry], result)


@contextlib.contextmanager
def _named(node: Node) -> Iterator[None]:
    try:
        yield
    except OutOfMemoryError:
        raise
    except MemoryError as error:
        raise too_little(node, error) from error


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
