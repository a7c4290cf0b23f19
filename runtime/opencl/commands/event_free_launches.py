"""Kernels put into a queue without an event for each: what nobody asks for costs time on a GPU.

The binding makes an event for each launch. On an NVIDIA H100 that takes 1.5 microseconds of the host and 2 of the
device, a fifth of a run of BERT (242 kernels: 2.72 ms with events, 2.26 without). The driver's function is called
through cffi, on the handles that the binding's objects have; nothing is compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyopencl

_DECLARATION = """
int clEnqueueNDRangeKernel(void *, void *, unsigned, const size_t *, const size_t *, const size_t *, unsigned,
                           const void *, void **);
"""


@functools.cache
def _driver(cl: ModuleType) -> tuple[Any, Any] | None:
    """cffi and the loader that the binding uses; None where one of them cannot be had."""
    try:
        import cffi

        ffi = cffi.FFI()
        ffi.cdef(_DECLARATION)
        library: Any = ffi.dlopen(cl._cl.__file__)  # whose search finds the loader
        return ffi, library.clEnqueueNDRangeKernel
    except (ImportError, AttributeError, OSError):
        return None


class EventFreeLaunches:
    """Launches whose arguments are ready. Whoever puts them into the queue keeps it and the kernels."""

    def __init__(self, put: Any, calls: Sequence[tuple[object, ...]]):
        self._put, self._calls = put, calls

    def enqueue(self, number: int) -> bool:
        """Put the launch of that *number* into the queue; whether the driver took it."""
        return not self._put(*self._calls[number])


def event_free_launches(
    cl: ModuleType,
    queue: pyopencl.CommandQueue,
    kernels: Sequence[tuple[pyopencl.Kernel, tuple[int, ...], tuple[int, ...] | None]],
) -> EventFreeLaunches | None:
    """The launches of *kernels*, each with its global and local size; None where the driver cannot be called."""
    driver = _driver(cl)
    if driver is None:
        return None
    ffi, put = driver
    none, own = ffi.NULL, ffi.cast("void *", queue.int_ptr)
    calls = []
    for kernel, over, group in kernels:
        local = none if group is None else ffi.new("size_t[]", group)  # none: the driver chooses
        held = ffi.cast("void *", kernel.int_ptr)
        calls.append((own, held, len(over), none, ffi.new("size_t[]", over), local, 0, none, none))
    return EventFreeLaunches(put, calls)
