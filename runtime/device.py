"""Devices, under the name that they are imported by; of the same name is the function ``byoc.runtime.device``.

A module of this name stands here, so that importing it later does not take the function's place in the package.
"""

from byoc.runtime.core.device import DEVICE_TYPES, Device, cpu, device, register_device_kind

__all__ = ["DEVICE_TYPES", "Device", "cpu", "device", "register_device_kind"]
