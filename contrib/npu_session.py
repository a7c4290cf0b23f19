"""A program of the example NPU on a device: its buffers and constants in the device's memory, its runs in one stream.

A run copies the inputs in, launches the program, copies the outputs out, and waits for the event behind them, no longer
than waits may take. A stream whose work failed, or did not end, is not used again.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence

import numpy as np

from byoc.runtime import DeviceAPI, DeviceError, DeviceMemory, DeviceStream
from byoc.runtime.core.errors import ByocError
from byoc.runtime.region.abandoned_work import abandon

SessionKernel = Callable[..., None]


class NpuSession:
    """What a program needs on *device*, allocated once.

    Args:
        device: where it runs; its kernels are functions of arrays of bytes.
        kernel: the program, a function of its buffers and then its constants.
        buffers: the shapes of its buffers, ``i8``: the inputs first, then the outputs.
        constants: what is copied in once.

    Raises:
        DeviceError: the device has too little memory, or is lost.
    """

    def __init__(self, device: DeviceAPI, kernel: SessionKernel, buffers: Sequence[Sequence[int]], constants: bytes):
        self._device, self._kernel = device, kernel
        held: list[DeviceMemory] = []
        self._stream = device.new_stream()
        weakref.finalize(self, _give_back, device, self._stream, held)
        for size in (*(math.prod(shape) for shape in buffers), len(constants)):
            held.append(device.allocate(size))
        self._memories = held
        self._constants = np.frombuffer(constants, np.int8)
        device.copy_in(self._stream, held[-1], self._constants)

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Fill *outputs*, in C order. Raises DeviceError, and RunTimeoutError where the time of the run is over."""
        device, stream = self._device, self._stream
        for array, memory in zip(inputs, self._memories, strict=False):
            device.copy_in(stream, memory, array)
        device.launch(stream, self._kernel, self._memories)
        for array, memory in zip(outputs, self._memories[len(inputs) :], strict=False):
            device.copy_out(stream, array, memory)
        event = device.record(stream)

        def is_over() -> bool:
            try:
                return device.is_done(event)
            except ByocError:
                return True

        try:
            device.wait(event)
        except BaseException:  # its time is over, or a signal's handler raised: it may still write to the outputs
            if not is_over():
                abandon(is_over, (inputs, outputs))
            raise


def _give_back(device: DeviceAPI, stream: DeviceStream, memories: Sequence[DeviceMemory]) -> None:
    try:
        device.close_stream(stream)
        for memory in memories:
            device.free(memory)
    except DeviceError:  # it is lost or closed, and has nothing to be given back
        return
