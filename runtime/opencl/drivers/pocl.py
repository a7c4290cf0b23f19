"""What PoCL needs: kernels compiled once, and a repair for PoCL 3.0 on processors that are newer than its compiler.

PoCL compiles a kernel when it is launched, again for each local size, for grids without an offset, and for small grids.
Its program binary holds none of these: making one compiles each kernel once more, for any local size. Kernels that are
compiled for any size alone (``POCL_WORK_GROUP_SPECIALIZATION=0``) are launched with all sizes, cost half of the time to
compile where they hold barriers, are no slower (measured on products in tiles and on convolutions), and are what the
binary holds: it costs nothing more, and who builds from it compiles nothing, whatever the sizes. So that is set where
the user has set nothing. Source: PoCL's documentation of its environment variables, and ``benchmarks/opencl/start.py``.

The PoCL wheel carries LLVM 14. On a processor that this LLVM does not know (AMD Zen 5, for one) PoCL calls the
processor ``generic``, and its own clang then refuses every program: ``unknown target CPU 'generic'``. No option and no
environment variable of PoCL changes that name. It stands in the device's record, which an OpenCL device handle points
to, as the pointer after the target triple (``llvm_target_triplet``, ``llvm_cpu`` of ``struct _cl_device_id``). Here
that one pointer is set to the processor level of the x86-64 psABI that ``/proc/cpuinfo`` shows.

Memory is read through ``/proc/self/mem``, which answers with an error where nothing is mapped, and nothing is written
unless the triple and ``generic`` were both found just there. A repaired device says so wherever it is described
(``byoc doctor``); ``BYOC_POCL_REPAIR=0`` leaves it as it is, and its builds then fail with clang's words.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyopencl

PLATFORM = "Portable Computing Language"
SWITCH = "BYOC_POCL_REPAIR"
SPECIALISATION = "POCL_WORK_GROUP_SPECIALIZATION"
_COMPILER_SETTINGS = (  # PoCL's variables that decide the code of a kernel
    SPECIALISATION,
    "POCL_WORK_GROUP_METHOD",
    "POCL_EXTRA_BUILD_FLAGS",
    "POCL_WILOOPS_MAX_UNROLL_COUNT",
    "POCL_FULL_REPLICATION_THRESHOLD",
    "POCL_FORCE_PARALLEL_OUTER_LOOP",
)
_TRIPLE, _UNKNOWN = b"x86_64-", b"generic\0"
_POINTER = ctypes.sizeof(ctypes.c_void_p)
_RECORD_BYTES = 1024
_REPAIRED: dict[int, str | None] = {}  # device record -> the name that it was given
# the psABI's levels from the highest: name, the flags of /proc/cpuinfo beyond the level below
LEVELS = (
    ("x86-64-v4", ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")),
    ("x86-64-v3", ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe")),
    ("x86-64-v2", ("cx16", "popcnt", "sse4_1", "sse4_2", "ssse3")),
    ("x86-64", ()),
)


def compile_for_any_size() -> None:
    """Have PoCL compile kernels for any local size, unless the user has said what it does."""
    os.environ.setdefault(SPECIALISATION, "0")


def compiles_for_each_size() -> bool:
    """Whether PoCL compiles kernels for each local size, so that its binaries are not what it runs."""
    return os.environ.get(SPECIALISATION, "1").startswith("1")


def compiler_settings() -> list[str]:
    """What the environment says to PoCL's compiler, as ``NAME=value``."""
    return [f"{name}={os.environ[name]}" for name in _COMPILER_SETTINGS if name in os.environ]


def processor_level(flags: Iterable[str]) -> str:
    """The highest level of the x86-64 psABI that a processor with *flags* has.

    >>> processor_level(["sse2"])
    'x86-64'
    """
    have = set(flags)
    for k, (level, _) in enumerate(LEVELS):
        if all(flag in have for _, needed in LEVELS[k:] for flag in needed):
            return level
    return LEVELS[-1][0]


def repair(device: pyopencl.Device) -> str:
    """Repair a PoCL device that does not know its processor; what was done, for reports, or an empty text."""
    if device.platform.name.strip() != PLATFORM or os.environ.get(SWITCH) == "0":
        return ""
    if device.int_ptr not in _REPAIRED and Path("/proc/self/mem").exists():
        _REPAIRED[device.int_ptr] = _name_processor(device.int_ptr)
    level = _REPAIRED.get(device.int_ptr)
    return f"PoCL's compiler does not know this processor and builds for {level}" if level else ""


def _name_processor(record: int) -> str | None:
    """Give the device at *record* a name that its compiler knows, if it is ``generic``; the name, or None."""
    place = _place_of_name(record)
    if place is None:
        return None
    level = processor_level(_cpu_flags())
    ctypes.c_void_p.from_address(place).value = ctypes.addressof(_c_string(level))
    return level


@functools.cache
def _c_string(text: str) -> ctypes.Array[ctypes.c_char]:
    """A string that PoCL may point to: it lives as long as the process."""
    return ctypes.create_string_buffer(text.encode())


def _cpu_flags() -> list[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return line.partition(":")[2].split()
    return []


def _place_of_name(record: int) -> int | None:
    """Where the device's record points to ``generic`` just after it points to a triple, or None."""
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        words = _read(memory, record, _RECORD_BYTES)
        pointers = [int.from_bytes(words[k : k + _POINTER], "little") for k in range(0, len(words), _POINTER)]
        for k in range(1, len(pointers)):
            if (
                _read(memory, pointers[k], len(_UNKNOWN)) == _UNKNOWN
                and _read(memory, pointers[k - 1], len(_TRIPLE)) == _TRIPLE
            ):
                return record + k * _POINTER
    finally:
        os.close(memory)
    return None


def _read(memory: int, address: int, count: int) -> bytes:
    """*count* bytes at *address*; fewer or none where they are not mapped."""
    if not 0 < address < 1 << 62:
        return b""
    try:
        return os.pread(memory, count, address)
    except OSError:
        return b""
