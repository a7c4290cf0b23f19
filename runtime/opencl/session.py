"""A function on a device: its constants, and for each set of sizes its buffers with kernels whose arguments are set.

All work of a call goes into one in-order queue: inputs are written, kernels follow each other, and only the reading
of the outputs waits. Buffers and kernels of the most recent sizes are kept, so that a call with known sizes allocates
nothing. Calls are serialised by a lock, since a kernel's arguments are state of the kernel.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from byoc.runtime.errors import DeviceError, InputError
from byoc.runtime.ndarray import NDArray, from_any
from byoc.runtime.opencl.devices import OpenDevice, import_pyopencl
from byoc.runtime.opencl.plan import FunctionPlan, evaluate

if TYPE_CHECKING:
    import pyopencl

KEPT_SIZES = 4


@dataclass(frozen=True)
class _Binding:
    """What a call with certain sizes uses: buffers by number, and launches that are ready to go."""

    buffers: Sequence[pyopencl.Buffer]
    launches: Sequence[tuple[pyopencl.Kernel, tuple[int], tuple[int]]]


class Session:
    """Runs one symbol. Made when the symbol is first used, with its constants."""

    def __init__(
        self, plan: FunctionPlan, program: pyopencl.Program, opened: OpenDevice, constants: Sequence[NDArray]
    ):
        cl = import_pyopencl()
        self._cl, self._plan, self._program, self._opened = cl, plan, program, opened
        self._lock = threading.Lock()
        self._bindings: OrderedDict[tuple[int, ...], _Binding] = OrderedDict()
        try:
            self._queue = cl.CommandQueue(opened.context, opened.device)
            self._constants = [self._upload(c.numpy()) for c in constants]
        except cl.Error as error:
            raise self._failed("cannot take the constants", error) from error

    def __call__(self, *arrays: object) -> None:
        """Run on inputs, then outputs, which are filled. Raises InputError for arrays that do not fit."""
        signature = self._plan.signature
        values = [from_any(a) for a in arrays]
        n = len(signature.inputs)
        m = len(signature.outputs)
        if len(values) != n + m:
            raise InputError(f"{signature.symbol}: expected {n} inputs and {m} outputs, got {len(values)} arrays")
        sizes = signature.bind_sizes(values[:n])
        for spec, array in zip(signature.outputs, values[n:], strict=True):
            spec.bind(array, sizes)
        with self._lock:
            try:
                self._run(values[:n], values[n:], sizes)
            except self._cl.Error as error:
                raise self._failed("failed", error) from error

    def _failed(self, what: str, error: Exception) -> DeviceError:
        name = self._opened.info.name
        return DeviceError(f"{self._plan.signature.symbol} {what} on the OpenCL device {name!r}: {error}")

    def _run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], sizes: dict[str, int]) -> None:
        binding = self._binding(sizes)
        cl, queue = self._cl, self._queue
        held = [np.ascontiguousarray(a) for a in inputs]  # alive until the outputs have been read
        for buffer, array in zip(binding.buffers, held, strict=False):
            if array.nbytes:
                cl.enqueue_copy(queue, buffer, array, is_blocking=False)
        for kernel, global_size, local_size in binding.launches:
            cl.enqueue_nd_range_kernel(queue, kernel, global_size, local_size)
        first = self._plan.first_output
        results = [a if a.flags.c_contiguous and a.flags.writeable else np.empty(a.shape, a.dtype) for a in outputs]
        for k, result in enumerate(results):
            if result.nbytes:
                cl.enqueue_copy(queue, result, binding.buffers[first + k], is_blocking=False)
        queue.finish()
        for array, result in zip(outputs, results, strict=True):
            if array is not result:
                np.copyto(array, result)

    def _binding(self, sizes: dict[str, int]) -> _Binding:
        key = tuple(sizes.values())
        if key not in self._bindings:
            while len(self._bindings) >= KEPT_SIZES:
                self._bindings.popitem(last=False)
            self._bindings[key] = self._bind(sizes)
        self._bindings.move_to_end(key)
        return self._bindings[key]

    def _bind(self, sizes: dict[str, int]) -> _Binding:
        plan, first = self._plan, self._plan.first_constant
        buffers = [
            self._constants[k - first] if first <= k < plan.first_output else self._allocate(evaluate(b.bytes, sizes))
            for k, b in enumerate(plan.buffers)
        ]
        launches = []
        for launch in plan.launches:
            global_size, local_size = launch.shape(sizes, self._opened.info.max_work_group_size)
            if not global_size:
                continue
            kernel = self._cl.Kernel(self._program, launch.kernel)
            kernel.set_args(*(buffers[b] for b in launch.buffers), *(np.int64(sizes[s]) for s in launch.sizes))
            launches.append((kernel, (global_size,), (local_size,)))
        return _Binding(buffers, launches)

    def _allocate(self, count: int) -> pyopencl.Buffer:
        """Memory of *count* bytes; of one where there is nothing to hold, since no buffer is empty."""
        limit = self._opened.info.global_memory
        if count > limit:
            raise DeviceError(
                f"{self._plan.signature.symbol} needs a buffer of {count} bytes, and the OpenCL device "
                f"{self._opened.info.name!r} has {limit}: use smaller inputs or another device"
            )
        return self._cl.Buffer(self._opened.context, self._cl.mem_flags.READ_WRITE, max(count, 1))

    def _upload(self, array: np.ndarray) -> pyopencl.Buffer:
        buffer = self._cl.Buffer(self._opened.context, self._cl.mem_flags.READ_ONLY, max(array.nbytes, 1))
        if array.nbytes:
            self._cl.enqueue_copy(self._queue, buffer, np.ascontiguousarray(array), is_blocking=True)
        return buffer
