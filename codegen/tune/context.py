"""Where a time holds: so many threads on this processor with its caches, this compiler and flags, these schedules."""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from byoc.codegen.c.toolchain.compiler import CCompiler

CPUINFO = Path("/proc/cpuinfo")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
MODEL_LINES = ("vendor_id", "cpu family", "model", "model name", "stepping", "CPU implementer", "CPU part")
# whose code a choice means: all that writes and compiles C, but what is written to be taken away
SCHEDULES = (
    "byoc.codegen.c",
    "byoc.codegen.c.contraction",
    "byoc.codegen.c.language",
    "byoc.codegen.c.routines",
    "byoc.codegen.c.rows",
    "byoc.codegen.c.tiling",
    "byoc.codegen.c.toolchain",
    "byoc.codegen.c.vectors",
    "byoc.codegen.c.whole",
    "byoc.codegen.c.winograd",
)
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Context:
    """Facts by name; two contexts with equal facts are the same."""

    facts: tuple[tuple[str, str], ...]

    @staticmethod
    def of(facts: Mapping[str, str]) -> Context:
        """The context of *facts*."""
        return Context(tuple(sorted(facts.items())))

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that stand for it."""
        return hashlib.sha256(json.dumps(self.facts).encode()).hexdigest()[:32]

    def to_json(self) -> dict[str, object]:
        return dict(self.facts)


def context_of(compiler: CCompiler, flags: Sequence[str], threads: int = 1) -> Context:
    """The context of code that *compiler* makes with *flags* beside its own, to run here with so many *threads*."""
    processor = compiler.processor(flags)
    return Context.of(
        {
            "threads": str(threads),
            "processor": processor.machine,
            "features": " ".join(processor.features or ()),
            "model": processor_model(),
            "caches": " ".join(f"{level}:{size}" for level, size in sorted(cache_sizes().items())),
            "compiler": compiler.version,
            "flags": " ".join((*compiler.flags, *flags)),
            "machine": repr(compiler.machine),
            "schedules": schedules_digest(),
        }
    )


def processor_model(cpuinfo: Path = CPUINFO) -> str:
    """What Linux says about the first processor's make; empty elsewhere."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        return ""
    pairs = [(key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in lines)]
    return ", ".join(f"{key} {value}" for key, value in pairs if key in MODEL_LINES)


def cache_sizes(folder: Path = CACHES) -> dict[int, int]:
    """The bytes of the data caches of a core, by their level; empty where the system does not report them."""
    sizes: dict[int, int] = {}
    for entry in sorted(folder.glob("index*")):
        try:
            kind, level, size = ((entry / name).read_text().strip() for name in ("type", "level", "size"))
            if kind != "Instruction":
                sizes[int(level)] = int(size.rstrip("KMG")) * _UNITS.get(size[-1:], 1)
        except (OSError, ValueError):
            continue
    return sizes


@functools.cache
def schedules_digest(packages: tuple[str, ...] = SCHEDULES) -> str:
    """What identifies a version of the schedules in *packages*: the hash of their sources."""
    digest = hashlib.sha256()
    for package in packages:
        parent, _, name = package.rpartition(".")
        folder = importlib.resources.files(parent) / name  # which imports nothing that was not asked for
        files = (f for f in folder.iterdir() if f.name.endswith(".py"))
        for file in sorted(files, key=lambda f: f.name):
            digest.update(f"{package}/{file.name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
