"""Devices by name: ``host``, ``emulated:seconds=0.001``, ``opencl``, and what vendors register.

A vendor's class is registered (:func:`register_device_api`) by whoever imports its package, or by the entry point of
its kind in the group ``byoc.runtime``, when the kind is first asked for.
"""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import TypeGuard

from byoc.runtime.core.entry_points import RUNTIME
from byoc.runtime.core.errors import DeviceError
from byoc.runtime.devices.device_api import DeviceAPI

DEVICE_APIS: dict[str, str | type[DeviceAPI]] = {
    "emulated": "byoc.runtime.devices.emulated:EmulatedDevice",
    "host": "byoc.runtime.devices.host:HostDevice",
    "opencl": "byoc.runtime.opencl.device_api:OpenCLDevice",
}


def register_device_api(kind: str, device: type[DeviceAPI]) -> None:
    """Make *device* the class of devices that are called *kind*.

    A class of the same name in the same module takes the place of the first, as when a notebook's cell runs again.

    Raises:
        DeviceError: *device* is no subclass of ``DeviceAPI``, lacks methods, or *kind* is another class's.
    """
    if not (isinstance(device, type) and issubclass(device, DeviceAPI)):
        raise DeviceError(f"device kind {kind!r}: expected a class made of byoc.runtime.DeviceAPI, got {device!r}")
    missing = sorted(device.__abstractmethods__) if inspect.isabstract(device) else []
    if missing:
        raise DeviceError(f"device kind {kind!r}: {device.__name__} has no {', '.join(missing)}: write what is missing")
    taken = DEVICE_APIS.setdefault(kind, device)
    if _written(taken) != _written(device):
        raise DeviceError(f"device kind {kind!r} is {_written(taken)}; call {_written(device)} otherwise")
    DEVICE_APIS[kind] = device


def device_api(text: str) -> DeviceAPI:
    """The device that *text* means, a kind, or a kind and its settings behind a colon.

    >>> device_api("host").properties.name
    'host'

    Raises:
        DeviceError: no such kind is known, or it has no such device here.
    """
    kind, _, settings = text.partition(":")
    return _class_of(kind).open(settings)


def device_kinds() -> list[str]:
    """The kinds that are registered."""
    return sorted(DEVICE_APIS)


def _class_of(kind: str) -> type[DeviceAPI]:
    problem = None
    if kind not in DEVICE_APIS:
        loaded = RUNTIME.load(kind)
        problem = loaded.problem or RUNTIME.gave(kind)
        for value in loaded.values:
            for found in vars(value).values() if isinstance(value, ModuleType) else (value,):
                if _is_brought(found) and kind not in DEVICE_APIS:
                    register_device_api(kind, found)
    if kind not in DEVICE_APIS:
        why = f"; {problem}" if problem else ""
        raise DeviceError(f"no device is called {kind!r}; known: {', '.join(device_kinds())}{why}")
    location = DEVICE_APIS[kind]
    if not isinstance(location, str):
        return location
    module, name = location.split(":")
    found_class: type[DeviceAPI] = getattr(importlib.import_module(module), name)
    return found_class


def _is_brought(value: object) -> TypeGuard[type[DeviceAPI]]:
    """Whether *value* is a vendor's class, not one of ours that its module imports."""
    return isinstance(value, type) and issubclass(value, DeviceAPI) and not value.__module__.startswith("byoc.runtime.")


def _written(location: str | type[DeviceAPI]) -> str:
    return location if isinstance(location, str) else f"{location.__module__}:{location.__qualname__}"
