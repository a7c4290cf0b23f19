"""An OpenCL device behind the interface of devices, over the context that all of this process share.

Streams are in-order queues, events are OpenCL's. Memory is counted here, for a driver may promise more than there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from byoc.runtime.core.errors import DeviceError, DeviceMemoryError
from byoc.runtime.core.fork import new_lock
from byoc.runtime.devices.device_api import (
    DeviceAPI,
    DeviceMemory,
    DeviceProperties,
    DeviceStream,
    StreamEvent,
    bytes_of,
    checked_range,
)
from byoc.runtime.devices.waiting import sleeping, wait_until
from byoc.runtime.opencl.build import build_program
from byoc.runtime.opencl.commands.waiting import is_complete
from byoc.runtime.opencl.devices import OpenDevice, import_pyopencl, open_device
from byoc.runtime.opencl.process import driver_use, in_driver

if TYPE_CHECKING:
    import pyopencl

BITS_OF_A_BYTE = 8
_INCREMENT = "__kernel void increment(__global uchar *data) { data[get_global_id(0)] += 1; }\n"
Result = TypeVar("Result")


@dataclass(frozen=True)
class OpenCLKernel:
    """A kernel as ``launch`` takes it: the memories are its first arguments, then *scalars*.

    Attributes:
        kernel: of a program that was built in the device's context.
        global_size: work-items in each dimension.
        local_size: of a work-group; None leaves it to the driver.
        scalars: numpy's numbers of the dtypes that the kernel declares.
    """

    kernel: pyopencl.Kernel
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None = None
    scalars: tuple[np.generic, ...] = ()


class OpenCLStream(DeviceStream):
    """A queue; *events* keep the host's memory that copies use, until they are done."""

    def __init__(self, device: DeviceAPI, queue: pyopencl.CommandQueue):
        super().__init__(device, queue)
        self.queue = queue
        self.events: list[pyopencl.Event] = []

    def put(self, event: pyopencl.Event) -> None:
        """Have *event* kept until it is done."""
        self.events = [e for e in self.events if e.command_execution_status > 0]
        self.events.append(event)


class OpenCLEvent(StreamEvent):
    """*marker* behind all work; *events* are that work, whose errors are its own."""

    def __init__(self, device: DeviceAPI, marker: pyopencl.Event, events: Sequence[pyopencl.Event]):
        super().__init__(device, marker)
        self.marker, self.events = marker, (*events, marker)


class OpenCLDevice(DeviceAPI):
    """An OpenCL device, with the context that byoc's own kernels use."""

    def __init__(self, opened: OpenDevice):
        self.opened = opened
        self._cl = import_pyopencl()
        self._streams: list[OpenCLStream] = []
        self._used = 0
        self._is_open = True
        self._lock = new_lock()
        info, device = opened.info, opened.device
        self._properties = DeviceProperties(
            name=info.name,
            kind="opencl",
            driver=f"{info.platform}, driver {info.driver_version}",
            memory_bytes=info.global_memory,
            alignment=device.mem_base_addr_align // BITS_OF_A_BYTE,
            is_asynchronous=True,
        )
        driver_use().keep(self)

    @classmethod
    def open(cls, settings: str = "") -> OpenCLDevice:
        """The device that *settings* name (``devices.py`` says how); else that of ``$BYOC_OPENCL_DEVICE``.

        Raises DeviceError where there is none.
        """
        return cls(open_device(settings))

    @property
    def properties(self) -> DeviceProperties:
        return self._properties

    @in_driver
    def allocate(self, nbytes: int) -> DeviceMemory:
        self._check_open()
        limit = self.opened.info.global_memory
        largest = self.opened.device.max_mem_alloc_size
        with self._lock:
            left = limit - self._used
            if not 0 <= nbytes <= min(left, largest):
                raise DeviceMemoryError(
                    f"the OpenCL device {self._properties.name!r} has {left} of its {limit} bytes left, {largest} in "
                    f"one piece, and {nbytes} are asked for: use smaller inputs, or a device with more memory"
                )
            self._used += nbytes
        try:
            buffer = self._cl.Buffer(self.opened.context, self._cl.mem_flags.READ_WRITE, max(nbytes, 1))
        except self._cl.Error as error:
            with self._lock:
                self._used -= nbytes
            raise DeviceMemoryError(f"{self._properties.name} gave no {nbytes} bytes: {error}") from error
        return DeviceMemory(self, nbytes, buffer)

    def free(self, memory: DeviceMemory) -> None:
        self._check_open()
        with self._lock:
            checked_range(self, memory, 0, 0)
            memory.is_free, memory.handle = True, None  # the driver keeps the buffer for work that uses it
            self._used -= memory.nbytes

    @in_driver
    def new_stream(self) -> DeviceStream:
        self._check_open()
        queue = self._asked(lambda: self._cl.CommandQueue(self.opened.context, self.opened.device))
        stream = OpenCLStream(self, queue)
        driver_use().keep(stream)
        with self._lock:
            self._streams.append(stream)
        return stream

    @in_driver
    def close_stream(self, stream: DeviceStream) -> None:
        own = self._own(stream)
        self._asked(own.queue.flush)
        with self._lock:
            self._streams.remove(own)

    @in_driver
    def copy_in(self, stream: DeviceStream, target: DeviceMemory, source: np.ndarray, offset: int = 0) -> None:
        own, data = self._own(stream), bytes_of(source)
        checked_range(self, target, offset, data.nbytes)
        if data.nbytes:
            self._copied(own, target.handle, data, dst_offset=offset)

    @in_driver
    def copy_out(self, stream: DeviceStream, target: np.ndarray, source: DeviceMemory, offset: int = 0) -> None:
        own, data = self._own(stream), bytes_of(target, writable=True)
        checked_range(self, source, offset, data.nbytes)
        if data.nbytes:
            self._copied(own, data, source.handle, src_offset=offset)

    @in_driver
    def copy(
        self,
        stream: DeviceStream,
        target: DeviceMemory,
        source: DeviceMemory,
        nbytes: int,
        target_offset: int = 0,
        source_offset: int = 0,
    ) -> None:
        own = self._own(stream)
        checked_range(self, target, target_offset, nbytes)
        checked_range(self, source, source_offset, nbytes)
        if nbytes:
            event = self._asked(
                lambda: self._cl.enqueue_copy(
                    own.queue,
                    target.handle,
                    source.handle,
                    byte_count=nbytes,
                    src_offset=source_offset,
                    dst_offset=target_offset,
                )
            )
            own.put(event)

    @in_driver
    def launch(self, stream: DeviceStream, kernel: object, memories: Sequence[DeviceMemory]) -> None:
        own = self._own(stream)
        if not isinstance(kernel, OpenCLKernel):
            raise DeviceError(
                f"a kernel of {self._properties.name} is a byoc.runtime.opencl.device_api.OpenCLKernel, got a "
                f"{type(kernel).__name__}"
            )
        for memory in memories:
            checked_range(self, memory, 0, 0)

        def enqueue() -> pyopencl.Event:
            buffers = [memory.handle for memory in memories if isinstance(memory.handle, self._cl.Buffer)]
            kernel.kernel.set_args(*buffers, *kernel.scalars)
            event: pyopencl.Event = self._cl.enqueue_nd_range_kernel(
                own.queue, kernel.kernel, kernel.global_size, kernel.local_size
            )
            return event

        with self._lock:  # a kernel's arguments are state of the kernel
            own.put(self._asked(enqueue))

    @in_driver
    def record(self, stream: DeviceStream) -> StreamEvent:
        own = self._own(stream)

        def enqueue() -> pyopencl.Event:
            marker: pyopencl.Event = self._cl.enqueue_marker(own.queue)
            own.queue.flush()
            return marker

        event = OpenCLEvent(self, self._asked(enqueue), own.events)
        driver_use().keep(event)
        return event

    @in_driver
    def wait_for(self, stream: DeviceStream, event: StreamEvent) -> None:
        own, awaited = self._own(stream), self._own_event(event)
        own.put(self._asked(lambda: self._cl.enqueue_barrier(own.queue, wait_for=[awaited.marker])))

    @in_driver
    def is_done(self, event: StreamEvent) -> bool:
        self._check_open()
        own = self._own_event(event)
        failed = [e for e in own.events if e.command_execution_status < 0]
        if failed:
            status = failed[0].command_execution_status
            raise DeviceError(f"{self._properties.name}: the device ended its work with the error {status}")
        return all(is_complete(e) for e in own.events)

    def synchronize(self, timeout: float | None = None) -> None:
        self._check_open()
        with self._lock:
            streams = list(self._streams)
        events = [self.record(stream) for stream in streams]
        wait_until(
            sleeping(lambda: all([self.is_done(event) for event in events])),
            f"waiting for {self._properties.name}",
            timeout,
        )

    def increment_kernel(self, nbytes: int) -> object | None:
        program = build_program(_INCREMENT, self.opened)
        return OpenCLKernel(self._cl.Kernel(program, "increment"), (nbytes,))

    def close(self) -> None:
        """Let the streams go; the context is the process's."""
        self._is_open = False
        with self._lock:
            self._streams.clear()

    def _copied(self, stream: OpenCLStream, target: object, source: object, **places: int) -> None:
        copy = self._cl.enqueue_copy
        stream.put(self._asked(lambda: copy(stream.queue, target, source, is_blocking=False, **places)))

    def _asked(self, ask: Callable[[], Result]) -> Result:
        """What the driver gives. Raises DeviceError for what it refuses."""
        try:
            return ask()
        except self._cl.Error as error:
            raise DeviceError(f"the OpenCL device {self._properties.name!r} refused: {error}") from error

    def _check_open(self) -> None:
        if not self._is_open:
            raise DeviceError(f"{self._properties.name} was closed: open it again")
        driver_use().require_own_process()

    def _own(self, stream: DeviceStream) -> OpenCLStream:
        self._check_open()
        if not isinstance(stream, OpenCLStream) or stream not in self._streams:
            raise DeviceError(f"{self._properties.name} was given a stream that was closed, or is another device's")
        return stream

    def _own_event(self, event: StreamEvent) -> OpenCLEvent:
        if not isinstance(event, OpenCLEvent) or event.device is not self:
            raise DeviceError(f"{self._properties.name} was given an event of another device")
        return event
