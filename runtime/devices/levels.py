"""What a machine can do with a backend's regions: nothing, compile them, run them emulated, run them on the device."""

from __future__ import annotations

from enum import Enum


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
