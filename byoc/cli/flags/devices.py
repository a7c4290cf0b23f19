"""The devices that a command line names, and libraries that run on one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from byoc.errors import UserError
from byoc.runtime.library import Library

if TYPE_CHECKING:
    from byoc.runtime.opencl.devices import DeviceInfo

BACKEND = "opencl"

HELP = "an OpenCL device: its index, gpu, cpu, accelerator, a part of its name, or PLATFORM:name"


def use_device(library: Library, device: str) -> DeviceInfo:
    """Have the OpenCL regions of *library* run on *device*; which one that is.

    Raises UserError where it has no such region, DeviceError where there is no such device.
    """
    from byoc.runtime.opencl.devices import open_device  # a part that an installation may leave out
    from byoc.runtime.opencl.module import OpenCLModule

    info = open_device(device).info
    modules = [module for module in library.module.walk() if isinstance(module, OpenCLModule)]
    if not modules:
        raise UserError(f"no region of this model runs on OpenCL, so that there is nothing for the device {info.name}")
    for module in modules:
        module.run_with(replace(module.options, device=device))
    return info


def with_device(given: Mapping[str, Any], device: str) -> dict[str, Any]:
    """The options *given* for ``byoc.compile``, with an OpenCL *device* for which code is made; empty for none."""
    if not device:
        return {**given}
    options = {name: dict(values) for name, values in (given.get("backend_options") or {}).items()}
    options.setdefault(BACKEND, {})["device"] = device
    return {**given, "backend_options": options}


def named_devices(texts: Sequence[str]) -> list[str]:
    """The devices of ``0,cpu`` or of several such texts. Raises UserError for an empty name.

    >>> named_devices(["0,cpu", "nvidia:1"])
    ['0', 'cpu', 'nvidia:1']
    """
    names = [name.strip() for text in texts for name in text.split(",")]
    if not all(names):
        raise UserError(f"a name of a device is empty in {','.join(texts)!r}: write 0,cpu")
    return names
