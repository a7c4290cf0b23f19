"""What the executors of a graph share: the inputs that are set, their checks, and the limits of the machine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.errors import InputError, UserError
from byoc.runtime.core.ndarray import NDArray, from_any, numpy_dtype
from byoc.runtime.core.processor import usable_processors
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.core.time_limit import time_limit
from byoc.runtime.graph.graph import Graph, LoopCall, LoopResult, Node
from byoc.runtime.graph.memory_plan import physical_memory

if TYPE_CHECKING:
    from byoc.runtime.region.guard import RegionGuard
    from byoc.runtime.region.record import Fallback

FEWEST_OPERATIONS = 4_000_000  # of a run that is worth a second thread


class Executor:
    """Runs one graph: ``set_input``, ``run``, ``get_output``, or a call with all inputs by name.

    Raises InputError for an input that is missing, unknown, or of another shape or dtype.
    """

    def __init__(self, graph: Graph):
        self.graph = graph
        self._guards: Sequence[RegionGuard] = ()
        self._values: dict[str, np.ndarray] = dict(graph.defaults)
        self._names = [node.name for node in graph.inputs]
        self._specs = [graph.specs[node.outputs[0]] for node in graph.inputs]

    def set_input(self, key: str | int, value: object) -> None:
        """Set an input by its name or position; the value is taken over when the graph runs."""
        name = self._names[key] if isinstance(key, int) and 0 <= key < len(self._names) else key
        if not isinstance(name, str):
            raise InputError(f"the model has no input {key!r}; its inputs are {', '.join(self._names)}")
        check_known(self._names, [name], self.graph.fixed)
        self._values[name] = as_input(value, self._specs[self._names.index(name)])

    def run(self, timeout: object = None, **inputs: object) -> None:
        """Run the graph on the inputs that are set, *inputs* first; it may take *timeout* seconds.

        A model that has an input called ``timeout`` takes it by that name, and has no limit here.

        Raises InputError when an input is missing, RunTimeoutError when the time is over.
        """
        if timeout is not None and "timeout" in self._names:
            inputs["timeout"], timeout = timeout, None
        for name, value in inputs.items():
            self.set_input(name, value)
        if timeout is None:
            self._run_once()
            return
        with time_limit(timeout):
            self._run_once()

    def _run_once(self) -> None:
        """Run the graph on the inputs that are set, within the time limit of this thread."""
        raise NotImplementedError

    def get_output(self, index: int = 0) -> NDArray:
        """Output *index* of the last run. Raises UserError before a run, and for a number that no output has."""
        raise NotImplementedError

    def __call__(self, inputs: Mapping[str, object]) -> list[np.ndarray]:
        """Set *inputs*, run, and return all outputs in arrays of the caller's own."""
        raise NotImplementedError

    def compute(self, inputs: Sequence[object]) -> list[np.ndarray]:
        """As a call, with all inputs in their order."""
        return self(dict(zip(self._names, inputs, strict=True)))

    def loop(self, call: LoopCall, inputs: Sequence[object]) -> LoopResult | None:
        """Runs that follow each other as *call* says, the first on *inputs*, without Python in between.

        None where this executor cannot: the caller makes each run by itself. Raises InputError for an input that does
        not fit.
        """
        return None

    @property
    def input_values(self) -> Mapping[str, np.ndarray]:
        """The inputs that are set, by name."""
        return self._values

    @property
    def fallbacks(self) -> list[Fallback]:
        """The regions of this graph that ran on the host instead, so far, in whatever executor of the library."""
        return [record for guard in self._guards for record in guard.fallbacks]

    def get_num_outputs(self) -> int:
        """How many outputs the graph has."""
        return len(self.graph.heads)

    def get_num_inputs(self) -> int:
        """How many inputs the graph has."""
        return len(self._names)

    def _checked_index(self, index: object) -> int:
        if not isinstance(index, int) or not 0 <= index < len(self.graph.heads):
            raise UserError(f"the outputs are numbered from 0 to {len(self.graph.heads) - 1}, got {index!r}")
        return index

    def _bound_sizes(self) -> Sizes:
        """The sizes of the named dimensions, from the inputs that are set. Raises InputError."""
        check_names(self._specs, self._values)
        sizes = Sizes()
        for name, spec in zip(self._names, self._specs, strict=True):
            spec.bind(self._values[name], sizes)
        return sizes


class ComputingExecutor(Executor):
    """One whose :meth:`compute` makes all outputs at once, in new arrays, of all inputs in their order."""

    def __init__(self, graph: Graph):
        super().__init__(graph)
        self._outputs: list[np.ndarray] | None = None  # of the last run by set inputs

    def __call__(self, inputs: Mapping[str, object]) -> list[np.ndarray]:
        for name, value in inputs.items():
            self.set_input(name, value)
        if len(self._values) != len(self._names):
            self._bound_sizes()
        return self.compute([self._values[name] for name in self._names])

    def _run_once(self) -> None:
        if len(self._values) != len(self._names):
            self._bound_sizes()
        self._outputs = None  # what a run leaves behind that fails is no output
        self._outputs = self.compute([self._values[name] for name in self._names])

    def get_output(self, index: int = 0) -> NDArray:
        """Output *index* of the last run, in an array that no other run writes to."""
        index = self._checked_index(index)
        if self._outputs is None:
            raise UserError("there is no output yet: call run first")
        return NDArray(self._outputs[index])

    def compute(self, inputs: Sequence[object]) -> list[np.ndarray]:
        """The outputs. Raises InputError for an input that does not fit."""
        raise NotImplementedError


def check_threads(threads: int | None) -> None:
    """Raises UserError for a number of threads below 1; None is as many as pay."""
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
        raise UserError(f"threads is a number from 1 on, got {threads!r}")


def thread_count(threads: int | None, operations: int) -> int:
    """How many threads run a program of *operations*: *threads*, or as many as there are processors, if that pays."""
    check_threads(threads)
    if threads is not None:
        return threads
    return usable_processors() if operations >= FEWEST_OPERATIONS else 1


def check_sizes(graph: Graph, sizes: Mapping[str, int]) -> None:
    """Refuse what cannot fit, before memory is taken: the sizes come from the model. Raises UserError."""
    limit = physical_memory()
    for spec in graph.kinds:
        shape = spec.concrete_shape(sizes)
        size = math.prod(shape) * numpy_dtype(spec.dtype).itemsize
        if size > limit:
            raise UserError(
                f"{spec.name}: {spec.dtype}{list(shape)} takes {size:,} bytes, this machine has {limit:,}; "
                "check the model's sizes and those of its inputs"
            )


def check_arena(size: int) -> None:
    """Refuse an arena of *size* bytes that this machine cannot hold. Raises UserError."""
    if size > physical_memory():
        raise UserError(
            f"the values between the model's nodes take {size:,} bytes, this machine has "
            f"{physical_memory():,}; run smaller inputs"
        )


def too_little(node: Node, error: MemoryError) -> UserError:
    """What is raised where *node* found no memory."""
    return UserError(f"{node.name}: this machine has too little memory ({error})")


def as_input(value: object, spec: TensorSpec) -> np.ndarray:
    """*value* as an array; numbers and sequences, which have no dtype, take that of *spec* where it holds their kind.

    Raises InputError for what is no array.
    """
    from byoc.runtime.core.strings import as_strings

    try:
        array = np.asarray(from_any(value))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"input {spec.name!r}: a {type(value).__name__} that is no array ({error})") from error
    plain = isinstance(value, (int, float, list, tuple))
    if array.dtype.hasobject and not plain and not hasattr(value, "dtype"):
        by_name = "; inputs by name are for run: library.run(inputs)" if isinstance(value, Mapping) else ""
        raise InputError(f"input {spec.name!r}: a {type(value).__name__} is no array{by_name}")
    wanted = numpy_dtype(spec.dtype)
    if spec.dtype == "string":
        return as_strings(spec.name, array)
    return array.astype(wanted) if plain and np.can_cast(array.dtype, wanted, "same_kind") else array


def check_names(specs: Sequence[TensorSpec], inputs: object, fixed: Sequence[str] = ()) -> None:
    """Raises InputError for *inputs* that are no mapping, or have other names than *specs*: one unknown, some missing.

    *fixed* are names of inputs that were compiled as constants. Every way to run a model says it in these sentences.
    """
    if not isinstance(inputs, Mapping):
        raise InputError(f"run takes the inputs by name, as a dictionary, got a {type(inputs).__name__}")
    names = [spec.name for spec in specs]
    if len(inputs) != len(names) or not all(name in inputs for name in names):
        check_known(names, inputs, fixed)
        missing = [spec for spec in specs if spec.name not in inputs]
        raise InputError(
            f"input {', '.join(repr(s.name) for s in missing)} is missing; "
            f"the inputs are {', '.join(f'{s.name}: {s.dtype}{s}' for s in specs)}"
        )


def check_known(names: Sequence[str], given: Iterable[object], fixed: Sequence[str] = ()) -> None:
    """Raises InputError for the first of *given* that is none of *names*, those of a model's inputs."""
    unknown = [name for name in given if name not in names]
    if unknown and unknown[0] in fixed:
        raise InputError(
            f"the input {unknown[0]!r} has its value in the model, and was compiled as a constant: to give it another, "
            f"compile the model with overridable=[{unknown[0]!r}] (--overridable {unknown[0]})"
        )
    if unknown:
        raise InputError(f"the model has no input {unknown[0]!r}; its inputs are {', '.join(names) or 'none'}")
