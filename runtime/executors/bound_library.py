"""Runs of a library whose inputs and outputs may stay on a device: a decoder's caches, an encoder's result.

Values go from region to region on the device where they can: one that only regions of a device read, or that the
caller keeps there, is not copied to the host. What the host computes gets copies. Nodes are called one after the
other; regions are only put into their queues, and waited for where the host needs what they make, or at the end. Where
a backend fails and the host stands in, the run is made again, with arrays in the place of tensors of that region.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.errors import DeviceError, InputError, RunAgainError
from byoc.runtime.core.fork import new_lock
from byoc.runtime.core.ndarray import NDArray, numpy_dtype
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.core.time_limit import check_time, patience, time_limit
from byoc.runtime.graph.executor_base import as_input, check_names, check_sizes
from byoc.runtime.graph.graph import RESHAPE, Entry, Graph, Node
from byoc.runtime.modules.module import Module
from byoc.runtime.region.call import Pending
from byoc.runtime.region.device_tensor import DeviceTensor, OnDeviceFunction, on_device_function
from byoc.runtime.region.function import RegionFunction
from byoc.runtime.region.guard import RegionGuard

Value = np.ndarray | DeviceTensor


class BoundLibrary:
    """Runs a model on arrays and on tensors of its devices. One run at a time; others wait.

    *on_device* names the outputs that are given as tensors on the device. A run gives arrays for the others, and for
    those that the host computes.
    """

    def __init__(self, graph: Graph, module: Module, outputs: Sequence[TensorSpec], on_device: Iterable[str]):
        names = [spec.name for spec in outputs]
        asked = [on_device] if isinstance(on_device, str) else list(on_device)
        unknown = next((name for name in asked if name not in names), None)
        if unknown is not None:
            raise InputError(f"the model has no output {unknown!r}; its outputs are {', '.join(names)}")
        self.graph, self._lock = graph, new_lock()
        self.calls = graph.calls
        self.functions = {n.function: module[n.function] for n in graph.calls if n.function != RESHAPE}
        self._specs = {node.name: graph.specs[node.outputs[0]] for node in graph.inputs}
        roots = graph.storage()
        regions = {n.function for n in graph.calls if isinstance(self.functions.get(n.function), RegionFunction)}
        read_here = {
            roots[e] for n in graph.calls if n.function not in regions and n.function != RESHAPE for e in n.inputs
        }
        given = {roots[h] for h, name in zip(graph.heads, names, strict=True) if name not in asked}
        self._on_host = read_here | given  # the values that the host needs
        self._roots = roots
        self.fits = False  # into this machine's memory, with whatever sizes a run has
        self._guards = {f.guard for f in self.functions.values() if isinstance(f, RegionFunction)}

    def run(self, inputs: Mapping[str, object], timeout: float | None = None) -> list[np.ndarray | DeviceTensor]:
        """All outputs for *inputs* by name, which are arrays or what earlier runs left on the device.

        Args:
            inputs: a value for each of the model's inputs.
            timeout: the seconds that the run may take; None for as long as it takes.

        Raises:
            InputError: an input does not fit, or an index in one is outside its dimension.
            DeviceError: what a device refuses, where the host does not stand in.
            RunTimeoutError: the time is over.
        """
        values = self.checked(inputs)
        with self._lock:
            if timeout is None:
                return self._run(values)
            with time_limit(timeout):
                return self._run(values)

    def to_device(self, array: object) -> DeviceTensor:
        """A copy of *array* on the device of the model's first region that has one, for inputs of many runs.

        Raises DeviceError where no region runs on a device that keeps tensors.
        """
        for node in self.graph.calls:
            function = self.functions.get(node.function)
            if isinstance(function, RegionFunction) and (found := on_device(function.guard)) is not None:
                return found.to_device(np.asarray(array, order="C"))
        raise DeviceError("no region of this model runs on a device that keeps tensors: compile it for opencl")

    def is_on_host(self, entry: Entry) -> bool:
        """Whether the host needs the value of *entry*: its functions read it, or the caller asked for an array."""
        return self._roots[entry] in self._on_host

    @property
    def copies_beside(self) -> bool:
        """Whether devices with memory of their own compute all that there is, so that copies go beside their work."""
        calls = [(n, self.functions[n.function]) for n in self.graph.calls if n.function != RESHAPE]
        try:
            return bool(calls) and all(
                isinstance(f, RegionFunction)
                and not n.dynamic
                and f.guard.checks is None
                and not f.guard.has_known_outputs
                and getattr(on_device(f.guard), "has_own_memory", False)
                for n, f in calls
            )
        except Exception:  # whatever a vendor's code raises: a run says it, or has the host stand in
            return False

    def reader(self, entry: Entry) -> OnDeviceFunction | None:
        """What keeps tensors of the device whose region reads *entry* first; None where none does."""
        for node in self.graph.calls:
            function = self.functions.get(node.function)
            if isinstance(function, RegionFunction) and self._roots[entry] in [self._roots[e] for e in node.inputs]:
                return on_device(function.guard)
        return None

    def checked(self, inputs: Mapping[str, object]) -> dict[str, Value]:
        """*inputs* as arrays and tensors. Raises InputError for other names than the model's, and what is no array."""
        inputs = self.graph.completed(inputs)
        check_names(list(self._specs.values()), inputs, self.graph.fixed)
        return {
            name: value if isinstance(value := inputs[name], DeviceTensor) else as_input(value, spec)
            for name, spec in self._specs.items()
        }

    def _run(self, inputs: Mapping[str, Value]) -> list[Value]:
        for _ in self._guards:
            try:
                return BoundRun(self, inputs).outputs()
            except AGAIN:
                continue
        return BoundRun(self, inputs).outputs()


class FailedError(Exception):
    """A region failed for which the host stands in."""


AGAIN = (FailedError, RunAgainError)  # the guard has a record of it, and the host has the region from now on
Memory = Callable[[Entry, OnDeviceFunction, Sequence[int], np.dtype], DeviceTensor]


def _new_memory(entry: Entry, function: OnDeviceFunction, shape: Sequence[int], dtype: np.dtype) -> DeviceTensor:
    return function.empty_on_device(shape, dtype)


class BoundRun:
    """One run: the values of the graph's entries so far, and the calls that are at work.

    *memory* gives tensors of a device for what is computed there; a new one each time where it is not given.
    """

    def __init__(self, bound: BoundLibrary, inputs: Mapping[str, Value], memory: Memory = _new_memory):
        self._bound, self._graph, self._memory = bound, bound.graph, memory
        self._sizes = Sizes()
        self._values: dict[Entry, Value] = {}
        self._at_work: list[tuple[RegionGuard, tuple[tuple[int, ...], ...], Pending]] = []
        for node in self._graph.inputs:
            self._graph.specs[node.outputs[0]].bind(inputs[node.name], self._sizes)
            self._values[node.outputs[0]] = inputs[node.name]
        if not bound.fits:
            check_sizes(self._graph, self._sizes)
            bound.fits = bound.graph.has_fixed_sizes

    def outputs(self) -> list[Value]:
        """Call the nodes in order, and give the graph's outputs."""
        self.begin()
        return self.end()

    def begin(self) -> None:
        """Call the nodes in order; regions of devices may still be at work then."""
        try:
            for node in self._bound.calls:
                check_time()
                self._call(node)
        except BaseException as error:
            self.abandon(patience(error))  # what is at work ends first
            raise

    def put(self, entry: Entry, value: Value) -> None:
        """Have *value*, which has the same elements or is about to have them, be that of *entry*."""
        self._values[entry] = value

    def nbytes(self, entry: Entry) -> int:
        """The bytes of the value of *entry*."""
        shape, dtype = self._type(entry)
        return math.prod(shape) * dtype.itemsize

    def results(self) -> list[Value]:
        """The graph's outputs when all nodes were called: tensors that the device may still be filling."""
        return [self._values[head] for head in self._graph.heads]

    def end(self) -> list[Value]:
        """Wait for what is at work, and give the graph's outputs."""
        try:
            self._wait()
        except BaseException as error:
            self.abandon(patience(error))
            raise
        given = [self._values[node.outputs[0]] for node in self._graph.inputs]
        outputs: list[Value] = []
        for head in self._graph.heads:
            value = self._values[head]
            if isinstance(value, DeviceTensor):
                outputs.append(value.numpy() if self._bound.is_on_host(head) else value)
            else:  # each output has memory of its own
                others = [v for v in (*given, *outputs) if isinstance(v, np.ndarray)]
                outputs.append(value.copy() if any(np.may_share_memory(v, value) for v in others) else value)
        return outputs

    def _call(self, node: Node) -> None:
        if node.function == RESHAPE:
            shape = self._graph.specs[node.outputs[0]].concrete_shape(self._sizes)
            self._values[node.outputs[0]] = self._values[node.inputs[0]].reshape(shape)
            return
        function = self._bound.functions[node.function]
        if isinstance(function, RegionFunction) and not node.dynamic and self._started(node, function.guard):
            return
        self._wait()
        inputs = [np.require(self._array(entry), requirements=["C", "A"]) for entry in node.inputs]
        undetermined = getattr(function, "undetermined_sizes", ())
        given = ({name: self._sizes[name] for name in undetermined},) if undetermined else ()
        returning: Callable[..., Sequence[np.ndarray]] | None = getattr(function, "call_returning", None)
        if node.dynamic and returning is not None:
            self._values.update(zip(node.outputs, returning(inputs, *given), strict=True))
            return
        outputs = [self._empty(entry) for entry in node.outputs]
        bind: Callable[..., Callable[[], object]] | None = getattr(function, "bind", None)
        if bind is not None:
            bind([*inputs, *outputs], *given)()
        else:
            function(*map(NDArray, [*inputs, *outputs]))
        self._values.update(zip(node.outputs, outputs, strict=True))

    def _started(self, node: Node, guard: RegionGuard) -> bool:
        """Put the region into its device's queue; False where that is not how it is to be called."""
        shapes = tuple(self._values[entry].shape for entry in node.inputs)
        if guard.checks is not None or guard.has_known_outputs or not guard.may_try(shapes):
            return False
        try:
            function = on_device(guard)
            if function is None:
                return False
            inputs = [self._readable(entry, function) for entry in node.inputs]
            outputs = [
                self._empty(entry)
                if self._bound.is_on_host(entry)
                else self._memory(entry, function, *self._type(entry))
                for entry in node.outputs
            ]
            self._at_work.append((guard, shapes, function.start([*inputs, *outputs], [])))
        except Exception as error:  # whatever a vendor's code raises
            guard.failed(shapes, error)
            raise FailedError from error
        self._values.update(zip(node.outputs, outputs, strict=True))
        return True

    def _readable(self, entry: Entry, function: OnDeviceFunction) -> Value:
        """The value of *entry* where *function* can read it; what is being made on another device is waited for."""
        value = self._values[entry]
        if isinstance(value, DeviceTensor):
            return value if function.holds(value) else value.numpy()
        if self._at_work and any(entry in node.outputs for node in self._bound.calls):
            self._wait()
        return value

    def _array(self, entry: Entry) -> np.ndarray:
        value = self._values[entry]
        return value.numpy() if isinstance(value, DeviceTensor) else value

    def _type(self, entry: Entry) -> tuple[tuple[int, ...], np.dtype]:
        spec = self._graph.specs[entry]
        return spec.concrete_shape(self._sizes), numpy_dtype(spec.dtype)

    def _empty(self, entry: Entry) -> np.ndarray:
        shape, dtype = self._type(entry)
        return np.empty(shape, dtype)

    def _wait(self) -> None:
        """Return when nothing is at work any more."""
        while self._at_work:
            guard, shapes, pending = self._at_work[0]
            try:
                pending.wait()
            except Exception as error:  # whatever a vendor's code raises
                guard.failed(shapes, error)
                raise FailedError from error
            del self._at_work[0]

    def abandon(self, seconds: float | None) -> None:
        """Have what is at work end, whatever becomes of it; after *seconds* it is left behind with its arrays."""
        for _, _, pending in self._at_work:
            with contextlib.suppress(Exception), time_limit(seconds):
                pending.wait()


def on_device(guard: RegionGuard) -> OnDeviceFunction | None:
    """The function of *guard*'s region, where it takes tensors on its device. Raises StageError."""
    return on_device_function(guard.function())
