"""A function on a device whose launches are made one by one between fences: what ``BYOC_CHECK`` asks of OpenCL.

What a launch is given and leaves goes through the host (``commands/checked_launches.py``). It has its own queue and no
memory that it keeps, so that it has nothing to do with the sessions of calls that nobody looks at (``session.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.errors import DeviceError
from byoc.runtime.core.fork import new_lock
from byoc.runtime.core.ndarray import dtype_name, from_any, numpy_dtype
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.opencl.commands.checked_launches import CheckedLaunch, CheckedLaunches, DeviceBuffers
from byoc.runtime.opencl.device_memory import TensorPart
from byoc.runtime.opencl.devices import OpenDevice, import_pyopencl
from byoc.runtime.opencl.found_indices import FoundIndices, check_found
from byoc.runtime.opencl.images import new_image, texels
from byoc.runtime.opencl.launches import FunctionPlan, Launch, Variant
from byoc.runtime.opencl.process import driver_use, in_driver
from byoc.runtime.opencl.ready_kernels import ReadyKernels
from byoc.runtime.region.checks import CallChecks
from byoc.runtime.region.fences import NEVER_WRITTEN

if TYPE_CHECKING:
    import pyopencl


class CheckedFunction:
    """A symbol, whose launches are made one by one between fences (``commands/checked_launches.py``), as ``BYOC_CHECK``
    asks for: of a vendor's kernel all is looked at, of generated ones what they write beside their buffers, and into
    inputs and constants.
    """

    @in_driver
    def __init__(
        self,
        plan: FunctionPlan,
        program: pyopencl.Program,
        opened: OpenDevice,
        constants: Sequence[np.ndarray],
        checks: CallChecks,
    ):
        self._cl, self._plan, self._program = import_pyopencl(), plan, program
        self._opened, self._checks = opened, checks
        self._queue = self._cl.CommandQueue(opened.context, opened.device)
        self._constants = {plan.first_constant + k: np.array(c, order="C") for k, c in enumerate(constants)}
        self._found = FoundIndices(self._cl, opened.context, self._queue) if plan.checks else None
        self._lock = new_lock()
        driver_use().keep(self)

    @in_driver
    def __call__(self, *arrays: object) -> None:
        """Run on inputs, then outputs, which are filled. Raises ContractError, DeviceError, InputError."""
        plan, given = self._plan, [from_any(a) for a in arrays]
        signature = plan.signature
        count = len(signature.inputs)
        sizes = signature.bind_sizes(given[:count])
        for spec, array in zip(signature.outputs, given[count:], strict=True):
            spec.bind(array, sizes)
        with self._lock:
            try:
                values = self._values(given[:count], given[count:], sizes)
                self._launched(values, sizes)
            except self._cl.Error as error:
                raise DeviceError(
                    f"{signature.symbol} failed on the OpenCL device {self._opened.info.name!r}: {error}"
                ) from error
        for k, output in enumerate(given[count:]):
            made = values[plan.first_output + k]
            np.copyto(output, made.view(np.uint8)[: output.nbytes].view(output.dtype).reshape(output.shape))

    def _values(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], sizes: Sizes
    ) -> dict[int, np.ndarray]:
        """What each buffer holds before the first launch, flat; what is no argument holds numbers that are none."""
        plan = self._plan
        arguments = {**dict(enumerate(inputs)), **self._constants}
        arguments |= {plan.first_output + k: a for k, a in enumerate(outputs)}
        dtypes = {b: dtype for launch in plan.launches for b, dtype in zip(launch.buffers, launch.dtypes, strict=False)}
        found = {}
        for number, size in enumerate(plan.buffer_bytes(sizes)):
            if number in plan.images:
                continue
            if number in arguments:
                content = np.array(arguments[number], order="C").reshape(-1)
                if content.nbytes != size:  # of whole groups, say
                    content = np.append(content.view(np.uint8), np.zeros(size - content.nbytes, np.uint8))
            else:
                content = np.full(size, NEVER_WRITTEN, np.uint8).view(numpy_dtype(dtypes.get(number, "uint8")))
            found[number] = content
        return found

    def _launched(self, values: Mapping[int, np.ndarray], sizes: Sizes) -> None:
        plan, opened = self._plan, self._opened
        images = {k: new_image(self._cl, opened, size) for k, size in plan.images.items()}
        for k, image in images.items():
            if k in self._constants:
                size = plan.images[k]
                points, region = texels(self._constants[k], size.dtype), (size.width, size.height)
                self._cl.enqueue_copy(self._queue, image, points, origin=(0, 0), region=region)
        names = dict(enumerate(spec.name for spec in plan.specs))
        specs = {
            k: TensorSpec(names.get(k, f"buffer {k}"), value.shape, dtype_name(value.dtype))
            for k, value in values.items()
        }
        device = DeviceBuffers(self._cl, opened.context, self._queue, images)
        if self._found is not None:
            self._found.begin()
        checked = CheckedLaunches(device, self._launches(sizes), specs, frozenset(self._constants), self._checks)
        checked.run(values)
        if self._found is not None:
            words, event = self._found.read()
            event.wait()
            self._found.done(words)
            check_found(words, plan.signature)

    def _launches(self, sizes: Sizes) -> list[CheckedLaunch]:
        """The launches that have work, and what each reads and fills."""
        plan = self._plan
        launches: list[CheckedLaunch] = []
        ready = ReadyKernels(self._cl, self._program, self._opened, plan, self._found)
        made = set(range(plan.first_output))
        for launch in plan.launches:
            own = dict.fromkeys(launch.buffers)
            filled = tuple(b for b in own if (b not in made if launch.whole else b >= plan.first_output))
            made.update(filled)
            variant = launch.choose(sizes)
            if variant.has_work(sizes):
                name = variant.schedule if launch.whole else variant.kernel
                enqueue = functools.partial(self._enqueue, ready, launch, variant, sizes)
                read = tuple(b for b in own if b not in filled)
                launches.append(CheckedLaunch(name, read, filled, launch.whole, enqueue))
        return launches

    def _enqueue(
        self,
        ready: ReadyKernels,
        launch: Launch,
        variant: Variant,
        sizes: Sizes,
        parts: Mapping[int, pyopencl.MemoryObject],
    ) -> None:
        """Put one launch into the queue, on *parts*, which begin at their first bytes."""
        made = ready.kernel(launch, variant, sizes, {b: TensorPart(part) for b, part in parts.items()})
        self._cl.enqueue_nd_range_kernel(self._queue, made.kernel, made.global_size, made.local_size)
