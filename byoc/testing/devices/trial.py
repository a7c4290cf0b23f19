"""A check of a device: what it is given, and how it says that something is wrong.

A check is a function of a :class:`DeviceTrial` that raises :class:`Broken`, with a sentence, for what is against
``byoc.runtime.DeviceAPI``, or :class:`Untried` for what could not be asked. No check looks at a clock: whether a wait
keeps its time-out is seen by whether its work is done when it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from byoc.errors import DeviceError
from byoc.runtime.devices.device_api import DeviceAPI, DeviceMemory, DeviceStream

BUSY_BYTES = 8 << 20  # of a large copy
GUARD = 0x5A


class Broken(Exception):
    """What a device does against the interface."""


class Untried(Exception):
    """Why something could not be tried."""


@dataclass(frozen=True)
class DeviceTrial:
    """A check on *device*; *open* gives another one, *seconds* is how long work may take."""

    device: DeviceAPI
    open: Callable[[], DeviceAPI]
    seconds: float

    def numbers(self, size: int, seed: int = 0, dtype: str = "uint8") -> np.ndarray:
        """Random bytes, as an array of *size* bytes."""
        data = np.random.default_rng(seed).integers(0, 256, size, "uint8")
        return data.view(dtype)

    def filled(self, stream: DeviceStream, data: np.ndarray) -> DeviceMemory:
        """Memory with *data* in it, when *stream* gets there."""
        memory = self.device.allocate(data.nbytes)
        self.device.copy_in(stream, memory, data)
        return memory

    def read(self, stream: DeviceStream, memory: DeviceMemory) -> np.ndarray:
        """What *memory* holds behind all work of *stream*."""
        found = np.full(memory.nbytes, GUARD, np.uint8)
        self.device.copy_out(stream, found, memory)
        self.finish(stream)
        return found

    def finish(self, stream: DeviceStream) -> None:
        """Wait for *stream*."""
        self.device.wait(self.device.record(stream), self.seconds)

    def expect(self, memory: DeviceMemory, wanted: np.ndarray, stream: DeviceStream, what: str) -> None:
        """Raise Broken where *memory* does not hold *wanted*."""
        same(self.read(stream, memory), wanted, what)

    def refused(self, ask: Callable[[], object], what: str, kind: type[Exception] = DeviceError) -> None:
        """Raise Broken unless *ask* raises *kind*."""
        try:
            ask()
        except kind:
            return
        except Exception as error:  # whatever a vendor's code raises
            raise Broken(f"{what} raises {type(error).__name__}, expected {kind.__name__}: {error}") from error
        raise Broken(f"{what} is not refused, expected a {kind.__name__}")

    def busy(self, stream: DeviceStream, copies: int) -> None:
        """Put *copies* large copies into *stream*."""
        known = self.device.properties.memory_bytes
        half = BUSY_BYTES if known is None else min(BUSY_BYTES, known // 8)
        memory = self.device.allocate(2 * half)
        for _ in range(copies):
            self.device.copy(stream, memory, memory, half, 0, half)
        self.device.free(memory)


def same(found: np.ndarray, wanted: np.ndarray, what: str) -> None:
    """Raise Broken where two arrays have other bytes."""
    left, right = found.reshape(-1).view(np.uint8), wanted.reshape(-1).view(np.uint8)
    wrong = np.flatnonzero(left != right) if left.size == right.size else np.arange(1)
    if wrong.size:
        at = int(wrong[0])
        raise Broken(f"{what}: {wrong.size} of {right.size} bytes are wrong, the first at {at}")


def on_thread(work: Callable[[], None]) -> None:
    """Do *work* on a thread. Raises what it raises."""
    errors: list[Exception] = []

    def caught() -> None:
        try:
            work()
        except Exception as error:  # raised again here
            errors.append(error)

    helper = threading.Thread(target=caught, daemon=True)
    helper.start()
    helper.join()
    if errors:
        raise errors[0]
