"""A device without hardware: memory of its own, streams with a thread each, latency and faults as :class:`Emulation`
says.

It is for tests and for a vendor's first day: what runs on it has asynchronous copies, memory that the host cannot
see, errors that come late, and waits that run out. A kernel is a function of arrays of bytes, called on the stream's
thread. That thread lives while there is work.

Source: CUDA's rules for streams, events and errors that stay ("sticky"); fault injection as in ``dmsetup flakey``.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from weakref import WeakValueDictionary

import numpy as np

from byoc.runtime.core.device import HardwareLevel
from byoc.runtime.core.errors import DeviceError, DeviceMemoryError
from byoc.runtime.core.fork import new_lock, new_rlock
from byoc.runtime.core.ndarray import ALIGNMENT
from byoc.runtime.devices.device_api import (
    DeviceAPI,
    DeviceMemory,
    DeviceProperties,
    DeviceStream,
    StreamEvent,
    bytes_of,
    checked_range,
    increment,
)
from byoc.runtime.devices.emulation import (
    ALLOCATE,
    COPY,
    COPY_IN,
    COPY_OUT,
    CORRUPT,
    HANG,
    LAUNCH,
    LOSE,
    NAMELESS,
    RECORD,
    Emulation,
    FaultPlan,
)
from byoc.runtime.devices.waiting import PIECE, wait_until

Work = Callable[[], "np.ndarray | None"]  # gives the bytes that it wrote


_NAMED: WeakValueDictionary[Emulation, EmulatedDevice] = WeakValueDictionary()
_LOCK = new_lock()


class EmulatedEvent(StreamEvent):
    """An event: a flag, and the error of the work before it, set before the flag."""

    def __init__(self, device: DeviceAPI):
        self.flag = threading.Event()
        self.error: Exception | None = None
        super().__init__(device, self.flag)

    def has_come(self) -> bool:
        """Whether it is there. Raises the error of the work before it."""
        if not self.flag.is_set():
            return False
        if self.error is not None:
            raise type(self.error)(str(self.error)) from self.error
        return True


class EmulatedStream(DeviceStream):
    """A queue, and the thread that empties it, which is there while there is work. After an error nothing is done."""

    def __init__(self, device: EmulatedDevice):
        super().__init__(device, None)
        self.error: Exception | None = None
        self._queue: deque[Callable[[], None]] = deque()
        self._lock = new_lock()
        self._thread: threading.Thread | None = None

    def put(self, work: Callable[[], None]) -> None:
        """Have *work* done behind all that is here. It is called after an error too, for its events are to come."""
        with self._lock:
            self._queue.append(work)
            if self._thread is None or not self._thread.is_alive():  # a forked child has none of its parent's threads
                self._thread = threading.Thread(target=self._empty, name="emulated device", daemon=True)
                self._thread.start()

    def _empty(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._thread = None
                    return
                work = self._queue.popleft()
            work()


class EmulatedDevice(DeviceAPI):
    """A device that is emulated in this process.

    Args:
        emulation: its latency, memory and faults.
    """

    def __init__(self, emulation: Emulation | None = None):
        self.emulation = emulation or Emulation()
        self._faults = FaultPlan(self.emulation.faults, self.emulation.seed)
        self._memories: dict[int, np.ndarray] = {}  # by address: what no handle leads to
        self._streams: list[EmulatedStream] = []
        self._used, self._next_address = 0, ALIGNMENT
        self._lost: str | None = None
        self._closed = threading.Event()
        self._lock = new_rlock()

    @classmethod
    def open(cls, settings: str = "") -> EmulatedDevice:
        """A device as ``Emulation.read`` reads *settings*.

        One that has a name is one device for the process as long as somebody uses it, so that its faults and its memory
        are shared by whoever opens it with the same settings; one without is its opener's own.

        Raises DeviceError for settings that there are not.
        """
        emulation = Emulation.read(settings)
        if emulation.name == NAMELESS:
            return cls(emulation)
        with _LOCK:
            known = _NAMED.get(emulation)
            if known is None or known.is_closed:
                known = _NAMED[emulation] = cls(emulation)
            return known

    @property
    def is_closed(self) -> bool:
        """Whether it can be used no more."""
        return self._closed.is_set()

    @property
    def properties(self) -> DeviceProperties:
        return DeviceProperties(
            name=self.emulation.name,
            kind="emulated",
            driver="threads of this process",
            memory_bytes=self.emulation.memory,
            alignment=ALIGNMENT,
            is_asynchronous=True,
            level=HardwareLevel.EMULATED,
        )

    def allocate(self, nbytes: int) -> DeviceMemory:
        with self._lock:
            self._check_usable()
            fault = self._faults.next(ALLOCATE)
            if fault is not None and fault[0] == HANG:
                self._hang(ALLOCATE)
            if fault is not None and fault[0] != CORRUPT:
                raise self._failed(ALLOCATE, *fault)
            left = self.emulation.memory - self._used
            if not 0 <= nbytes <= left:
                raise DeviceMemoryError(
                    f"{self.emulation.name} has {left} of its {self.emulation.memory} bytes left, and {nbytes} are "
                    "asked for: use smaller inputs, or a device with more memory"
                )
            address = self._next_address
            self._next_address += -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
            self._memories[address] = np.empty(nbytes, np.uint8)
            self._used += nbytes
            return DeviceMemory(self, nbytes, address)

    def free(self, memory: DeviceMemory) -> None:
        with self._lock:
            self._check_open()
            checked_range(self, memory, 0, 0)
            memory.is_free = True
            self._used -= memory.nbytes
            del self._memories[self._address(memory)]

    def new_stream(self) -> DeviceStream:
        self._check_usable()
        stream = EmulatedStream(self)
        with self._lock:
            self._streams.append(stream)
        return stream

    def close_stream(self, stream: DeviceStream) -> None:
        with self._lock:
            self._streams.remove(self._own(stream))

    def copy_in(self, stream: DeviceStream, target: DeviceMemory, source: np.ndarray, offset: int = 0) -> None:
        here, there = self._part(target, offset, source.nbytes), bytes_of(source)
        self._put(stream, COPY_IN, lambda: _copied(here, there), source.nbytes)

    def copy_out(self, stream: DeviceStream, target: np.ndarray, source: DeviceMemory, offset: int = 0) -> None:
        here, there = self._part(source, offset, target.nbytes), bytes_of(target, writable=True)
        self._put(stream, COPY_OUT, lambda: _copied(there, here), target.nbytes)

    def copy(
        self,
        stream: DeviceStream,
        target: DeviceMemory,
        source: DeviceMemory,
        nbytes: int,
        target_offset: int = 0,
        source_offset: int = 0,
    ) -> None:
        to, of = self._part(target, target_offset, nbytes), self._part(source, source_offset, nbytes)
        self._put(stream, COPY, lambda: _copied(to, of), nbytes)

    def launch(self, stream: DeviceStream, kernel: object, memories: Sequence[DeviceMemory]) -> None:
        if not callable(kernel):
            raise DeviceError(
                f"a kernel of {self.emulation.name} is a function of arrays of bytes, got a {type(kernel).__name__}"
            )
        arrays = [self._part(memory, 0, memory.nbytes) for memory in memories]

        def work() -> np.ndarray | None:
            kernel(*arrays)
            return arrays[-1] if arrays else None

        self._put(stream, LAUNCH, work, 0)

    def record(self, stream: DeviceStream) -> StreamEvent:
        event = EmulatedEvent(self)
        self._put(stream, RECORD, lambda: None, None, event)
        return event

    def wait_for(self, stream: DeviceStream, event: StreamEvent) -> None:
        self._check_usable()
        own, awaited = self._own(stream), self._own_event(event)

        def work() -> None:
            while not awaited.flag.wait(PIECE):
                if self._closed.is_set():
                    break
            own.error = own.error or awaited.error

        own.put(work)

    def is_done(self, event: StreamEvent) -> bool:
        self._check_open()
        return self._own_event(event).has_come()

    def wait(self, event: StreamEvent, timeout: float | None = None) -> None:
        self._check_open()
        own = self._own_event(event)

        def arrived(seconds: float) -> bool:
            own.flag.wait(seconds)
            return own.has_come()

        wait_until(arrived, f"waiting for {self.emulation.name}", timeout)

    def synchronize(self, timeout: float | None = None) -> None:
        self._check_usable()
        with self._lock:
            streams = list(self._streams)
        events = [EmulatedEvent(self) for _ in streams]
        for stream, event in zip(streams, events, strict=True):
            stream.put(functools.partial(_signal, stream, event))
        end = None if timeout is None else time.monotonic() + timeout
        for event in events:
            self.wait(event, None if end is None else max(end - time.monotonic(), 0.0))

    def increment_kernel(self, nbytes: int) -> object | None:
        return increment

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            self._memories.clear()

    def _put(
        self, stream: DeviceStream, operation: str, work: Work, nbytes: int | None, event: EmulatedEvent | None = None
    ) -> None:
        """Put *work* into *stream* with its latency (none where *nbytes* is None) and the fault that it gets."""
        with self._lock:
            self._check_usable()
            fault = self._faults.next(operation)
        own, emulation = self._own(stream), self.emulation
        seconds = 0.0 if nbytes is None else emulation.seconds + emulation.seconds_per_byte * nbytes

        def done() -> None:
            try:
                if own.error is None:
                    self._check_usable()
                    self._do(operation, work, seconds, fault)
            except Exception as error:  # whatever a kernel raises
                own.error = error if isinstance(error, DeviceError) else self._kernel_error(error)
            if event is not None:
                _signal(own, event)

        own.put(done)

    def _do(self, operation: str, work: Work, seconds: float, fault: tuple[str, int] | None) -> None:
        if seconds:
            self._closed.wait(seconds)
        if fault is not None and fault[0] == HANG:
            self._hang(operation)
        if fault is not None and fault[0] != CORRUPT:
            raise self._failed(operation, *fault)
        written = work()
        if fault is not None and written is not None and written.size:
            written[-1] ^= 1

    def _hang(self, operation: str) -> None:
        """Wait until the device is closed, which is then the error."""
        self._closed.wait()
        raise DeviceError(f"{self.emulation.name} was closed in the middle of {operation}")

    def _failed(self, operation: str, kind: str, number: int) -> DeviceError:
        text = f"{self.emulation.name}: {operation} {number} failed, a fault that was injected"
        if kind == LOSE:
            self._lost = f"{self.emulation.name} is lost since {operation} {number}, a fault that was injected"
            text = self._lost
        return DeviceError(text)

    def _kernel_error(self, error: Exception) -> DeviceError:
        reported = DeviceError(f"{self.emulation.name}: a kernel raised {type(error).__name__}: {error}")
        reported.__cause__ = error
        return reported

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise DeviceError(f"{self.emulation.name} was closed: open it again")

    def _check_usable(self) -> None:
        self._check_open()
        if self._lost is not None:
            raise DeviceError(self._lost)

    def _own(self, stream: DeviceStream) -> EmulatedStream:
        if not isinstance(stream, EmulatedStream) or stream not in self._streams:
            raise DeviceError(f"{self.emulation.name} was given a stream that was closed, or is another device's")
        return stream

    def _own_event(self, event: StreamEvent) -> EmulatedEvent:
        if not isinstance(event, EmulatedEvent) or event.device is not self:
            raise DeviceError(f"{self.emulation.name} was given an event of another device")
        return event

    def _address(self, memory: DeviceMemory) -> int:
        assert isinstance(memory.handle, int)
        return memory.handle

    def _part(self, memory: DeviceMemory, offset: int, nbytes: int) -> np.ndarray:
        with self._lock:
            self._check_usable()
            checked_range(self, memory, offset, nbytes)
            return self._memories[self._address(memory)][offset : offset + nbytes]


def _copied(target: np.ndarray, source: np.ndarray) -> np.ndarray:
    target[...] = source
    return target


def _signal(stream: EmulatedStream, event: EmulatedEvent) -> None:
    event.error = stream.error
    event.flag.set()
