"""``byoc doctor``: what this machine has of what byoc needs."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import sys
from collections.abc import Mapping

from byoc.base import __version__
from byoc.cli.exit_codes import EXIT_MACHINE
from byoc.cli.targets_command import describe
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.object_cache import cache_dir
from byoc.contract.registration import backend_names
from byoc.errors import UserError
from byoc.runtime.core.device import HardwareLevel
from byoc.runtime.core.entry_points import install_command
from byoc.runtime.devices.registry import device_api, device_kinds

HELP = "check the compiler, the devices and the packages of this machine"
PACKAGES = ("numpy", "onnx", "cffi", "safetensors", "filelock", "platformdirs", "rich", "pyopencl")
OPTIONAL_PACKAGES = frozenset(["pyopencl"])
OPENCL = "opencl"  # whose devices have rows of their own


def add_arguments(command: argparse.ArgumentParser) -> None:
    """``byoc doctor`` has no options of its own."""


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """The report; exit code 3 when the host cannot compile."""
    targets = [_target(name) for name in backend_names()]  # first, since vendors' packages bring devices
    checks = [
        _check("byoc", f"{__version__} on Python {platform.python_version()}, {platform.machine()} {sys.platform}"),
        *(_package(name) for name in PACKAGES),
        _compiler(),
        _cache(),
        *_devices(),
        *(_device(kind) for kind in device_kinds() if kind != OPENCL),
        *targets,
    ]
    width = max(len(str(c["name"])) for c in checks)
    lines = [f"{_mark(c):2}  {c['name']!s:{width}}  {c['about']}" for c in checks]
    able = all(c["ok"] for c in checks if c["required"])
    if not all(c["ok"] for c in checks):
        lines.append("")
        lines += ["-- is missing and not needed by the host"] if able else ["NO: the host cannot compile without it"]
    return {"checks": checks, "able": able}, "\n".join(lines), 0 if able else EXIT_MACHINE


def _check(name: str, about: str, ok: bool = True, required: bool = False) -> dict[str, object]:
    return {"name": name, "ok": ok, "required": required, "about": about}


def _mark(check: Mapping[str, object]) -> str:
    return "ok" if check["ok"] else "NO" if check["required"] else "--"


def _package(name: str) -> dict[str, object]:
    required = name not in OPTIONAL_PACKAGES
    try:
        return _check(f"package {name}", importlib.metadata.version(name), required=required)
    except importlib.metadata.PackageNotFoundError:
        advice = install_command("" if required else "opencl")
        return _check(f"package {name}", f"not installed: {advice}", ok=False, required=required)


def _compiler() -> dict[str, object]:
    try:
        compiler = find_compiler()
    except UserError as error:
        return _check("C compiler", str(error), ok=False, required=True)
    return _check("C compiler", f"{' '.join(compiler.command)} ({compiler.version})", required=True)


def _cache() -> dict[str, object]:
    """The folder of compiled code, or the nearest folder above it that exists, can be written."""
    folder = existing = cache_dir()
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    able = existing.is_dir() and os.access(existing, os.W_OK)
    about = str(folder) if able else f"{folder} cannot be written: name another folder with BYOC_CACHE_DIR"
    return _check("cache", about, ok=able)


def _devices() -> list[dict[str, object]]:
    try:
        from byoc.runtime.opencl.devices import list_devices  # a part that an installation may leave out

        found = list_devices()
    except ModuleNotFoundError as error:
        return [_check("OpenCL device", f"byoc is installed without {error.name}", ok=False)]
    except UserError as error:
        return [_check("OpenCL device", str(error), ok=False)]
    if not found:
        return [_check("OpenCL device", f"none found: install a driver, or {install_command('opencl')}", ok=False)]
    return [_check("OpenCL device", str(d)) for d in found]


def _target(name: str) -> dict[str, object]:
    row = describe(name)
    about, level = str(row["about"]), row["level"]
    if row["state"] == "ready" and level != HardwareLevel.REAL:
        about = f"{level}: {about}"
    return {**_check(f"target {name}", about, ok=row["state"] == "ready"), "level": level}


def _device(kind: str) -> dict[str, object]:
    """A kind of device behind ``byoc.runtime.DeviceAPI``, as it is opened without settings."""
    try:
        found = device_api(kind).properties
    except UserError as error:
        return _check(f"device {kind}", str(error), ok=False)
    except Exception as error:  # a vendor's code may raise anything, and the other rows are to be seen
        return _check(f"device {kind}", f"{type(error).__name__}: {error}", ok=False)
    memory = "" if found.memory_bytes is None else f", {found.memory_bytes:,} bytes"
    level = "" if found.level == HardwareLevel.REAL else f"; {found.level}"
    named = found.driver if found.name == kind else f"{found.name}, {found.driver}"
    return {**_check(f"device {kind}", f"{named}{memory}{level}"), "level": found.level.value}
