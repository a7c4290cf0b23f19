"""The launches of a call one after the other, each on memory between fences: what ``BYOC_CHECK`` asks for.

For each launch its buffers are copies of the host's arrays and of the fences around them (``region/fences.py``), whole:
the kernel gets the part between. What it leaves there is copied back, fences and all, and looked at on the host as a
call of native code is (``region/checks.py``). So a kernel that writes beside a buffer, leaves some of an output, or
writes to an input is named, though a device has no memory protection.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from byoc.runtime.core.errors import ContractError
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.region.checks import CallArrays, CallChecks, CheckedCall
from byoc.runtime.region.fences import ZONE

if TYPE_CHECKING:
    import pyopencl


@dataclass(frozen=True)
class CheckedLaunch:
    """A launch: its kernel's name, the numbers of the buffers that it reads and of those that it fills or changes.

    Of one that is not *owned*, a part of generated code, a value may come about in several launches: what it leaves as
    it was, and what is no number in it, says nothing. *enqueue* launches it on buffers by number.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    owned: bool
    enqueue: Callable[[Mapping[int, pyopencl.MemoryObject]], None]


@dataclass(frozen=True)
class DeviceBuffers:
    """Where buffers are made, and brought to and from; those of *images* are taken as they are, and not looked at."""

    cl: ModuleType
    context: pyopencl.Context
    queue: pyopencl.CommandQueue
    images: Mapping[int, pyopencl.MemoryObject]


class CheckedLaunches:
    """*launches* over *values*, the host's arrays by the numbers of buffers, which *specs* describe.

    *constants* are the numbers of those that every call reads.
    """

    def __init__(
        self,
        device: DeviceBuffers,
        launches: Sequence[CheckedLaunch],
        specs: Mapping[int, TensorSpec],
        constants: frozenset[int],
        checks: CallChecks,
    ):
        self._device, self._launches, self._specs = device, launches, specs
        self._constants, self._checks = constants, checks

    def run(self, values: Mapping[int, np.ndarray]) -> None:
        """Launch them all. Raises ContractError that names a kernel, and pyopencl's errors."""
        for number, launch in enumerate(self._launches):
            try:
                self._checked(launch, values)
            except ContractError as error:
                place = f"step {number + 1} of {len(self._launches)}"
                raise ContractError(f"kernel {launch.name}, {place}: {error}") from None

    def _checked(self, launch: CheckedLaunch, values: Mapping[int, np.ndarray]) -> None:
        """One launch."""
        own = {n: self._specs[n].name for n in launch.inputs if n in self._constants and n in values}
        read = [n for n in launch.inputs if n not in self._constants and n in values]
        places = [*read, *(n for n in launch.outputs if n in values)]
        named = Signature(
            launch.name,
            tuple(self._specs[n] for n in read),
            tuple(self._specs[n] for n in places[len(read) :]),
        )
        checks = self._checks if launch.owned else replace(self._checks, outputs=False, nan=False)
        constants = {name: values[n] for n, name in own.items()}
        given = CallArrays.of_kernel(checks, [values[n] for n in places], len(read), named, constants)
        arrays = dict(zip(places, given.arrays, strict=True))
        arrays |= {n: given.constants[name] for n, name in own.items()}

        def work() -> None:
            for n in launch.outputs:
                if n in values and arrays[n] is not values[n] and not launch.owned:
                    np.copyto(arrays[n], values[n])
            self._launch(launch, arrays)

        CheckedCall(work, checks, given)()

    def _launch(self, launch: CheckedLaunch, arrays: Mapping[int, np.ndarray]) -> None:
        """Launch it on copies of *arrays*, with their fences where edges are looked at, and copy all back."""
        cl, device = self._device.cl, self._device
        zone = ZONE if self._checks.edges else 0
        memory = {n: _with_fences(array, zone) for n, array in arrays.items()}
        whole: dict[int, pyopencl.Buffer] = {}
        parts: dict[int, pyopencl.MemoryObject] = dict(device.images)
        for n, content in memory.items():
            whole[n] = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, max(content.size, 1))
            if content.size:
                cl.enqueue_copy(device.queue, whole[n], content)
            parts[n] = whole[n].get_sub_region(zone, max(arrays[n].nbytes, 1)) if zone else whole[n]
        launch.enqueue(parts)
        device.queue.finish()
        for n, content in memory.items():
            if content.size:
                cl.enqueue_copy(device.queue, content, whole[n])
        device.queue.finish()


def _with_fences(array: np.ndarray, zone: int) -> np.ndarray:
    """The bytes of *array*, which is in C order, and *zone* bytes on either side, also of one that is only read."""
    size = array.nbytes + 2 * zone
    if not size:
        return np.empty(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(array.ctypes.data - zone))
