"""Programs for a device: built once per (source, options, device), with their binaries kept on disk.

An entry of the cache is named by the SHA-256 of source, options, device, driver and platform versions, and holds the
SHA-256 of the binary before the binary itself, so that a damaged entry is seen and built again. Entries are written
beside their name and renamed, so that a reader never sees half of one. The folder is ``$BYOC_CACHE_DIR/opencl``, else
the user's cache folder. PoCL has such a cache of its own, and makes a binary by compiling every kernel once more, which
takes longer than the build: its builds are left to it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from byoc.runtime.core.build_limit import LIMIT_VARIABLE, TimeLimitError, bounded, compiler_seconds
from byoc.runtime.core.errors import DeviceError
from byoc.runtime.files.regular_file import read_file
from byoc.runtime.files.whole_file import write_whole
from byoc.runtime.opencl.devices import OpenDevice, import_pyopencl, open_device
from byoc.runtime.opencl.pocl import PLATFORM as POCL_PLATFORM
from byoc.runtime.opencl.process import driver_use, in_driver

if TYPE_CHECKING:
    import pyopencl

CACHE_VARIABLE = "BYOC_CACHE_DIR"
STANDARD = "-cl-std=CL1.2"
EXACT_DIVISION = "-cl-fp32-correctly-rounded-divide-sqrt"
_HASH_BYTES = 32
_PROBE = "__kernel void probe(__global float *out) { out[get_global_id(0)] = 1.0f; }\n"


def cache_folder() -> Path:
    """Where binaries are kept."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen) / "opencl"
    import platformdirs

    return Path(platformdirs.user_cache_dir("byoc")) / "opencl"


def why_unavailable() -> str | None:
    """One sentence when no program can be built for an OpenCL device here, else None."""
    try:
        build_program(_PROBE, open_device())
    except DeviceError as error:
        return str(error)
    return None


def build_options(opened: OpenDevice) -> str:
    """OpenCL C 1.2, with division and square roots of float32 rounded as numpy's where the device can."""
    cl = import_pyopencl()
    exact = opened.device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    return f"{STANDARD} {EXACT_DIVISION}" if exact else STANDARD


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
    result: pyopencl.Program = _built(source, build_options(opened), opened, str(cache_folder()))
    return result


@functools.lru_cache(maxsize=32)
@in_driver
def _built(source: str, options: str, opened: OpenDevice, folder: str) -> pyopencl.Program:
    cl = import_pyopencl()
    if keeps_builds(opened):
        return _from_source(cl, source, options, opened)
    path = Path(folder) / f"{cache_key(source, options, opened)}.bin"
    binary = read_entry(path)
    program = _from_binary(cl, binary, options, opened) if binary is not None else None
    if program is None:
        program = _from_source(cl, source, options, opened)
        binaries: Any = program.get_info(cl.program_info.BINARIES)
        if binaries and binaries[0]:
            write_entry(path, bytes(binaries[0]))
    return program


def keeps_builds(opened: OpenDevice) -> bool:
    """True for a device whose driver keeps what it built on disk by itself, and is slow to give a binary."""
    return opened.info.platform == POCL_PLATFORM


def cache_key(source: str, options: str, opened: OpenDevice) -> str:
    """The SHA-256 of all that a binary depends on."""
    info = opened.info
    parts = (source, options, info.name, info.platform, info.platform_version, info.driver_version)
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def read_entry(path: Path) -> bytes | None:
    """The binary kept at *path*, or None where there is none that is whole."""
    try:
        content = read_file(path)
    except OSError:
        return None
    digest, binary = content[:_HASH_BYTES], content[_HASH_BYTES:]
    return binary if binary and hashlib.sha256(binary).digest() == digest else None


def write_entry(path: Path, binary: bytes) -> None:
    """Keep *binary* at *path*, whole or not at all; a folder that cannot be written is no error, only slower."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda file: file.write(hashlib.sha256(binary).digest() + binary))


def _from_binary(cl: ModuleType, binary: bytes, options: str, opened: OpenDevice) -> pyopencl.Program | None:
    """The program of a kept binary, or None where the driver refuses it: then it is built from source again."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result: pyopencl.Program | None = cl.Program(opened.context, [opened.device], [binary]).build(options)
            return result
    except cl.Error:
        return None


def _from_source(cl: ModuleType, source: str, options: str, opened: OpenDevice) -> pyopencl.Program:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyopencl warns that its own cache is not used, and of compiler chatter
            program = cl.Program(opened.context, source)
            program.get_info(cl.program_info.REFERENCE_COUNT)  # makes the program outside pyopencl's own cache
            result: pyopencl.Program = bounded(lambda: program.build(options), compiler_seconds())
            return result
    except TimeLimitError as error:
        raise DeviceError(
            f"the OpenCL compiler of {opened.info.name!r} {error}: give it more by ${LIMIT_VARIABLE}, or use another "
            "device"
        ) from error
    except cl.Error as error:
        raise DeviceError(
            f"the OpenCL compiler of {opened.info.name!r} refused the generated kernels: {first_error(str(error))}"
        ) from error


def first_error(log: str) -> str:
    """The first line of a build log that speaks of an error, else its first line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if re.search(r"\berror\b\s*:", line)), lines[0] if lines else "no log")
