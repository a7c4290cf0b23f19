"""The host's memory as a device: everything is done by the call that asks for it, so that events have always come."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import numpy as np

from byoc.runtime.core.errors import DeviceError, DeviceMemoryError
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


class HostDevice(DeviceAPI):
    """The host: memory is an array of bytes, a kernel a function of such arrays. A stream has no state."""

    def __init__(self) -> None:
        self._is_open = True
        self._properties = DeviceProperties(
            name="host", kind="host", driver=f"numpy {np.__version__} on {platform.machine()}", alignment=ALIGNMENT
        )

    @classmethod
    def open(cls, settings: str = "") -> HostDevice:
        """The host. Raises DeviceError for any *settings*: it has none."""
        if settings:
            raise DeviceError(f"device 'host:{settings}': the host has no settings; leave them out")
        return cls()

    @property
    def properties(self) -> DeviceProperties:
        return self._properties

    def allocate(self, nbytes: int) -> DeviceMemory:
        self._check_open()
        if nbytes < 0:
            raise DeviceMemoryError(f"the host was asked for {nbytes} bytes: ask for 0 or more")
        try:
            whole = np.empty(nbytes + ALIGNMENT, np.uint8)
        except (MemoryError, ValueError, OverflowError) as error:
            raise DeviceMemoryError(f"the host has no {nbytes} bytes left: use smaller inputs") from error
        start = -whole.ctypes.data % ALIGNMENT
        return DeviceMemory(self, nbytes, whole[start : start + nbytes])

    def free(self, memory: DeviceMemory) -> None:
        self._check_open()
        checked_range(self, memory, 0, 0)
        memory.is_free, memory.handle = True, None

    def new_stream(self) -> DeviceStream:
        self._check_open()
        return DeviceStream(self, None)

    def close_stream(self, stream: DeviceStream) -> None:
        """Nothing: a stream has no state."""

    def copy_in(self, stream: DeviceStream, target: DeviceMemory, source: np.ndarray, offset: int = 0) -> None:
        self._part(target, offset, source.nbytes)[...] = bytes_of(source)

    def copy_out(self, stream: DeviceStream, target: np.ndarray, source: DeviceMemory, offset: int = 0) -> None:
        bytes_of(target, writable=True)[...] = self._part(source, offset, target.nbytes)

    def copy(
        self,
        stream: DeviceStream,
        target: DeviceMemory,
        source: DeviceMemory,
        nbytes: int,
        target_offset: int = 0,
        source_offset: int = 0,
    ) -> None:
        self._part(target, target_offset, nbytes)[...] = self._part(source, source_offset, nbytes)

    def launch(self, stream: DeviceStream, kernel: object, memories: Sequence[DeviceMemory]) -> None:
        if not callable(kernel):
            raise DeviceError(f"a kernel of the host is a function of arrays of bytes, got a {type(kernel).__name__}")
        kernel(*(self._part(memory, 0, memory.nbytes) for memory in memories))

    def record(self, stream: DeviceStream) -> StreamEvent:
        self._check_open()
        return StreamEvent(self, None)

    def wait_for(self, stream: DeviceStream, event: StreamEvent) -> None:
        self._check_open()

    def is_done(self, event: StreamEvent) -> bool:
        self._check_open()
        return True

    def synchronize(self, timeout: float | None = None) -> None:
        self._check_open()

    def increment_kernel(self, nbytes: int) -> object | None:
        return increment

    def close(self) -> None:
        self._is_open = False

    def _check_open(self) -> None:
        if not self._is_open:
            raise DeviceError("the host's device was closed: open it again")

    def _part(self, memory: DeviceMemory, offset: int, nbytes: int) -> np.ndarray:
        self._check_open()
        checked_range(self, memory, offset, nbytes)
        assert isinstance(memory.handle, np.ndarray)
        return memory.handle[offset : offset + nbytes]
