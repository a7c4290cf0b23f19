"""What a module has asked of its device so far: allocations, kernels, copies, launches.

Counted where the driver is called, so that a test, or a user, can see that a run which was prepared allocates and
builds nothing, and which bytes crossed to the device and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields


@dataclass
class DeviceCounts:
    """Counts of one function, which its calls raise one after the other.

    Attributes:
        programs: programs that were built, or read from a cache.
        kernels: kernel objects that were made.
        allocations: buffers of the device that were allocated; parts of one are none.
        allocated_bytes: the bytes of these.
        bytes_in: bytes of inputs and constants that were copied to the device.
        bytes_out: bytes of outputs that were copied from the device.
        launches: kernels that were put into the queue.
        flushes: how often the queue was told to begin.
    """

    programs: int = 0
    kernels: int = 0
    allocations: int = 0
    allocated_bytes: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    launches: int = 0
    flushes: int = 0


COUNTED = tuple(field.name for field in fields(DeviceCounts))


def summed(counts: Iterable[DeviceCounts]) -> Mapping[str, int]:
    """The sums of *counts*, by name."""
    found = list(counts)
    return {name: sum(getattr(c, name) for c in found) for name in COUNTED}
