"""Host memory that a device reads and writes by itself (pinned).

From and to other memory a driver copies piece by piece, by pinned memory of its own, while the caller waits. On an H100
0.6 MB come from the device in 122 microseconds, through a piece of ours and from there by the host in 69, and in 23
where they may stay in it (OpenCL 3.0 by driver 580). So results of a call pass through pieces that are kept, and a
caller who has inputs in such memory (:func:`pinned_array`) gives them three times as fast. A device that shares the
host's memory gains nothing by it.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from byoc.runtime.core.errors import DeviceError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.processor import usable_processors
from byoc.runtime.opencl.device_memory import capacity_of
from byoc.runtime.opencl.devices import OpenDevice, import_pyopencl, open_device
from byoc.runtime.opencl.process import driver_use, in_driver

if TYPE_CHECKING:
    import pyopencl

LARGEST_RESULT = 2 << 20  # bytes; of more one thread's copy takes as long as the driver's
LEAST_STAGED, LARGEST_STAGED = 8 << 20, 64 << 20  # bytes that several threads copy faster; such memory is scarce
FEWEST_PROCESSORS = 4  # for them
KEPT_PIECES = 4  # of one size


class PinnedPieces:
    """The pieces of pinned memory of one device that are free, by their sizes."""

    def __init__(self, cl: ModuleType, opened: OpenDevice):
        self.cl, self.opened = cl, opened
        self._queue = cl.CommandQueue(opened.context, opened.device)
        self._free: dict[int, deque[tuple[pyopencl.Buffer, np.ndarray]]] = {}
        driver_use().keep(self)

    def take(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """An array of *shape* and *dtype* in a piece, which is free again when nothing reads the array any more.

        Raises pyopencl's error where there is no more such memory.
        """
        count = math.prod(shape)
        size = capacity_of(count * dtype.itemsize)
        try:
            held = self._free.setdefault(size, deque()).popleft()
        except IndexError:
            held = self._made(size)
        return np.asarray(_Piece(self, size, held)).view(dtype)[:count].reshape(tuple(shape))

    def give_back(self, size: int, held: tuple[pyopencl.Buffer, np.ndarray]) -> None:
        """Take back what a piece held; called wherever Python drops it, and so without a lock."""
        free = self._free.setdefault(size, deque())
        if len(free) < KEPT_PIECES:
            free.append(held)

    def _made(self, size: int) -> tuple[pyopencl.Buffer, np.ndarray]:
        cl, flags = self.cl, self.cl.mem_flags
        buffer = cl.Buffer(self.opened.context, flags.READ_WRITE | flags.ALLOC_HOST_PTR, size)
        how = cl.map_flags.READ | cl.map_flags.WRITE
        array, _ = cl.enqueue_map_buffer(self._queue, buffer, how, 0, (size,), np.uint8)
        return buffer, array


class _Piece:
    """The memory behind an array, as numpy knows it: when the last array over it goes, the piece is free again."""

    def __init__(self, pieces: PinnedPieces, size: int, held: tuple[pyopencl.Buffer, np.ndarray]):
        self._pieces, self._size, self._held = pieces, size, held
        self.__array_interface__ = held[1].__array_interface__
        driver_use().keep(self)

    def __del__(self) -> None:
        self._pieces.give_back(self._size, self._held)


@functools.cache
def pieces_of(cl: ModuleType, opened: OpenDevice) -> PinnedPieces:
    """The pieces of a device, made when they are first asked for."""
    return PinnedPieces(cl, opened)


def result_pieces(cl: ModuleType, opened: OpenDevice) -> PinnedPieces | None:
    """What results of *opened* pass through; None where they come straight into the caller's arrays."""
    return None if shares_memory(opened) else pieces_of(cl, opened)


def landing(pieces: PinnedPieces | None, array: np.ndarray) -> np.ndarray:
    """What the device writes into for *array*, to be copied from there: *array* itself where that is as fast."""
    if pieces is not None and (0 < array.nbytes <= LARGEST_RESULT or is_staged(array.nbytes)):
        with suppress(pieces.cl.Error):  # there is no more such memory, and the driver has some of its own
            return pieces.take(array.shape, array.dtype)
    return array if array.flags.c_contiguous and array.flags.writeable else np.empty(array.shape, array.dtype)


def is_staged(nbytes: int) -> bool:
    """Whether an array of so many bytes passes through pieces part by part (``staged_copies.py``)."""
    return LEAST_STAGED <= nbytes <= LARGEST_STAGED and usable_processors() >= FEWEST_PROCESSORS


def host_array(pieces: PinnedPieces | None, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """An array in one of *pieces*, or an ordinary one where there are none, or no more such memory."""
    if pieces is not None and math.prod(shape) > 0:
        with suppress(pieces.cl.Error):
            return pieces.take(shape, dtype)
    return np.empty(tuple(shape), dtype)


def shares_memory(opened: OpenDevice) -> bool:
    """Whether the device's memory is the host's."""
    return opened.info.kind == "cpu" or bool(opened.device.host_unified_memory)


@in_driver
def pinned_array(shape: int | Sequence[int], dtype: str = "float32", device: str = "") -> np.ndarray:
    """An array for inputs, or for results, in memory that an OpenCL device reads and writes by itself.

    Its numbers are not set. It is an array like others, but that a child of a fork must not touch it. Such memory is
    scarce: keep the array over many calls.

    Args:
        shape: the sizes of its dimensions.
        dtype: its dtype by name.
        device: which device, as ``$BYOC_OPENCL_DEVICE`` names it; the default one without it.

    Raises:
        DeviceError: there is no such device, or it gives no more such memory.
    """
    cl, opened = import_pyopencl(), open_device(device)
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    try:
        return pieces_of(cl, opened).take(sizes, numpy_dtype(dtype))
    except cl.Error as error:
        raise DeviceError(
            f"the OpenCL device {opened.info.name!r} gives no pinned memory for {dtype}{list(sizes)}: {error}; use an "
            "ordinary array"
        ) from error
