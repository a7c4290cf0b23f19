"""The OpenCL devices of this machine, and which of them is used.

The list is ordered: GPUs first, then accelerators, then CPUs (PoCL), each in the order of the platforms. The first is
the default; the environment variable ``BYOC_OPENCL_DEVICE``, or the backend's option ``device``, names another: by its
index in this list (``1``), its type (``gpu``, ``accelerator``, ``cpu``), a part of its name (``h100``), its
platform's (``portable``, or as it is usually called: ``pocl``) or its vendor's (``nvidia``), or platform and device
(``nvidia:0``, ``pocl:cpu``), of which the device is again an index among the platform's, a type or a part of a name.
A process may use any number of them. pyopencl is imported only when a device is asked for, so that this module can be
imported without it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from byoc.runtime.core.entry_points import install_command
from byoc.runtime.core.errors import DeviceError
from byoc.runtime.opencl.drivers import newer_ptx
from byoc.runtime.opencl.drivers.linker import provide_linker
from byoc.runtime.opencl.drivers.pocl import PLATFORM as POCL_PLATFORM
from byoc.runtime.opencl.drivers.pocl import compile_for_any_size, repair
from byoc.runtime.opencl.process import driver_use, in_driver

if TYPE_CHECKING:
    import pyopencl

DEVICE_VARIABLE = "BYOC_OPENCL_DEVICE"
DEVICE_OPTION = "opencl.device"
FIRST_WITH_MATRICES = (8, 0)  # NVIDIA's compute capability, from which on units take tf32 and bfloat16
# how people call platforms and vendors by words that the drivers' own names do not have
SHORT_NAMES = {
    POCL_PLATFORM.lower(): "pocl",
    "amd accelerated parallel processing": "rocm",
    "advanced micro devices": "amd",
    "qualcomm": "adreno",
    "arm platform": "mali",
}
_KIND_ORDER = ("gpu", "accelerator", "cpu", "other")


@dataclass(frozen=True)
class DeviceInfo:
    """What is known of a device: its index in :func:`list_devices`, names, versions, and hard limits (bytes, items).

    ``has_float16`` and ``has_float64``: it computes with these (``cl_khr_fp16``, ``cl_khr_fp64``). ``repair`` says what
    was mended before it could be used, and is empty for most.
    """

    index: int
    name: str
    kind: str
    platform: str
    platform_version: str
    driver_version: str
    max_work_group_size: int
    local_memory: int
    global_memory: int
    has_float64: bool
    repair: str = ""
    has_float16: bool = False
    units: int = 1  # that run work-groups at once
    float_lanes: int = 1  # of the device's own vectors of float32
    image_width: int = 0  # texels that a two-dimensional image may have; 0 where the device has no images
    image_height: int = 0
    matrix_units: str = ""  # how kernels reach units that multiply matrices: "ptx", or not at all
    warpgroups: bool = False  # four warps of NVIDIA's multiply matrices together (``drivers/newer_ptx.py``)
    vendor: str = ""
    registers: int = 0  # of a work-group; 0 where the driver does not say
    group_multiple: int = 1  # the work-items that run in step, of which a group is best a multiple

    @property
    def platform_names(self) -> str:
        """What its platform is called, as the driver says it and usually, in small letters."""
        return _with_short_names(self.platform)

    @property
    def vendor_names(self) -> str:
        """What its vendor is called, likewise."""
        return _with_short_names(self.vendor)

    def __str__(self) -> str:
        about = f"[{self.index}] {self.name} ({self.kind}; {self.platform}, driver {self.driver_version})"
        return f"{about}; {self.repair}" if self.repair else about


def _with_short_names(name: str) -> str:
    name = name.lower()
    return " ".join([name, *(short for long, short in SHORT_NAMES.items() if long in name)])


@dataclass(frozen=True)
class OpenDevice:
    """A device with a context of its own, made once a process."""

    info: DeviceInfo
    device: pyopencl.Device
    context: pyopencl.Context


def import_pyopencl() -> ModuleType:
    """The package pyopencl. Raises DeviceError when it is not installed or cannot load an OpenCL library."""
    try:
        import pyopencl
    except ImportError as error:
        raise DeviceError(
            f"OpenCL needs the package pyopencl, which is missing here ({error}): {install_command('opencl')}"
        ) from error
    return pyopencl


def list_devices() -> list[DeviceInfo]:
    """Every OpenCL device here, the preferred one first. Raises DeviceError when pyopencl is missing."""
    return [info for info, _ in _found_devices()]


def open_device(selector: str = "") -> OpenDevice:
    """The device that *selector* means, else that of the variable, with its context. Raises DeviceError without one."""
    driver_use().require_own_process()
    said_by = DEVICE_OPTION if selector else DEVICE_VARIABLE
    result: OpenDevice = _open(selector or os.environ.get(DEVICE_VARIABLE, ""), said_by)
    return result


@functools.cache
@in_driver
def _open(selector: str, said_by: str) -> OpenDevice:
    cl = import_pyopencl()
    info, device = choose_device(_found_devices(), selector, said_by)
    return _context_of(cl, info, device)


@functools.cache
def _context_of(cl: ModuleType, info: DeviceInfo, device: pyopencl.Device) -> OpenDevice:
    if info.platform == POCL_PLATFORM:
        provide_linker()
        compile_for_any_size()
    try:
        return OpenDevice(info, device, cl.Context([device]))
    except cl.Error as error:
        raise DeviceError(f"the OpenCL device {info.name!r} cannot be opened: {error}") from error


Found = Sequence[tuple[DeviceInfo, "pyopencl.Device"]]


def choose_device(found: Found, selector: str, said_by: str = DEVICE_VARIABLE) -> tuple[DeviceInfo, pyopencl.Device]:
    """The device of *found* that *selector* means, as the module's text says; the first for an empty one.

    Raises DeviceError when there is none, which names *said_by*.
    """
    if not found:
        raise DeviceError(
            "no OpenCL device was found here: install the driver of a GPU, "
            f"or PoCL for the CPU with {install_command('opencl')}"
        )
    chosen = _matching(found, selector.strip())
    if chosen is None:
        known = "; ".join(str(info) for info, _ in found)
        raise DeviceError(
            f"{said_by}={selector!r} names no OpenCL device; those here: {known}; say an index, a type, a part of the "
            f"name of a device, a platform or a vendor ({', '.join(_words(found))}), or PLATFORM:DEVICE"
        )
    return chosen


def why_not_here(selector: str) -> str | None:
    """Why *selector* means none of the OpenCL devices that are here; None where it means one, or where there is none.

    Without any device nothing is known of the machine that the code is for.
    """
    try:
        open_device(selector)
    except DeviceError as error:
        return str(error) if has_devices() else None
    return None


def has_devices() -> bool:
    """Whether any OpenCL device is here."""
    try:
        return bool(list_devices())
    except DeviceError:
        return False


def _matching(found: Found, selector: str) -> tuple[DeviceInfo, pyopencl.Device] | None:
    """The first of *found* that *selector* means, or None."""
    if not selector and found:
        return found[0]
    if selector.isdecimal():
        return found[int(selector)] if int(selector) < len(found) else None
    word = selector.lower()
    for matches in (
        lambda info: info.kind == word,
        lambda info: word in info.name.lower(),
        lambda info: word in info.platform_names,
        lambda info: word in info.vendor_names,
    ):
        for item in found:
            if matches(item[0]):
                return item
    platform, colon, rest = word.partition(":")
    own = [item for item in found if platform.strip() in item[0].platform_names]
    return _matching(own, rest.strip()) if colon and platform.strip() else None


def _words(found: Found) -> list[str]:
    """A word for each platform and vendor of *found*, as people call them."""
    names = [name for info, _ in found for name in (info.platform_names, info.vendor_names) if name]
    shorts = list(SHORT_NAMES.values())
    return list(dict.fromkeys(next((s for s in shorts if s in name.split()), name) for name in names))


@in_driver
def _found_devices() -> Found:
    for cached in (_open, _context_of):
        driver_use().keep(cached)
    cl = import_pyopencl()
    devices = [(platform, device) for platform in _platforms(cl) for device in _devices_of(cl, platform)]
    devices.sort(key=lambda item: _KIND_ORDER.index(_kind(cl, item[1])))
    return [(_describe(cl, i, platform, device), device) for i, (platform, device) in enumerate(devices)]


def _platforms(cl: ModuleType) -> list[pyopencl.Platform]:
    try:
        result: list[pyopencl.Platform] = cl.get_platforms()
        return result
    except cl.Error:  # the loader says PLATFORM_NOT_FOUND_KHR where there is none
        return []


def _devices_of(cl: ModuleType, platform: pyopencl.Platform) -> list[pyopencl.Device]:
    try:
        return platform.get_devices()
    except cl.Error:  # a platform without a device, such as a driver without its hardware
        return []


def _kind(cl: ModuleType, device: pyopencl.Device) -> str:
    kinds = {"gpu": cl.device_type.GPU, "accelerator": cl.device_type.ACCELERATOR, "cpu": cl.device_type.CPU}
    return next((kind for kind, bit in kinds.items() if device.type & bit), "other")


def _describe(cl: ModuleType, index: int, platform: pyopencl.Platform, device: pyopencl.Device) -> DeviceInfo:
    return DeviceInfo(
        index=index,
        name=device.name.strip(),
        kind=_kind(cl, device),
        platform=platform.name.strip(),
        platform_version=platform.version.strip(),
        driver_version=device.driver_version.strip(),
        max_work_group_size=int(device.max_work_group_size),
        local_memory=int(device.local_mem_size),
        global_memory=int(device.global_mem_size),
        has_float64="cl_khr_fp64" in device.extensions.split(),
        repair=repair(device),
        has_float16="cl_khr_fp16" in device.extensions.split(),
        units=int(device.max_compute_units),
        float_lanes=max(int(device.native_vector_width_float), 1),
        image_width=int(device.image2d_max_width) if device.image_support else 0,
        image_height=int(device.image2d_max_height) if device.image_support else 0,
        matrix_units="ptx" if _compute_capability(device) >= FIRST_WITH_MATRICES else "",
        warpgroups=_compute_capability(device) == newer_ptx.CAPABILITY,
        vendor=device.vendor.strip(),
        registers=_number_of(cl, device, "registers_per_block_nv"),
        group_multiple=max(
            _number_of(cl, device, "preferred_work_group_size_multiple"), _number_of(cl, device, "warp_size_nv"), 1
        ),
    )


def _number_of(cl: ModuleType, device: pyopencl.Device, name: str) -> int:
    """The number that the driver says under *name*, of an extension or a later version; 0 where it says none."""
    try:
        return int(getattr(device, name, 0) or 0)
    except (cl.Error, TypeError, ValueError):
        return 0


def _compute_capability(device: pyopencl.Device) -> tuple[int, int]:
    """That of an NVIDIA device; zeros for others."""
    if "cl_nv_device_attribute_query" not in device.extensions.split():
        return (0, 0)
    return int(device.compute_capability_major_nv), int(device.compute_capability_minor_nv)
