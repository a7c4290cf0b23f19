"""Programs for a device: built once per (source, options, device), with their binaries kept on disk.

Binaries are taken from the device's cache (``kernel_cache.py``) and put there after a build from source, on every
driver. Making PoCL's binary compiles every kernel, so that launches compile none; where the user has PoCL compile
kernels for each local size (``drivers/pocl.py``), binaries are not what it runs, and its builds are left to its own
cache.
"""

from __future__ import annotations

import functools
import re
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from byoc.runtime.core.errors import DeviceError
from byoc.runtime.core.fork import new_lock
from byoc.runtime.core.time_limit import LIMIT_VARIABLE, TimeLimitError, bounded, compiler_seconds
from byoc.runtime.opencl.devices import DeviceInfo, OpenDevice, import_pyopencl, open_device
from byoc.runtime.opencl.drivers import newer_ptx
from byoc.runtime.opencl.drivers.pocl import PLATFORM as POCL_PLATFORM
from byoc.runtime.opencl.drivers.pocl import compiles_for_each_size
from byoc.runtime.opencl.kernel_cache import DeviceCache, cache_folder, device_cache, identity_of
from byoc.runtime.opencl.process import driver_use, in_driver

if TYPE_CHECKING:
    import pyopencl

Built = TypeVar("Built")
STANDARD = "-cl-std=CL1.2"
NO_WARNINGS = "-w"  # PoCL's compiler writes how many there were to the standard error of the process
EXACT_DIVISION = "-cl-fp32-correctly-rounded-divide-sqrt"
_PROBE = "__kernel void probe(__global float *out) { out[get_global_id(0)] = 1.0f; }\n"


@dataclass(frozen=True)
class BuildCounts:
    """How programs came about in this process.

    Attributes:
        from_source: programs that the driver compiled.
        from_cache: programs that were made from kept binaries.
        seconds: that compiling took.
    """

    from_source: int = 0
    from_cache: int = 0
    seconds: float = 0.0


class _Counter:
    def __init__(self) -> None:
        self.counts = BuildCounts()
        self.to_keep: list[tuple[DeviceCache, bytes]] = []  # programs that were compiled here, by their keys
        self.lock = new_lock()

    def add(self, from_source: int = 0, from_cache: int = 0, seconds: float = 0.0) -> None:
        with self.lock:
            old = self.counts
            self.counts = BuildCounts(old.from_source + from_source, old.from_cache + from_cache, old.seconds + seconds)


_COUNTER = _Counter()


def build_counts() -> BuildCounts:
    """How the programs of this process came about until now."""
    return _COUNTER.counts


def programs_not_kept(info: DeviceInfo) -> int:
    """How many programs that this process compiled for a device are not in its cache, as the file is now."""
    own = device_cache(info)
    with _COUNTER.lock:
        keys = {key for cache, key in _COUNTER.to_keep if cache == own}
    return sum(not own.has(key) for key in keys)


def why_unavailable(selector: str = "") -> str | None:
    """One sentence when no program can be built for the OpenCL device that *selector* means here, else None."""
    try:
        build_program(_PROBE, open_device(selector))
    except DeviceError as error:
        return str(error)
    return None


def build_options(opened: OpenDevice) -> str:
    """OpenCL C 1.2 without warnings, division and square roots of float32 rounded as numpy's where the device can."""
    cl = import_pyopencl()
    exact = opened.device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    options = f"{STANDARD} {NO_WARNINGS}"
    return f"{options} {EXACT_DIVISION}" if exact else options


def build_program(source: str, opened: OpenDevice) -> pyopencl.Program:
    """The program of *source* for a device. Raises DeviceError with the first error of the device's compiler."""
    if "cl_khr_fp64" in source and not opened.info.has_float64:
        raise DeviceError(f"the OpenCL device {opened.info.name!r} has no float64, which this function needs")
    if "cl_khr_fp16" in source and not opened.info.has_float16:
        raise DeviceError(
            f"the OpenCL device {opened.info.name!r} has no cl_khr_fp16, which these kernels need: compile the model "
            "again with the option half=memory of the backend opencl, or use another device"
        )
    driver_use().keep(_built)
    result: pyopencl.Program = _built(source, _options_of(source, opened), opened, str(cache_folder()))
    return result


@in_driver
def build_trial(source: str, opened: OpenDevice) -> pyopencl.Program:
    """As :func:`build_program`, for a program that is run a few times: nothing is taken from a cache, nor kept."""
    return _from_source(import_pyopencl(), source, _options_of(source, opened), opened, with_binary=False)[0]


def _options_of(source: str, opened: OpenDevice) -> str:
    """Those of :func:`build_options`, with the instructions that this *source* marks where the device has them."""
    options = build_options(opened)
    return f"{options} {newer_ptx.DEFINED}" if opened.info.warpgroups and newer_ptx.MARK in source else options


@functools.lru_cache(maxsize=32)
@in_driver
def _built(source: str, options: str, opened: OpenDevice, folder: str) -> pyopencl.Program:
    cl = import_pyopencl()
    if keeps_builds(opened):
        return _from_source(cl, source, options, opened, with_binary=False)[0]
    cache = DeviceCache(identity_of(opened.info), Path(folder))
    kept = cache.program(source, options)
    program = _from_binary(cl, *kept, options, opened) if kept is not None else None
    if program is not None:
        _COUNTER.add(from_cache=1)
        return program
    program, binary, seconds = _from_source(cl, source, options, opened, with_binary=True)
    if binary:
        key = cache.keep_program(source, options, _kernels(cl, program), binary, seconds)
        with _COUNTER.lock:
            _COUNTER.to_keep.append((cache, key))
    return program


def keeps_builds(opened: OpenDevice) -> bool:
    """True for a device whose driver keeps what it built on disk by itself, and gives binaries that it does not run."""
    return opened.info.platform == POCL_PLATFORM and compiles_for_each_size()


def _kernels(cl: ModuleType, program: pyopencl.Program) -> list[str]:
    names: Any = program.get_info(cl.program_info.KERNEL_NAMES)
    return sorted(str(names).split(";"))


def _from_binary(
    cl: ModuleType, binary: bytes, kernels: Sequence[str], options: str, opened: OpenDevice
) -> pyopencl.Program | None:
    """The program of a kept binary; None where the driver refuses it or finds other kernels in it.

    Raises DeviceError for a driver that does not end.
    """

    def build() -> pyopencl.Program:
        result: pyopencl.Program = cl.Program(opened.context, [opened.device], [binary]).build(options)
        return result

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = _in_time(build, opened)
            return result if _kernels(cl, result) == list(kernels) else None
    except cl.Error:
        return None


def _in_time(build: Callable[[], Built], opened: OpenDevice) -> Built:
    """What *build* gives. Raises DeviceError where the driver does not end it within the limit of compilers."""
    try:
        return bounded(build, compiler_seconds())
    except TimeLimitError as error:
        raise DeviceError(
            f"the OpenCL compiler of {opened.info.name!r} {error}: give it more by ${LIMIT_VARIABLE}, or use another "
            "device"
        ) from error


def _from_source(
    cl: ModuleType, source: str, options: str, opened: OpenDevice, with_binary: bool
) -> tuple[pyopencl.Program, bytes, float]:
    """The program, its binary (empty where there is none), and the seconds that both took."""
    start = time.perf_counter()
    refused: list[str] = []

    def compiled(options: str) -> pyopencl.Program:
        program = cl.Program(opened.context, source)
        program.get_info(cl.program_info.REFERENCE_COUNT)  # makes the program outside pyopencl's own cache
        result: pyopencl.Program = program.build(options)
        return result

    def build() -> tuple[pyopencl.Program, bytes]:
        built = compiled(options)
        if newer_ptx.DEFINED in options:
            newer = _with_instructions(cl, built, options, opened)
            if newer is not None:
                return newer
            refused.append(opened.info.driver_version)
            built = compiled(options.replace(newer_ptx.DEFINED, "").strip())
        return built, _binary(cl, built) if with_binary else b""

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyopencl warns that its own cache is not used, and of compiler chatter
            built, binary = _in_time(build, opened)
    except cl.Error as error:
        raise DeviceError(
            f"the OpenCL compiler of {opened.info.name!r} refused the generated kernels: {first_error(str(error))}"
        ) from error
    seconds = time.perf_counter() - start
    _COUNTER.add(from_source=1, seconds=seconds)
    if refused:
        warnings.warn(
            f"driver {refused[0]} of {opened.info.name!r} takes no instructions of its own target in a binary: "
            "products are by those of one warp, which are slower; another version of the driver may take them",
            stacklevel=2,
        )
    return built, binary, seconds


def _with_instructions(
    cl: ModuleType, built: pyopencl.Program, options: str, opened: OpenDevice
) -> tuple[pyopencl.Program, bytes] | None:
    """*built* with the instructions that its source marks, and its binary; None where the driver does not take it."""
    binary = newer_ptx.with_instructions(_binary(cl, built))
    if binary is None:
        return None
    try:
        newer: pyopencl.Program = cl.Program(opened.context, [opened.device], [binary]).build(options)
        return (newer, binary) if _kernels(cl, newer) == _kernels(cl, built) else None
    except cl.Error:
        return None


def _binary(cl: ModuleType, program: pyopencl.Program) -> bytes:
    """The binary of a program for its one device; empty where the driver gives none."""
    try:
        binaries: Any = program.get_info(cl.program_info.BINARIES)
    except cl.Error:
        return b""
    return bytes(binaries[0]) if binaries and binaries[0] else b""


def first_error(log: str) -> str:
    """The first line of a build log that names an error, else its first line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if re.search(r"\berror\b\s*:", line)), lines[0] if lines else "no log")
