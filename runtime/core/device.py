"""Devices by kind and number, ``cpu(0)``, ``opencl(0)``, and what a machine can do with a backend's regions.

A vendor's own kind is registered (:func:`register_device_kind`) by the entry point of that name in the group
``byoc.runtime``, when the kind is first asked for, or by whoever imports the vendor's package.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from byoc.runtime.core.entry_points import RUNTIME
from byoc.runtime.core.errors import DeviceError

# kind -> DLPack's number of it
DEVICE_TYPES = {"cpu": 1, "cuda": 2, "opencl": 4, "vulkan": 7, "metal": 8, "ext_dev": 12}
EXTENSION = "ext_dev"


def register_device_kind(kind: str, like: str = EXTENSION) -> None:
    """Make *kind* a kind of device, which DLPack calls as it calls *like*.

    Raises DeviceError where *like* is unknown, or *kind* is one already that DLPack calls otherwise.
    """
    if like not in DEVICE_TYPES:
        raise DeviceError(f"device kind {kind!r} cannot be like {like!r}; known: {', '.join(DEVICE_TYPES)}")
    if DEVICE_TYPES.setdefault(kind, DEVICE_TYPES[like]) != DEVICE_TYPES[like]:
        raise DeviceError(f"a device kind is called {kind!r} already; choose another name")


@dataclass(frozen=True, order=True)
class Device:
    """A device: its kind, and which one of that kind.

    >>> str(Device("opencl", 1))
    'opencl(1)'
    """

    kind: str
    index: int = 0

    def __post_init__(self) -> None:
        problem = None if self.kind in DEVICE_TYPES else RUNTIME.load(self.kind).problem
        if self.kind not in DEVICE_TYPES:
            why = f"; {problem}" if problem else ""
            raise DeviceError(f"unknown kind of device {self.kind!r}; known: {', '.join(DEVICE_TYPES)}{why}")

    @property
    def device_type(self) -> int:
        """DLPack's number of the kind."""
        return DEVICE_TYPES[self.kind]

    @property
    def device_id(self) -> int:
        return self.index

    @property
    def exist(self) -> bool:
        """Whether arrays live on such a device here: on the host alone. Source: ``Device.exist``."""
        return self.kind == "cpu"

    def __str__(self) -> str:
        return f"{self.kind}({self.index})"


def cpu(index: int = 0) -> Device:
    """The host."""
    return Device("cpu", index)


def device(kind: str, index: int = 0) -> Device:
    """A device by kind. Raises DeviceError for an unknown kind. Source: ``tvm.device``."""
    return Device(kind, index)


class HardwareLevel(str, Enum):
    """How far a backend, or a region that it compiled, gets on this machine.

    ``COMPILE_ONLY`` and ``EMULATED`` are what TVM's Arm Ethos-N integration calls ``SW_ONLY``, ``REAL`` what it calls
    ``SW_AND_HW``. Source: ``tvm.relay.op.contrib.ethosn.Available``.
    """

    UNAVAILABLE = "unavailable"
    COMPILE_ONLY = "compile only"
    EMULATED = "emulated"
    REAL = "real"

    @property
    def runs(self) -> bool:
        """Whether regions can run here."""
        return self in (HardwareLevel.EMULATED, HardwareLevel.REAL)

    def __str__(self) -> str:
        return str(self.value)
