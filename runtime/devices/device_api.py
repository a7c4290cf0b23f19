"""What the host asks of a device: memory, copies, streams, events, kernels, waits that end.

A vendor writes one class, a :class:`DeviceAPI`, over its driver. Work is put into *streams*: it is done in the order in
which it was put there, and the calls that put it there need not wait for it. An *event* marks a place in a stream;
other streams, and the host, wait for events. ``byoc.testing.certify_device`` tries a device on all that is said here.

Invariant: this package imports numpy and the runtime alone, so that a device needs no compiler.
Source: ``DeviceAPI`` of TVM's runtime, ``TargetWrapper`` of Paddle Lite, CUDA's streams and events.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from byoc.runtime.core.device import HardwareLevel
from byoc.runtime.core.errors import DeviceError
from byoc.runtime.devices.waiting import sleeping, wait_until


@dataclass(frozen=True)
class DeviceProperties:
    """What is known of a device.

    Attributes:
        name: the device's own name, as in its vendor's tools.
        kind: the name under which its class is registered.
        driver: the driver and its version.
        memory_bytes: how much memory it has; None where nobody knows.
        alignment: the bytes to which memory that it allocates is aligned, a power of two.
        is_asynchronous: whether work may go on after the call that put it into a stream.
        level: whether it is a device or an emulator.
    """

    name: str
    kind: str
    driver: str = ""
    memory_bytes: int | None = None
    alignment: int = 1
    is_asynchronous: bool = False
    level: HardwareLevel = HardwareLevel.REAL

    def to_json(self) -> dict[str, object]:
        """The properties as values that ``json.dumps`` takes."""
        return {**asdict(self), "level": self.level.value}


class DeviceMemory:
    """Memory of *device*, of *nbytes* bytes; *handle* is the device's own name of it. The host cannot look into it."""

    def __init__(self, device: DeviceAPI, nbytes: int, handle: object):
        self.device, self.nbytes, self.handle = device, nbytes, handle
        self.is_free = False

    def __array__(self, *args: object, **options: object) -> np.ndarray:
        raise DeviceError(
            f"the memory of {self.device.properties.name} cannot be read as an array: copy it with copy_out"
        )


class DeviceStream:
    """A queue of work of *device*; *handle* is the device's own."""

    def __init__(self, device: DeviceAPI, handle: object):
        self.device, self.handle = device, handle


class StreamEvent:
    """A place in a stream of *device*, which has come when all work before it is done; *handle* is the device's own."""

    def __init__(self, device: DeviceAPI, handle: object):
        self.device, self.handle = device, handle


class DeviceAPI(ABC):
    """A device. All methods may be called from any thread; each stream is used by one thread at a time.

    What goes wrong is a DeviceError in one sentence: at once, from the call that asks for what there is not; later,
    from ``is_done``, ``wait`` and ``synchronize``, for work that failed after it was put into a stream. Such a stream
    is of no use any more and is closed; others go on. After ``close`` every method but ``close`` raises DeviceError.

    No wait is for ever. Each ends after its *timeout* (seconds; None for the ``$BYOC_WAIT_SECONDS`` of the process),
    by DeviceTimeoutError, and before that when the time of the run is over (``Library.run(timeout=...)``), by
    RunTimeoutError. What was waited for goes on: its memory is not to be used again before it is done.
    """

    @classmethod
    @abstractmethod
    def open(cls, settings: str = "") -> DeviceAPI:
        """The device that *settings*, the text behind the colon of ``kind:settings``, mean.

        Raises:
            DeviceError: there is no such device here, or it cannot be used.
        """

    @property
    @abstractmethod
    def properties(self) -> DeviceProperties:
        """What is known of the device; the same as long as it is open."""

    @abstractmethod
    def allocate(self, nbytes: int) -> DeviceMemory:
        """Memory of *nbytes* bytes, 0 included, whose content is undefined.

        Raises:
            DeviceMemoryError: the device has not so much; it can be used as before.
        """

    @abstractmethod
    def free(self, memory: DeviceMemory) -> None:
        """Give *memory* back. Work that was put into a stream before may still use it.

        Raises:
            DeviceError: it was given back before, or is another device's.
        """

    @abstractmethod
    def new_stream(self) -> DeviceStream:
        """A stream without work."""

    @abstractmethod
    def close_stream(self, stream: DeviceStream) -> None:
        """Let *stream* go. It need not be done; nothing more may be put into it."""

    @abstractmethod
    def copy_in(self, stream: DeviceStream, target: DeviceMemory, source: np.ndarray, offset: int = 0) -> None:
        """Copy the bytes of *source* to the place *offset* of *target*.

        Args:
            stream: where the copy is put.
            target: memory of this device.
            source: an array of any dtype in C order, which may be read-only; it is not to change until this is done.
            offset: in bytes.

        Raises:
            DeviceError: *target* is too small, or was given back.
        """

    @abstractmethod
    def copy_out(self, stream: DeviceStream, target: np.ndarray, source: DeviceMemory, offset: int = 0) -> None:
        """Copy from the place *offset* of *source* as many bytes as *target* has, an array in C order.

        *target* is not to be read before this is done. Raises DeviceError as :meth:`copy_in`.
        """

    @abstractmethod
    def copy(
        self,
        stream: DeviceStream,
        target: DeviceMemory,
        source: DeviceMemory,
        nbytes: int,
        target_offset: int = 0,
        source_offset: int = 0,
    ) -> None:
        """Copy *nbytes* bytes on the device, between memories or places of one that do not overlap.

        Raises DeviceError as :meth:`copy_in`.
        """

    @abstractmethod
    def launch(self, stream: DeviceStream, kernel: object, memories: Sequence[DeviceMemory]) -> None:
        """Run *kernel* on *memories*.

        What a kernel is, is the device's matter: its code generator makes what its ``launch`` takes. The host and the
        emulated device take a function of arrays of bytes, one for each of *memories*.

        Raises:
            DeviceError: *kernel* is none for this device, or a memory was given back.
        """

    @abstractmethod
    def record(self, stream: DeviceStream) -> StreamEvent:
        """An event behind all work that is in *stream* now."""

    @abstractmethod
    def wait_for(self, stream: DeviceStream, event: StreamEvent) -> None:
        """Have what is put into *stream* from now on begin after *event* of this device. It does not wait."""

    @abstractmethod
    def is_done(self, event: StreamEvent) -> bool:
        """Whether *event* has come; that is seen without any other call. Raises DeviceError where its work failed."""

    def wait(self, event: StreamEvent, timeout: float | None = None) -> None:
        """Return when *event* has come. A device that need not ask again and again says so by its own method.

        Raises:
            DeviceError: work before it failed.
            DeviceTimeoutError: it has not come within *timeout* seconds.
            RunTimeoutError: the time of this thread's run is over.
        """
        wait_until(sleeping(lambda: self.is_done(event)), f"waiting for {self.properties.name}", timeout)

    @abstractmethod
    def synchronize(self, timeout: float | None = None) -> None:
        """Return when all work of all streams that are open is done. Raises as :meth:`wait`."""

    def increment_kernel(self, nbytes: int) -> object | None:
        """A kernel that adds 1 to each byte of one memory of *nbytes*, by which launches are tried; None for none."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Give everything back, work that is not done and that hangs included. A second call does nothing."""


def checked_range(device: DeviceAPI, memory: DeviceMemory, offset: int, nbytes: int) -> None:
    """Hold an access to *memory* to its limits.

    Raises DeviceError unless the *nbytes* at *offset* are inside of it, it is memory of *device*, and is not free.
    """
    name = device.properties.name
    if memory.device is not device:
        raise DeviceError(f"{name} was given memory of {memory.device.properties.name}: copy it by way of the host")
    if memory.is_free:
        raise DeviceError(f"{name} was given memory that was freed before: free it after its last use")
    if offset < 0 or nbytes < 0 or offset + nbytes > memory.nbytes:
        raise DeviceError(
            f"{name}: bytes {offset} to {offset + nbytes} are outside of a memory of {memory.nbytes}: allocate "
            "more, or copy less"
        )


def bytes_of(array: np.ndarray, writable: bool = False) -> np.ndarray:
    """*array* as ``u8[nbytes]``, on the same memory.

    Raises DeviceError for one that is not in C order, or not *writable* where it must be.
    """
    if not array.flags.c_contiguous or (writable and not array.flags.writeable):
        wanted = "an array in C order that can be written to" if writable else "an array in C order"
        raise DeviceError(f"a copy takes {wanted}, got {array.dtype}{list(array.shape)}: copy it with np.array first")
    return array.reshape(-1).view(np.uint8)


def increment(memory: np.ndarray) -> None:
    """Add 1 to each byte of *memory*: a kernel for devices whose kernels are functions of arrays of bytes."""
    memory += np.uint8(1)
