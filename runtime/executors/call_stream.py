"""Calls that follow each other on a device, whose copies go beside the computing: what ``Library.map`` gives.

Three calls are at work: the inputs of the newest, copied into memory that the device reads by itself, go to the device;
the kernels of the one before stand in its queue; the oldest is computed, or its outputs come back. Each has memory of
its own, in a slot that is used again, so that no kernel's arguments change from round to round.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from byoc.runtime.core.errors import DeviceError
from byoc.runtime.core.time_limit import patience, time_limit
from byoc.runtime.executors.bound_library import AGAIN, BoundLibrary, BoundRun, Value
from byoc.runtime.graph.graph import Entry
from byoc.runtime.region.call import Pending
from byoc.runtime.region.device_tensor import DeviceTensor, OnDeviceFunction

AHEAD = 2  # calls at work behind the one whose outputs are waited for: one in the queue, one on its way there
LEAST_COPIES = 2 << 20  # bytes of inputs and outputs: with less the host limits a call, which has more to do here
LARGEST_INPUTS = 32 << 20  # bytes: of more the host's own copy takes as long as the device's work
Run = Callable[[Mapping[str, object], float | None], list[np.ndarray]]  # on inputs, within seconds


def mapped(
    idle: deque[CallStream | None],
    bind: Callable[[], BoundLibrary] | None,
    run: Run,
    calls: Iterable[Mapping[str, object]],
    timeout: float | None,
) -> Iterator[list[np.ndarray]]:
    """What ``Library.map`` gives: by one of *idle*, or by a new stream where what *bind* gives is worth one.

    Else by *run*, which makes one call; None among *idle* says that no stream is worth it.
    """
    try:
        stream = idle.pop()
    except IndexError:
        bound = None if bind is None else bind()
        stream = CallStream(bound) if bound is not None and bound.copies_beside else None
    if stream is None:
        idle.append(None)
        for inputs in calls:
            yield run(inputs, timeout)
        return
    yield from stream.outputs(run, calls, timeout)
    idle.append(stream)


class CallStream:
    """What makes such calls, one stream of them at a time: *bound*, which keeps its outputs on the device."""

    def __init__(self, bound: BoundLibrary):
        self.bound = bound
        self.readers = {node.outputs[0]: bound.reader(node.outputs[0]) for node in bound.graph.inputs}
        self._slots = itertools.cycle([_Slot() for _ in range(AHEAD + 1)])

    def outputs(
        self, alone: Run, calls: Iterable[Mapping[str, object]], timeout: float | None
    ) -> Iterator[list[np.ndarray]]:
        """The outputs for the inputs of each of *calls*, in their order, each of which may take *timeout* seconds.

        *alone* makes a call that the device refuses, and one of few bytes or with very large inputs.
        What goes wrong is raised in its turn, after the outputs of all calls before it.
        """
        at_work: deque[_Call] = deque()
        given, failed = iter(calls), None
        try:
            while failed is None:
                try:
                    inputs = next(given)
                except Exception as error:  # the end, or the caller's own
                    failed = error
                    break
                at_work.append(_Call(self, alone, inputs, next(self._slots), timeout))
                if len(at_work) > 1:
                    at_work[-2].start()
                while at_work and (len(at_work) > AHEAD or at_work[0].results is not None):
                    yield at_work.popleft().outputs()
            if at_work:
                at_work[-1].start()
            while at_work:
                yield at_work.popleft().outputs()
            if not isinstance(failed, StopIteration):
                raise failed
        except BaseException as error:
            for call in at_work:
                call.leave(patience(error))
            raise


class _Slot:
    """The memory of a call at work: by the graph's entries tensors on the device, and what they are copied from and to.

    Used again by a later call of the same shapes.
    """

    def __init__(self) -> None:
        self._tensors: dict[Entry, DeviceTensor] = {}
        self._hosts: dict[Entry, np.ndarray] = {}

    def tensor(self, entry: Entry, function: OnDeviceFunction, shape: Sequence[int], dtype: np.dtype) -> DeviceTensor:
        """A tensor on the device of *function*. Raises DeviceError."""
        found = self._tensors.get(entry)
        if found is None or (found.shape, found.dtype) != (tuple(shape), dtype):
            found = self._tensors[entry] = function.empty_on_device(shape, dtype)
        return found

    def host(self, entry: Entry, tensor: DeviceTensor) -> np.ndarray:
        """An array of the host for the elements of *tensor*."""
        found = self._hosts.get(entry)
        if found is None or (found.shape, found.dtype) != (tensor.shape, tensor.dtype):
            found = self._hosts[entry] = tensor.host_array()
        return found


class _Call:
    """A call with the memory of *slot*. Its *inputs*, which are copied and are the caller's again, go to the device."""

    def __init__(
        self, stream: CallStream, alone: Run, inputs: Mapping[str, object], slot: _Slot, timeout: float | None
    ):
        self._bound, self._alone, self._slot, self._timeout = stream.bound, alone, slot, timeout
        self._readers = stream.readers
        self._inputs: dict[str, Value] = {}
        self._copies: list[Pending] = []
        self._hosts: list[np.ndarray | None] = []  # where outputs come to that the device computes
        self._run: BoundRun | None = None
        self.results: list[np.ndarray] | None = None  # of a call that was made at once
        self._error: Exception | None = None
        with self._kept_for_its_turn():
            self._inputs = stream.bound.checked(inputs)
            run = BoundRun(stream.bound, self._inputs, slot.tensor)
            if not self._is_worth_it(run):
                self.results = self._alone(self._inputs, self._timeout)
                return
            with self._kept_for_its_turn(DeviceError):  # an ordinary call needs less memory of the device
                self._write(run)

    def _is_worth_it(self, run: BoundRun) -> bool:
        copied = sum(v.nbytes for v in self._inputs.values() if isinstance(v, np.ndarray))
        return copied <= LARGEST_INPUTS and copied + sum(map(run.nbytes, self._bound.graph.heads)) >= LEAST_COPIES

    def _write(self, run: BoundRun) -> None:
        """Begin to copy the inputs of *run* to the device."""
        self._run, inputs, graph = run, self._inputs, self._bound.graph
        for node in graph.inputs:
            value, entry = inputs[node.name], node.outputs[0]
            if isinstance(value, DeviceTensor):
                continue
            function = self._readers[entry]
            if function is None:
                inputs[node.name] = value.copy()
                run.put(entry, inputs[node.name])
                continue
            tensor = self._slot.tensor(entry, function, value.shape, value.dtype)
            run.put(entry, tensor)
            inputs[node.name] = host = self._slot.host(entry, tensor)
            np.copyto(host, value)
            self._copies.append(tensor.start_write(host))

    def start(self) -> None:
        """Put the kernels into the device's queues, and the copies of what they make behind them.

        The inputs are waited for here: they went while the call before was computed.
        """
        run = self._run
        if run is None:
            return
        with self._kept_for_its_turn():
            self._wait_for_copies()
            run.begin()
            for head, result in zip(self._bound.graph.heads, run.results(), strict=True):
                host = self._slot.host(head, result) if isinstance(result, DeviceTensor) else None
                if isinstance(result, DeviceTensor) and host is not None:
                    self._copies.append(result.start_read(host))
                self._hosts.append(host)

    @contextlib.contextmanager
    def _kept_for_its_turn(self, *repaired: type[Exception]) -> Iterator[None]:
        """What goes wrong is raised when the outputs are asked for; after *repaired* the call is made alone then."""
        again: tuple[type[Exception], ...] = (*AGAIN, *repaired)
        try:
            with time_limit(self._timeout):
                yield
        except again:
            self.leave(None)
            self._inputs = {k: v if isinstance(v, DeviceTensor) else v.copy() for k, v in self._inputs.items()}
        except Exception as error:
            self.leave(patience(error))
            self._error = error

    def _wait_for_copies(self) -> None:
        for copy in self._copies:
            copy.wait()
        self._copies.clear()

    def outputs(self) -> list[np.ndarray]:
        """Wait for the call, and give its outputs, in new arrays. Raises what went wrong since it was started."""
        if self._error is not None:
            raise self._error
        if self.results is not None:
            return self.results
        with time_limit(self._timeout):
            if self._run is None:
                return self._alone(self._inputs, self._timeout)
            try:
                results = self._run.end()
                self._wait_for_copies()
            except AGAIN:
                self.leave(None)
                return self._alone(self._inputs, self._timeout)
            except BaseException as error:
                self.leave(patience(error))
                raise
        return [np.array(r if h is None else h) for r, h in zip(results, self._hosts, strict=True)]

    def leave(self, seconds: float | None) -> None:
        """Have the call end, whatever becomes of it; after *seconds* it is left behind with its memory."""
        run, self._run = self._run, None
        if run is not None:
            run.abandon(seconds)
        for copy in self._copies:
            with contextlib.suppress(Exception), time_limit(seconds):
                copy.wait()
        self._copies.clear()
