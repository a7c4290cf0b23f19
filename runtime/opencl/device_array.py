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
from byoc.runtime.opencl.commands.waiting import is_complete, wait_for
from byoc.runtime.opencl.counts import DeviceCounts
from byoc.runtime.opencl.device_memory import capacity_of
from byoc.runtime.opencl.devices import OpenDevice
from byoc.runtime.opencl.pinned import host_array, result_pieces
from byoc.runtime.opencl.process import driver_use, in_driver
from byoc.runtime.region.abandoned_work import abandon
from byoc.runtime.region.device_tensor import DeviceTensor

if TYPE_CHECKING:
    import pyopencl

KEPT_BLOCKS = 8  # that are free, of each size
LastUses = dict["pyopencl.CommandQueue", "pyopencl.Event"]  # the last command of each queue, all of which are in order


class MemoryBlocks:
    """The blocks of one device: those that are free, by their sizes, and the queues in which tensors are copied.

    A device copies both ways at once where it can, and beside its kernels, which have queues of their own.
    """

    def __init__(self, cl: ModuleType, opened: OpenDevice):
        self.cl, self.opened = cl, opened
        self.to_device, self.to_host = (cl.CommandQueue(opened.context, opened.device) for _ in range(2))
        self._free: dict[int, deque[tuple[pyopencl.Buffer, LastUses]]] = {}
        driver_use().keep(self)

    def take(self, nbytes: int, counts: DeviceCounts) -> MemoryBlock:
        """A block for *nbytes*. Raises DeviceMemoryError, pyopencl's error."""
        size = capacity_of(nbytes)
        try:
            buffer, uses = self._free.setdefault(size, deque()).popleft()
        except IndexError:
            limit = min(self.opened.device.max_mem_alloc_size, self.opened.info.global_memory)
            if size > limit:
                raise DeviceMemoryError(f"a buffer of {size} bytes, and at most {limit} can be had in one") from None
            buffer, uses = self.cl.Buffer(self.opened.context, self.cl.mem_flags.READ_WRITE, size), {}
            counts.allocations += 1
            counts.allocated_bytes += size
        return MemoryBlock(self, buffer, size, uses)

    def give_back(self, size: int, buffer: pyopencl.Buffer, uses: LastUses) -> None:
        """Take back what a block held; called wherever Python drops it, and so without a lock."""
        free = self._free.setdefault(size, deque())
        if len(free) < KEPT_BLOCKS:
            free.append((buffer, uses))


class MemoryBlock:
    """Memory of a device: a buffer, what last used it in each queue, and the event of its last writer."""

    def __init__(self, blocks: MemoryBlocks, buffer: pyopencl.Buffer, size: int, uses: LastUses):
        self.blocks, self.buffer, self.size = blocks, buffer, size
        self._uses = uses
        self.written: pyopencl.Event | None = None
        self._behind: list[pyopencl.CommandQueue] = []  # queues, all of whose next commands are behind the writer

    def was_written(self, event: pyopencl.Event, queue: pyopencl.CommandQueue) -> None:
        """The block holds what is there behind *event*, of *queue*."""
        self.written, self._uses = event, {queue: event}
        self._behind = [queue]

    def is_read(self, event: pyopencl.Event, queue: pyopencl.CommandQueue) -> None:
        """The block is read until *event*, of *queue*, in which that stands behind what wrote it."""
        self._uses[queue] = event
        if queue not in self._behind:
            self._behind.append(queue)

    def uses_elsewhere(self, queue: pyopencl.CommandQueue) -> list[pyopencl.Event]:
        """What a command of *queue* that fills the block has to wait for: what still uses it in others."""
        return [event for of, event in self._uses.items() if of != queue and not is_complete(event)]

    def to_wait_for(self, queue: pyopencl.CommandQueue) -> list[pyopencl.Event]:
        """What a command of *queue* that reads the block has to wait for: what wrote it.

        Nothing where an earlier command of that queue, which is in order, did. That an event has come is not enough:
        NVIDIA's driver says so of a copy to pageable memory before the host has it.
        """
        return [] if self.written is None or queue in self._behind else [self.written]

    def __del__(self) -> None:
        self.blocks.give_back(self.size, self.buffer, self._uses)


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

    def numpy(self) -> np.ndarray:
        result = np.empty(self.shape, self.dtype)
        self.start_read(result).wait()
        return result

    def fill(self, array: np.ndarray) -> None:
        """Copy *array*, of its shape and dtype, to the device. Raises DeviceError, RunTimeoutError."""
        self.start_write(np.asarray(array, order="C")).wait()

    @in_driver
    def host_array(self) -> np.ndarray:
        return host_array(result_pieces(self.block.blocks.cl, self.opened), self.shape, self.dtype)

    @in_driver
    def start_write(self, array: np.ndarray) -> StartedCopy:
        block = self.block
        behind = block.uses_elsewhere(block.blocks.to_device)
        started = self._started(array, block.blocks.to_device, (block.buffer, array), behind)
        if started.event is not None:
            block.was_written(started.event, block.blocks.to_device)
            self._counts.bytes_in += array.nbytes
        return started

    @in_driver
    def start_read(self, array: np.ndarray) -> StartedCopy:
        block = self.block
        behind = block.to_wait_for(block.blocks.to_host)
        started = self._started(array, block.blocks.to_host, (array, block.buffer), behind)
        if started.event is not None:
            block.is_read(started.event, block.blocks.to_host)
            self._counts.bytes_out += array.nbytes
        return started

    def _started(
        self,
        host: np.ndarray,
        queue: pyopencl.CommandQueue,
        ends: tuple[object, object],
        after: Sequence[pyopencl.Event],
    ) -> StartedCopy:
        """A copy from the second of *ends* to the first, of which *host* is one, put into *queue* behind *after*."""
        event, cl = None, self.block.blocks.cl
        if host.nbytes:
            try:
                event = cl.enqueue_copy(queue, *ends, is_blocking=False, wait_for=list(after))
                queue.flush()
            except cl.Error as error:
                raise self.failed(error) from error
        return StartedCopy(self, host, event)

    def failed(self, error: Exception) -> DeviceError:
        """The error for a copy that the device refused."""
        return DeviceError(f"the OpenCL device {self.opened.info.name!r} did not copy {self}: {error}")


class StartedCopy:
    """A copy in a queue, between a tensor and memory of the host, which it holds."""

    keeps_time = True

    def __init__(self, tensor: DeviceArray, host: np.ndarray, event: pyopencl.Event | None):
        self.event = event
        self._tensor, self._host = tensor, host
        driver_use().keep(self)

    @in_driver
    def wait(self) -> None:
        """Return when it is done. Raises DeviceError, RunTimeoutError."""
        event, tensor, info = self.event, self._tensor, self._tensor.opened.info
        if event is None:
            return
        try:
            wait_for([event], f"the OpenCL device {info.name!r} copied {tensor}", spins=info.kind != "cpu")
        except tensor.block.blocks.cl.Error as error:
            raise tensor.failed(error) from error
        except BaseException:  # the time is over, or a signal's handler raised: the copy goes on
            abandon(lambda: is_complete(event), (self._host, tensor.block))
            raise


@functools.cache
def blocks_of(cl: ModuleType, opened: OpenDevice) -> MemoryBlocks:
    """The blocks of a device, made when they are first asked for."""
    return MemoryBlocks(cl, opened)
