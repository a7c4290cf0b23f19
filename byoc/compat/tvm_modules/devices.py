"""Devices by TVM's names. Source: ``tvm.runtime.ndarray``."""

from __future__ import annotations

from byoc.runtime.core.device import DEVICE_TYPES, Device, cpu

_KINDS = {"llvm": "cpu", "c": "cpu", "gpu": "cuda", "cl": "opencl", "host": "cpu", "stackvm": "cpu"}


def device(dev_type: str | int | object, dev_id: int = 0) -> Device:
    """The device of a kind, of DLPack's number for it, or of a target's. Raises DeviceError for an unknown kind."""
    if isinstance(dev_type, int):
        kinds = {number: kind for kind, number in DEVICE_TYPES.items()}
        return Device(kinds.get(dev_type, str(dev_type)), dev_id)
    kind = str(dev_type).split()[0]
    return Device(_KINDS.get(kind, kind), dev_id)


def cuda(dev_id: int = 0) -> Device:
    """A CUDA device, as a name: byoc itself has no code for it."""
    return Device("cuda", dev_id)


gpu = cuda


def opencl(dev_id: int = 0) -> Device:
    """An OpenCL device."""
    return Device("opencl", dev_id)


def vulkan(dev_id: int = 0) -> Device:
    """A Vulkan device, as a name."""
    return Device("vulkan", dev_id)


def metal(dev_id: int = 0) -> Device:
    """A Metal device, as a name."""
    return Device("metal", dev_id)


def ext_dev(dev_id: int = 0) -> Device:
    """An extension device, as a name."""
    return Device("ext_dev", dev_id)


__all__ = ["cpu", "cuda", "device", "ext_dev", "gpu", "metal", "opencl", "vulkan"]
