"""``byoc doctor``: what this machine has of what byoc needs."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import sys
from collections.abc import Mapping

from byoc import __version__
from byoc.codegen.c.compiler import find_compiler
from byoc.driver.cli.targets_command import describe
from byoc.codegen.backend import backend_names
from byoc.errors import UserError
from byoc.runtime.opencl.devices import list_devices

HELP = "check the compiler, the devices and the packages of this machine"
PACKAGES = ("numpy", "onnx", "cffi", "safetensors", "filelock", "platformdirs", "rich", "pyopencl")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """``byoc doctor`` has no options of its own."""


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """The report; exit code 3 when the host cannot compile."""
    checks = [
        _check("byoc", f"{__version__} on Python {platform.python_version()}, {platform.machine()} {sys.platform}"),
        *(_package(name) for name in PACKAGES),
        _compiler(),
        *_devices(),
        *(_target(name) for name in backend_names()),
    ]
    lines = [f"{'ok' if c['ok'] else '--':3} {c['name']:24} {c['about']}" for c in checks]
    able = all(c["ok"] for c in checks if c["required"])
    lines.append("" if able else "the host cannot compile models: mend the required lines above")
    return {"checks": checks, "able": able}, "\n".join(lines).rstrip(), 0 if able else 3


def _check(name: str, about: str, ok: bool = True, required: bool = False) -> dict[str, object]:
    return {"name": name, "ok": ok, "required": required, "about": about}


def _package(name: str) -> dict[str, object]:
    required = name != "pyopencl"
    try:
        return _check(f"package {name}", importlib.metadata.version(name), required=required)
    except importlib.metadata.PackageNotFoundError:
        extra = "byoc" if required else "'byoc[opencl]'"
        return _check(f"package {name}", f"not installed: pip install {extra}", ok=False, required=required)


def _compiler() -> dict[str, object]:
    try:
        compiler = find_compiler()
    except UserError as error:
        return _check("C compiler", str(error), ok=False, required=True)
    return _check("C compiler", f"{' '.join(compiler.command)} ({compiler.version})", required=True)


def _devices() -> list[dict[str, object]]:
    try:
        found = list_devices()
    except UserError as error:
        return [_check("OpenCL device", str(error), ok=False)]
    return [_check("OpenCL device", str(d)) for d in found]


def _target(name: str) -> dict[str, object]:
    row = describe(name)
    return _check(f"target {name}", str(row["about"]), ok=row["state"] == "ready")
