"""Kernels recorded once and put into a queue by one call: the extension ``cl_khr_command_buffer``.

The binding of OpenCL does not know the extension, so its functions are asked of the driver by name and called through
cffi, on the handles that the binding's objects have. Nothing is compiled. A buffer records what the kernels' arguments
are at that time; its one queue is in order, so that kernels follow each other as they do when they are put there one by
one. Source: *The OpenCL Extension Specification*, cl_khr_command_buffer 0.9 (provisional).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from byoc.runtime.core.errors import DeviceError

if TYPE_CHECKING:
    import pyopencl

EXTENSION = "cl_khr_command_buffer"
_DECLARATIONS = """
void *clGetExtensionFunctionAddressForPlatform(void *, const char *);
int clGetDeviceInfo(void *, unsigned, size_t, void *, size_t *);
"""
_TYPES = {
    "clCreateCommandBufferKHR": "void *(*)(unsigned, void **, const uint64_t *, int *)",
    "clFinalizeCommandBufferKHR": "int (*)(void *)",
    "clReleaseCommandBufferKHR": "int (*)(void *)",
    "clEnqueueCommandBufferKHR": "int (*)(unsigned, void **, void *, unsigned, void **, void **)",
    "clCommandNDRangeKernelKHR": "int (*)(void *, void *, const uint64_t *, void *, unsigned, const size_t *, "
    "const size_t *, const size_t *, unsigned, const unsigned *, unsigned *, void **)",
}
_CAPABILITIES, _REQUIRED_PROPERTIES = 0x12A9, 0x12AA  # of a device
_SIMULTANEOUS = 4  # among the capabilities: a buffer may be in the queue twice
_FLAGS, _SIMULTANEOUS_USE = 0x1293, 1


class CommandBuffers:
    """What a device's driver gives to record and to run commands. Raises DeviceError where it does not."""

    def __init__(self, cl: ModuleType, device: pyopencl.Device):
        if EXTENSION not in device.extensions.split():
            raise DeviceError(f"the OpenCL device {device.name.strip()!r} does not offer {EXTENSION}")
        import cffi

        self.ffi = cffi.FFI()
        self.ffi.cdef(_DECLARATIONS)
        try:
            library: Any = self.ffi.dlopen(cl._cl.__file__)  # whose search finds the loader that the binding uses
            find, ask = library.clGetExtensionFunctionAddressForPlatform, library.clGetDeviceInfo
        except (AttributeError, OSError) as error:
            raise DeviceError(f"the OpenCL loader of pyopencl gives no functions by name: {error}") from None
        platform = self.ffi.cast("void *", device.platform.int_ptr)
        self._functions: dict[str, Any] = {}
        for name, kind in _TYPES.items():
            found = find(platform, name.encode())
            if found == self.ffi.NULL:
                raise DeviceError(f"the OpenCL device {device.name.strip()!r} offers {EXTENSION} without {name}")
            self._functions[name] = self.ffi.cast(kind, found)
        number_at = self.ffi.new("uint64_t[1]")

        def number(what: int) -> int:
            refused = ask(self.ffi.cast("void *", device.int_ptr), what, 8, number_at, self.ffi.NULL)
            return 0 if refused else int(number_at[0])

        if number(_REQUIRED_PROPERTIES):
            raise DeviceError(f"the OpenCL device {device.name.strip()!r} records commands for other queues than ours")
        self.runs_twice = bool(number(_CAPABILITIES) & _SIMULTANEOUS)

    def call(self, name: str, *words: object) -> Any:
        """What the function *name* gives."""
        return self._functions[name](*words)


@functools.cache
def command_buffers(cl: ModuleType, device: pyopencl.Device) -> CommandBuffers | str:
    """What records commands for *device*, or one sentence that says why nothing does."""
    try:
        return CommandBuffers(cl, device)
    except DeviceError as error:
        return str(error)
    except ImportError as error:
        return f"{EXTENSION} needs the package cffi, which is missing here ({error})"


class RecordedKernels:
    """Kernels with their sizes, recorded for *queue*. Raises DeviceError for what the driver refuses.

    Whoever puts them into the queue keeps the object until they are done.
    """

    def __init__(
        self,
        buffers: CommandBuffers,
        queue: pyopencl.CommandQueue,
        kernels: Iterable[tuple[pyopencl.Kernel, tuple[int, ...], tuple[int, ...] | None]],
    ):
        ffi, call = buffers.ffi, buffers.call
        self.runs_twice = buffers.runs_twice
        self._buffers, self._queue = buffers, queue
        self._queues = ffi.new("void *[1]", [ffi.cast("void *", queue.int_ptr)])
        status = ffi.new("int[1]")
        flags = [_FLAGS, _SIMULTANEOUS_USE, 0] if self.runs_twice else [0]
        self._handle = None
        handle = call("clCreateCommandBufferKHR", 1, self._queues, ffi.new("uint64_t[]", flags), status)
        _check("clCreateCommandBufferKHR", status[0])
        self._handle = handle
        self._kernels = []  # the driver may not hold them
        for kernel, global_size, local_size in kernels:
            none = ffi.NULL
            sizes = [none if s is None else ffi.new("size_t[]", s) for s in (global_size, local_size)]
            own = ffi.cast("void *", kernel.int_ptr)
            rest = (len(global_size), none, *sizes, 0, none, none, none)
            _check("clCommandNDRangeKernelKHR", call("clCommandNDRangeKernelKHR", handle, none, none, own, *rest))
            self._kernels.append(kernel)
        _check("clFinalizeCommandBufferKHR", call("clFinalizeCommandBufferKHR", handle))

    def enqueue(self) -> None:
        """Put all of them into the queue. Raises DeviceError."""
        none = self._buffers.ffi.NULL
        name = "clEnqueueCommandBufferKHR"
        _check(name, self._buffers.call(name, 1, self._queues, self._handle, 0, none, none))

    def __del__(self) -> None:
        if self._handle is not None:
            self._buffers.call("clReleaseCommandBufferKHR", self._handle)


def _check(name: str, status: int) -> None:
    if status:
        raise DeviceError(f"{name} gave the error {status}")
