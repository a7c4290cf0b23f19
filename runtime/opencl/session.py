"""A function on a device: its constants, and for each set of sizes its buffers with kernels whose arguments are set.

Which kernels these are, where several compute a step, is chosen for the sizes when they first come.

All work of a call goes into the function's own in-order queue: inputs are written, kernels follow each other, outputs
are read. Nothing waits there: a call that is started ends with an event, and a call which reads what it makes begins
behind that event, in whatever queue; only who needs the outputs on the host waits for it. Buffers, which lie in a few
pieces of memory (``device_memory.py``), and kernels of the most recent sizes are kept, so that a call with known sizes
allocates nothing. Calls are put into the queue one by one,
under a lock, since a kernel's arguments are state of the kernel.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.device_work import begin_work
from byoc.runtime.core.errors import DeviceError, DeviceMemoryError, InputError
from byoc.runtime.core.fork import new_lock
from byoc.runtime.core.ndarray import NDArray, from_any
from byoc.runtime.core.time_limit import seconds_left, timed_out
from byoc.runtime.executors.shape_cache import ShapeCache
from byoc.runtime.opencl.commands.command_buffer import CommandBuffers, command_buffers
from byoc.runtime.opencl.commands.event_free_launches import event_free_launches
from byoc.runtime.opencl.commands.launches import LaunchList
from byoc.runtime.opencl.commands.options import RunOptions
from byoc.runtime.opencl.commands.waiting import is_complete, wait_for
from byoc.runtime.opencl.counts import DeviceCounts
from byoc.runtime.opencl.device_array import DeviceArray, blocks_of
from byoc.runtime.opencl.device_memory import FunctionMemory, TensorPart
from byoc.runtime.opencl.devices import DeviceInfo, OpenDevice, import_pyopencl
from byoc.runtime.opencl.flush_trial import flush_every
from byoc.runtime.opencl.found_indices import FoundIndices, check_found
from byoc.runtime.opencl.images import texels
from byoc.runtime.opencl.launches import FunctionPlan
from byoc.runtime.opencl.pinned import PinnedPieces, landing, result_pieces
from byoc.runtime.opencl.process import driver_use, in_driver
from byoc.runtime.opencl.ready_kernels import ReadyKernels
from byoc.runtime.opencl.staged_copies import copy_by_threads, upload
from byoc.runtime.opencl.timed_events import OnTimes, TimedEvents, header_of_copy
from byoc.runtime.region.abandoned_work import abandon
from byoc.runtime.region.call import Pending
from byoc.runtime.region.device_tensor import DeviceTensor
from byoc.runtime.region.variants import ChosenVariants

if TYPE_CHECKING:
    import pyopencl

Named = tuple[tuple[str, int], ...]  # sizes
KEPT_SIZES = 4
HANGING_SECONDS = 30.0  # that a call which was given up may still take before the next one
MOST_RECORDS = 64  # sets of sizes whose kernels are reported


def gains_by_quiet(info: DeviceInfo) -> bool:
    """Whether launches without events are faster: on GPUs; PoCL takes as long either way."""
    return info.kind != "cpu"


@dataclass(frozen=True)
class _Binding:
    """What a call with certain sizes uses: buffers by number, and launches that are ready to go."""

    parts: Mapping[int, TensorPart]
    launches: LaunchList


class Session:
    """Runs one symbol. Made when the symbol is first used, with its constants."""

    @in_driver
    def __init__(
        self,
        plan: FunctionPlan,
        program: pyopencl.Program,
        opened: OpenDevice,
        constants: Sequence[NDArray],
        on_times: OnTimes | None = None,
        counts: DeviceCounts | None = None,
        options: RunOptions = RunOptions(),  # noqa: B008  # frozen
    ):
        cl = import_pyopencl()
        self._on_times = on_times  # what gets the times of kernels and copies
        driver_use().keep(self)
        self._cl, self._plan, self._program, self._opened = cl, plan, program, opened
        self._read = {b for launch in plan.launches for b in launch.buffers}  # of another input only the sizes count
        self._lock = new_lock()
        self._counts = DeviceCounts() if counts is None else counts
        self._memory = FunctionMemory(cl, opened, self._counts)
        self.bindings = ShapeCache(self._bind, KEPT_SIZES)
        self.chosen: dict[tuple[tuple[str, int], ...], ChosenVariants] = {}  # by sizes, the most recent
        try:
            timing = cl.command_queue_properties.PROFILING_ENABLE if on_times is not None else 0
            self._queue = cl.CommandQueue(opened.context, opened.device, properties=timing)
            self._late: StartedCall | None = None  # a call that was given up, and may still go on
            self._last: pyopencl.Event | None = None  # behind the last call
            self._flush_every = flush_every(opened, options.flush, self._counts)
            self._buffers = self._recording(options)
            self._constants = [self._upload(c.numpy(), k) for k, c in enumerate(constants, plan.first_constant)]
            self._found = FoundIndices(cl, opened.context, self._queue) if plan.checks else None
            self._pinned = result_pieces(cl, opened)
            self.has_own_memory = self._pinned is not None
        except (DeviceMemoryError, cl.Error) as error:
            raise self.failed("cannot take the constants", error) from error

    def _recording(self, options: RunOptions) -> CommandBuffers | None:
        """What records the kernels of a call, where that is wanted and the device offers it."""
        asked_to_flush = options.flush.isdecimal()
        if self._on_times is not None or options.record == "none" or asked_to_flush:
            return None
        found = command_buffers(import_pyopencl(), self._opened.device)
        if isinstance(found, CommandBuffers):
            return found
        if options.record:
            warnings.warn(f"opencl.mode says record={options.record}, and kernels go one by one: {found}", stacklevel=2)
        return None

    def __call__(self, *arrays: object) -> None:
        """Run on inputs, then outputs, which are filled. Raises InputError for arrays that do not fit."""
        self.start([from_any(a) for a in arrays], at_once=True).wait()

    @in_driver
    def start(
        self, arrays: Sequence[np.ndarray | DeviceTensor], after: Sequence[Pending] = (), at_once: bool = False
    ) -> StartedCall:
        """Put a call on inputs, then outputs, into the queue, to begin when *after* are done.

        The arrays are the device's until it has been waited for; tensors that lie on it already are read and filled
        there, behind what made them. *at_once*: it is waited for before anything else reads or fills its outputs, which
        may then pass through other memory. Raises InputError for arrays that do not fit, DeviceError.
        """
        signature = self._plan.signature
        values, n, m = list(arrays), len(signature.inputs), len(signature.outputs)
        if len(values) != n + m:
            raise InputError(f"{signature.symbol}: expected {n} inputs and {m} outputs, got {len(values)} arrays")
        sizes = signature.bind_sizes(values[:n])
        for spec, array in zip(signature.outputs, values[n:], strict=True):
            spec.bind(array, sizes)
        events = []
        for pending in after:
            if isinstance(pending, StartedCall) and pending.context == self._opened.context:
                events.append(pending.event)
            else:
                pending.wait()
        self._wait_for_the_late()
        with self._lock:
            try:
                return self._enqueue(values[:n], values[n:], sizes, events, self._pinned if at_once else None)
            except (DeviceMemoryError, self._cl.Error) as error:
                raise self.failed("failed", error) from error

    def wait_for(self, events: Sequence[pyopencl.Event]) -> None:
        """Return when *events* are complete. Raises RunTimeoutError, pyopencl's error, what a signal's handler does."""
        info = self._opened.info
        where = f"the OpenCL device {info.name!r} computed {self._plan.signature.symbol}"
        wait_for(events, where, spins=info.kind != "cpu")

    def give_up(self, call: StartedCall) -> None:
        """Leave *call* behind, which goes on with the memory that it was given."""
        self._late = call
        abandon(call.is_done, call)

    def _wait_for_the_late(self) -> None:
        """Have a call that was given up end, which stands before all others in the queue.

        Raises DeviceError for a device that does not finish it in a long time: what stands in for it may then run.
        """
        late = self._late
        if late is None:
            return
        end = time.monotonic() + HANGING_SECONDS
        while not late.is_done():
            if seconds_left() == 0:
                raise timed_out(f" while the OpenCL device {self._opened.info.name!r} finished an earlier call")
            if time.monotonic() > end:
                raise DeviceError(
                    f"{self._plan.signature.symbol}: the OpenCL device {self._opened.info.name!r} has not finished "
                    f"a call that was given up, after {HANGING_SECONDS:g} s more: it hangs; start a new process"
                )
            time.sleep(0.001)
        self._late = None

    def failed(self, what: str, error: Exception) -> DeviceError:
        """The error for what the device refused."""
        text = f"{self._plan.signature.symbol} {what} on the OpenCL device {self._opened.info.name!r}: {error}"
        if isinstance(error, DeviceMemoryError | MemoryError | self._cl.MemoryError):  # pyopencl's is none of Python's
            return DeviceMemoryError(f"{text}; use smaller inputs, or a device with more memory")
        return DeviceError(text)

    def _enqueue(
        self,
        inputs: Sequence[np.ndarray | DeviceTensor],
        outputs: Sequence[np.ndarray | DeviceTensor],
        sizes: Sizes,
        after: list[pyopencl.Event],
        pieces: PinnedPieces | None,
    ) -> StartedCall:
        """Put it into the queue behind *after*, its results by way of *pieces*, where there are any."""
        first = self._plan.first_output
        read = {k: a for k, a in enumerate(inputs) if isinstance(a, DeviceArray)}
        filled = {first + k: a for k, a in enumerate(outputs) if isinstance(a, DeviceArray)}
        after = [*after, *(event for a in read.values() for event in a.block.to_wait_for(self._queue))]
        after += [event for a in filled.values() for event in a.block.uses_elsewhere(self._queue)]
        given = tuple((k, a.block.buffer) for k, a in {**read, **filled}.items())
        binding = self.bindings[tuple(sizes.items()), given]
        cl, queue = self._cl, self._queue
        arrays = {k: a for k, a in enumerate(inputs) if isinstance(a, np.ndarray) and k in self._read}
        if after and not all(a.flags.c_contiguous for a in arrays.values()):
            self.wait_for(after)  # the host copies them, which has to see what they will be
        events: list[pyopencl.Event] = []
        staged: list[np.ndarray] = []
        timed = TimedEvents(self._plan.signature.symbol) if self._on_times is not None else None
        if after and not any(a.nbytes for a in arrays.values()):
            cl.enqueue_barrier(queue, wait_for=after)
        for k, array in arrays.items():
            if array.nbytes:
                self._counts.bytes_in += array.nbytes
                made, held = upload(cl, self._pinned, queue, binding.parts[k], np.asarray(array, order="C"), after)
                staged.append(held)
                for event, nbytes in made:
                    events.append(event)
                    if timed is not None:
                        timed.add(header_of_copy("copy in", nbytes), event)
        if self._found is not None:
            self._found.begin()
        pairs = [(a, landing(pieces, a), first + k) for k, a in enumerate(outputs) if isinstance(a, np.ndarray)]
        last = self._enqueue_kernels(binding.launches, timed, is_end=self._found is None and not pairs)
        for _, result, number in pairs:
            if result.nbytes:
                self._counts.bytes_out += result.nbytes
                of = binding.parts[number]
                last = cl.enqueue_copy(queue, result, of.buffer, src_offset=of.offset, is_blocking=False)
                events.append(last)
                if timed is not None:
                    timed.add(header_of_copy("copy out", result.nbytes), events[-1])
        words = None
        if self._found is not None:
            words, last = self._found.read()
            events.append(last)
        self._counts.launches += len(binding.launches)
        self._counts.handovers += 1
        self._last = done = last or cl.enqueue_marker(queue)
        queue.flush()
        for a in read.values():
            a.block.is_read(done, queue)
        for a in filled.values():
            a.block.was_written(done, queue)
        results = [(array, result) for array, result, _ in pairs]
        return StartedCall(self, done, events, (binding, staged), results, (words, timed))

    def _enqueue_kernels(self, launches: LaunchList, timed: TimedEvents | None, is_end: bool) -> pyopencl.Event | None:
        """Put the kernels of a call into the queue. Where that *is_end* of it: the last one's event, if it has one."""
        if launches.enqueue_recorded(lambda: self._last is None or is_complete(self._last)):
            self._counts.recorded += 1
            return None
        self._counts.flushes += launches.flushes
        return launches.enqueue(self._cl, timed.add if timed is not None else None, is_end)

    @in_driver
    def empty_on_device(self, shape: Sequence[int], dtype: np.dtype) -> DeviceArray:
        """Memory for a tensor that a call is to fill. Raises DeviceError."""
        blocks = blocks_of(self._cl, self._opened)
        try:
            block = blocks.take(math.prod(shape) * dtype.itemsize, self._counts)
        except (DeviceMemoryError, self._cl.Error) as error:
            raise self.failed("cannot have memory", error) from error
        return DeviceArray(shape, dtype, block, self._counts)

    @property
    def context(self) -> pyopencl.Context:
        """That of the device."""
        return self._opened.context

    def holds(self, tensor: DeviceTensor) -> bool:
        """Whether *tensor* lies on this device, in the context of this process."""
        return isinstance(tensor, DeviceArray) and tensor.opened.context == self._opened.context

    def report_times(self, timed: TimedEvents | None) -> None:
        """Hand the times of a call that is done to whoever profiles. Raises DeviceError for a driver without times."""
        if self._on_times is None or timed is None:
            return
        try:
            self._on_times(timed.events())
        except self._cl.Error as error:
            raise self.failed("is profiled, and the driver reports no times", error) from error

    def check_indices(self, words: np.ndarray) -> None:
        """Raises InputError where a call's *words* report an index outside its dimension."""
        assert self._found is not None
        self._found.done(words)
        check_found(words, self._plan.signature)

    def _bind(self, key: tuple[Named, tuple[tuple[int, pyopencl.Buffer], ...]]) -> _Binding:
        named, given = key[0], dict(key[1])
        sizes = Sizes(named)
        plan, first = self._plan, self._plan.first_constant
        own = self._memory.buffers(plan, plan.buffer_bytes(sizes), given)
        others = {**given, **{first + k: buffer for k, buffer in enumerate(self._constants)}}
        parts = {**own, **{k: TensorPart(buffer) for k, buffer in others.items()}}
        variants = [launch.choose(sizes) for launch in plan.launches]
        kernels = ReadyKernels(self._cl, self._program, self._opened, plan, self._found)
        launches = []
        for launch, variant in zip(plan.launches, variants, strict=True):
            if variant.has_work(sizes):
                launches.append(kernels.kernel(launch, variant, sizes, parts))
                self._counts.kernels += 1
        self._record(named, tuple(v.schedule for v in variants))
        quiet = None
        if gains_by_quiet(self._opened.info):
            quiet = event_free_launches(self._cl, self._queue, [ready[:3] for ready in launches])
        return _Binding(parts, LaunchList(self._queue, launches, self._flush_every, self._buffers, quiet))

    def _record(self, key: tuple[tuple[str, int], ...], variants: tuple[str, ...]) -> None:
        times = 1 + (self.chosen.pop(key).times if key in self.chosen else 0)
        while len(self.chosen) >= MOST_RECORDS:
            del self.chosen[next(iter(self.chosen))]
        self.chosen[key] = ChosenVariants(self._plan.signature.symbol, key, variants, times)

    def _upload(self, array: np.ndarray, number: int) -> pyopencl.MemoryObject:
        """The constant with this *number* among the buffers, on the device: an image of it where the plan says so."""
        size = self._plan.buffers[number].image
        if size is not None:
            image, points = self._memory.image(size, read_only=True), texels(array, size.dtype)
            self._counts.bytes_in += points.nbytes
            whole = (size.width, size.height)
            self.wait_for(
                [self._cl.enqueue_copy(self._queue, image, points, origin=(0, 0), region=whole, is_blocking=False)]
            )
            return image
        buffer = self._memory.allocate(array.nbytes, self._cl.mem_flags.READ_ONLY)
        if array.nbytes:
            self._counts.bytes_in += array.nbytes
            self.wait_for([self._cl.enqueue_copy(self._queue, buffer, np.asarray(array, order="C"), is_blocking=False)])
        return buffer


class StartedCall:
    """A call in the queue. *events* hold the host's memory that the device reads and writes until it is done."""

    def __init__(
        self,
        session: Session,
        event: pyopencl.Event,
        events: list[pyopencl.Event],
        held: object,
        results: Sequence[tuple[np.ndarray, np.ndarray]],
        rest: tuple[np.ndarray | None, TimedEvents | None],
    ):
        self.event, self.context = event, session.context
        driver_use().keep(self)
        self._held = held  # what was recorded, and what is copied from, stays until it is done
        self._session, self._events, self._results = session, events, results
        self._found, self._timed = rest
        self._ticket = begin_work()

    keeps_time = True

    @in_driver
    def is_done(self) -> bool:
        """Whether the device has ended it, whatever became of it."""
        return all(is_complete(event) for event in (self.event, *self._events))

    @in_driver
    def wait(self) -> None:
        """Return when the outputs are filled. Raises DeviceError, RunTimeoutError, IndexOutsideError."""
        error = import_pyopencl().Error
        self._ticket.end()
        try:
            self._session.wait_for([self.event, *self._events])
        except error as problem:
            raise self._session.failed("failed", problem) from problem
        except BaseException:  # its time is over, or a signal's handler raised
            self._session.give_up(self)
            raise
        self._events.clear()
        self._session.report_times(self._timed)
        found, self._found = self._found, None
        if found is not None:
            self._session.check_indices(found)
        for array, result in self._results:
            if array is not result:
                copy_by_threads(array, result)
        self._results, self._held = (), None
