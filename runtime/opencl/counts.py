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
        recorded: calls whose kernels were put into the queue at once, as they had been recorded.
        flushes: how often the queue was flushed between the kernels of a call.
        handovers: how often it was flushed at the end of one, so that the device begins.
        trials: measurements that were made to decide something.
    """

    programs: int = 0
    kernels: int = 0
    allocations: int = 0
    allocated_bytes: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    launches: int = 0
    recorded: int = 0
    flushes: int = 0
    handovers: int = 0
    trials: int = 0


COUNTED = tuple(field.name for field in fields(DeviceCounts))


def summed(counts: Iterable[DeviceCounts]) -> Mapping[str, int]:
    """The sums of *counts*, by name."""
    found = list(counts)
    return {name: sum(getattr(c, name) for c in found) for name in COUNTED}
