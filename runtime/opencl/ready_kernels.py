"""The kernels of a plan for certain sizes, with their arguments set: pointers, offsets, sizes, in this order."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.opencl.commands.launches import ReadyKernel, check_arguments, most_items
from byoc.runtime.opencl.device_memory import TensorPart
from byoc.runtime.opencl.devices import OpenDevice
from byoc.runtime.opencl.found_indices import FoundIndices
from byoc.runtime.opencl.launches import FunctionPlan, Launch, Variant
from byoc.runtime.opencl.timed_events import header_of_launch

if TYPE_CHECKING:
    import pyopencl


class ReadyKernels:
    """Makes the kernels of *plan*, from *program*, which was built for *opened*.

    Those that check indices write into *found*.
    """

    def __init__(
        self,
        cl: ModuleType,
        program: pyopencl.Program,
        opened: OpenDevice,
        plan: FunctionPlan,
        found: FoundIndices | None,
    ):
        self._cl, self._program, self._opened, self._plan, self._found = cl, program, opened, plan, found

    def kernel(self, launch: Launch, variant: Variant, sizes: Sizes, parts: Mapping[int, TensorPart]) -> ReadyKernel:
        """That of *launch*, computed as *variant* says, on *parts* by the numbers of buffers.

        Raises DeviceError for one that takes other arguments, and pyopencl's errors.
        """
        kernel = self._cl.Kernel(self._program, variant.kernel)
        most = most_items(self._cl, kernel, self._opened.device, self._opened.info.max_work_group_size)
        global_size, local_size = variant.shape(sizes, most)
        found = [self._found.buffer] if launch.checks and self._found is not None else []
        numbers = [*(parts[b].step for b in self._plan.placed(launch)), *(sizes[s] for s in launch.sizes)]
        arguments = (*(parts[b].buffer for b in launch.buffers), *map(np.int64, numbers), *found)
        check_arguments(kernel, variant.schedule, len(launch.buffers), launch.sizes, len(arguments))
        kernel.set_args(*arguments)
        header = header_of_launch(launch, variant, (global_size, *([local_size] if local_size else [])), sizes)
        return ReadyKernel(kernel, (global_size,), (local_size,) if local_size else None, header)
