"""Tensors that stay on an OpenCL device between calls, and the memory in which they lie.

A block of memory is free again when the last tensor in it is dropped, and is then taken for the next one of about its
size, so that caches which go round take no new memory. Queues differ from function to function: a block knows the
events behind which it may be written, and who reads it waits for the one that made it.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from byoc.runtime.core.errors import DeviceError, DeviceMemoryError
from byoc.runtime.opencl.counts import DeviceCounts
from byoc.runtime.opencl.devices import OpenDevice
from byoc.runtime.opencl.process import driver_use, in_driver
from byoc.runtime.opencl.waiting import is_complete, wait_for
from byoc.runtime.region.abandoned_work import abandon
from byoc.runtime.region.device_tensor import DeviceTensor

if TYPE_CHECKING:
    import pyopencl

SMALLEST = 256  # bytes of a block
KEPT_BLOCKS = 8  # that are free, of each size


def capacity_of(nbytes: int) -> int:
    """The bytes of the block for a tensor of *nbytes*: at most a quarter more, so that one that grows finds it again.

    >>> [capacity_of(n) for n in (1, 257, 1000, 1025)]
    [256, 512, 1024, 1280]
    """
    step = max(SMALLEST, 1 << max(max(nbytes, 1).bit_length() - 3, 0))
    return -(-max(nbytes, 1) // step) * step


class MemoryBlocks:
    """The blocks of one device: those that are free, by their sizes, and the queue in which tensors are copied."""

    def __init__(self, cl: ModuleType, opened: OpenDevice):
        self.cl, self.opened = cl, opened
        self.queue = cl.CommandQueue(opened.context, opened.device)
        self._free: dict[int, deque[tuple[pyopencl.Buffer, list[pyopencl.Event]]]] = {}
        driver_use().keep(self)

    def take(self, nbytes: int, counts: DeviceCounts) -> MemoryBlock:
        """A block for *nbytes*. Raises DeviceMemoryError, pyopencl's error."""
        size = capacity_of(nbytes)
        try:
            buffer, events = self._free.setdefault(size, deque()).popleft()
        except IndexError:
            limit = min(self.opened.device.max_mem_alloc_size, self.opened.info.global_memory)
            if size > limit:
                raise DeviceMemoryError(f"a buffer of {size} bytes, and at most {limit} can be had in one") from None
            buffer, events = self.cl.Buffer(self.opened.context, self.cl.mem_flags.READ_WRITE, size), []
            counts.allocations += 1
            counts.allocated_bytes += size
        return MemoryBlock(self, buffer, size, [e for e in events if not is_complete(e)])

    def give_back(self, size: int, buffer: pyopencl.Buffer, events: list[pyopencl.Event]) -> None:
        """Take back what a block held; called wherever Python drops it, and so without a lock."""
        free = self._free.setdefault(size, deque())
        if len(free) < KEPT_BLOCKS:
            free.append((buffer, events))


class MemoryBlock:
    """Memory of a device: a buffer, what has to be done before it is written, and the event of its last writer."""

    def __init__(self, blocks: MemoryBlocks, buffer: pyopencl.Buffer, size: int, events: list[pyopencl.Event]):
        self.blocks, self.buffer, self.size = blocks, buffer, size
        self.events = events
        self.written: pyopencl.Event | None = None

    def was_written(self, event: pyopencl.Event) -> None:
        """The block holds what is there behind *event*."""
        self.written, self.events = event, [event]

    def is_read(self, event: pyopencl.Event) -> None:
        """The block is read until *event*."""
        self.events = [e for e in self.events if not is_complete(e)]
        self.events.append(event)

    def __del__(self) -> None:
        self.blocks.give_back(self.size, self.buffer, self.events)


class DeviceArray(DeviceTensor):
    """A tensor on an OpenCL device; the results of a call are there when its event is."""

    def __init__(self, shape: Sequence[int], dtype: np.dtype, block: MemoryBlock, counts: DeviceCounts):
        super().__init__(shape, dtype)
        self.block, self._counts = block, counts

    @property
    def opened(self) -> OpenDevice:
        """The device on which it lies."""
        return self.block.blocks.opened

    def reshape(self, shape: Sequence[int]) -> DeviceArray:
        return DeviceArray(shape, self.dtype, self.block, self._counts)

    @in_driver
    def numpy(self) -> np.ndarray:
        result = np.empty(self.shape, self.dtype)
        if result.nbytes:
            self._copied(result, reads=True)
            self._counts.bytes_out += result.nbytes
        return result

    @in_driver
    def fill(self, array: np.ndarray) -> None:
        """Copy *array*, of its shape and dtype, to the device. Raises DeviceError, RunTimeoutError."""
        if array.nbytes:
            self._copied(np.asarray(array, order="C"), reads=False)
            self._counts.bytes_in += array.nbytes

    def _copied(self, host: np.ndarray, reads: bool) -> None:
        block, blocks = self.block, self.block.blocks
        name = self.opened.info.name
        after = [block.written] if reads and block.written is not None else [] if reads else block.events
        target, source = (host, block.buffer) if reads else (block.buffer, host)
        try:
            event = blocks.cl.enqueue_copy(blocks.queue, target, source, is_blocking=False, wait_for=after)
            (block.is_read if reads else block.was_written)(event)
            try:
                wait_for([event], f"the OpenCL device {name!r} copied {self}", spins=self.opened.info.kind != "cpu")
            except BaseException:  # the time is over, or a signal's handler raised: the copy goes on
                abandon(lambda: is_complete(event), (host, block))
                raise
        except blocks.cl.Error as error:
            raise DeviceError(f"the OpenCL device {name!r} did not copy {self}: {error}") from error


@functools.cache
def blocks_of(cl: ModuleType, opened: OpenDevice) -> MemoryBlocks:
    """The blocks of a device, made when they are first asked for."""
    return MemoryBlocks(cl, opened)
