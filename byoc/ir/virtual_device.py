"""Virtual devices: where a value lives and what computes it, each part of which may be left open.

A device type, a device number, a target and a memory scope; the open values are -1, -1, None and "". Two that do not
contradict each other join to one that says what either says. Source: ``tvm.target.VirtualDevice``.
"""

from __future__ import annotations

from dataclasses import dataclass

from byoc.errors import UserError
from byoc.ir.attrs import AttrObject
from byoc.ir.target import Target
from byoc.runtime.core.device import Device

INVALID_DEVICE_TYPE = -1


@dataclass(frozen=True, init=False)
class VirtualDevice(AttrObject):
    """*device* (None leaves it open), *target* and *memory_scope*.

    Raises UserError where the target is for other devices.
    """

    device_type_int: int
    virtual_device_id: int
    target: Target | None
    memory_scope: str

    def __init__(self, device: Device | None = None, target: Target | None = None, memory_scope: str = ""):
        self._set(
            INVALID_DEVICE_TYPE if device is None else device.device_type,
            -1 if device is None else device.device_id,
            target,
            memory_scope,
        )

    def _set(self, device_type: int, device_id: int, target: Target | None, memory_scope: str) -> None:
        if target is not None:
            wanted = target.get_target_device_type()
            if device_type == INVALID_DEVICE_TYPE:
                device_type = wanted
            elif device_type != wanted:
                raise UserError(
                    f"target {target.kind} is for devices of type {wanted}, the virtual device is of type "
                    f"{device_type}: give a target of that device"
                )
        if device_type != INVALID_DEVICE_TYPE and device_id < 0:
            device_id = 0
        object.__setattr__(self, "device_type_int", device_type)
        object.__setattr__(self, "virtual_device_id", device_id)
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "memory_scope", memory_scope)

    @staticmethod
    def of_type(device_type: int, device_id: int = 0, target: Target | None = None, scope: str = "") -> VirtualDevice:
        """The virtual device of a DLPack device type. Raises UserError where the target is for other devices."""
        made = object.__new__(VirtualDevice)
        made._set(device_type, device_id, target, scope)
        return made

    @property
    def device_type(self) -> int:
        """DLPack's number of the kind of device; -1 where it is open."""
        return self.device_type_int

    @property
    def is_fully_unconstrained(self) -> bool:
        """True where every part is open."""
        return self == UNCONSTRAINED

    @property
    def is_fully_constrained(self) -> bool:
        """True where no part is open."""
        return self.device_type_int != INVALID_DEVICE_TYPE and self.target is not None and bool(self.memory_scope)

    def without_scope(self) -> VirtualDevice:
        """The same with its memory scope open."""
        return VirtualDevice.of_type(self.device_type_int, self.virtual_device_id, self.target)

    def joined(self, other: VirtualDevice) -> VirtualDevice | None:
        """What either says, or None where they contradict each other. Source: ``VirtualDevice::Join``."""
        if other is self or other is UNCONSTRAINED:
            return self
        if self is UNCONSTRAINED:
            return other
        for mine, theirs, open_value in zip(_parts(self), _parts(other), _parts(UNCONSTRAINED), strict=True):
            if open_value not in (mine, theirs) and mine != theirs:
                return None
        return self.or_default(other)

    def or_default(self, default: VirtualDevice) -> VirtualDevice:
        """This, with what it leaves open as *default* has it, as far as the devices agree.

        Source: ``VirtualDevice::Default``.
        """
        if self is UNCONSTRAINED or self is default:
            return default
        device_type, device_id, target = self.device_type_int, self.virtual_device_id, self.target
        if device_type == INVALID_DEVICE_TYPE:
            device_type = default.device_type_int
        if device_id < 0:
            device_id = default.virtual_device_id
        if target is None and default.target is not None and default.target.get_target_device_type() == device_type:
            target = default.target
        return VirtualDevice.of_type(device_type, device_id, target, self.memory_scope or default.memory_scope)

    def __str__(self) -> str:
        if self == UNCONSTRAINED:
            return "VirtualDevice(unconstrained)"
        parts = [f"device_type={self.device_type_int}", f"virtual_device_id={self.virtual_device_id}"]
        if self.target is not None:
            parts.append(f"target={self.target}")
        if self.memory_scope:
            parts.append(f"memory_scope='{self.memory_scope}'")
        return f"VirtualDevice({', '.join(parts)})"

    __repr__ = __str__


def _parts(device: VirtualDevice) -> tuple[object, ...]:
    return device.device_type_int, device.virtual_device_id, device.target, device.memory_scope


UNCONSTRAINED = VirtualDevice()
