"""The key of a compiled model: everything that decides what ``byoc.compile`` makes, found without loading the compiler.

Equal keys mean equal libraries. A key is the SHA-256 of the model's bytes, the request, the sources of byoc, the
versions of the packages that compute for it, the C compiler, the processor with its caches and how many of it there are
to use, and, where a level of tuning is asked for, what the database knows. Whoever has loaded the graph language may
have registered operators, converters or backends and may run under passes of his own, and whoever names an accelerator
runs a vendor's code: none of these has a key, nor has a request that is not plain data. What of the request is in the
key, each option declares (``options.py``).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.metadata
import mmap
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.object_cache import cache_dir
from byoc.codegen.tune.context import context_of
from byoc.driver.options import UNTUNED, CompileRequest
from byoc.errors import UserError
from byoc.options.declaration import key_text
from byoc.runtime.core.processor import usable_processors
from byoc.runtime.files.whole_file import open_file, read_file

# where something may be registered, or chosen for the passes, before a model is compiled
REGISTRIES = (
    "byoc.ir",
    "byoc.te",
    "byoc.relay",
    "byoc.partition.costs",
    "byoc.partition.place",
    "byoc.partition.places",
    "byoc.partition.plan",
    "byoc.partition.policy",
    "byoc.contract",
    "byoc.compat",
)
PACKAGES = ("byoc", "byoc.codegen", "byoc.runtime")  # whose files are the compiler
COMPUTING = ("numpy", "onnx", "protobuf", "ml_dtypes", "networkx", "scipy")  # distributions whose results it keeps
HOST_ALONE = (("c",), ("host",))
RECORDS = ("tune", ".jsonl")  # folder and suffix of the database of codegen/tune in the cache folder
EXTERNAL = b"location"  # stands in every model that keeps data in other files


def request_text(request: CompileRequest) -> str | None:
    """The request as text, equal for equal ones; None unless it is plain data and the host is the only target."""
    return key_text(request) if tuple(request.target_list()) in HOST_ALONE else None


def is_tuned(request: CompileRequest) -> bool:
    """Whether the database of tuning is asked."""
    return request.tune != UNTUNED


@dataclass(frozen=True)
class Circumstances:
    """What a key says beside what was tuned: the digest of the model, the request, this byoc, and this machine."""

    model: str
    request: str
    sources: str
    versions: str
    compiler: str
    machine: str

    def key(self, records: str) -> str:
        """The key where the database has the digest *records*; empty where it is not asked."""
        facts = (self.model, self.request, self.sources, self.versions, self.compiler, self.machine, records)
        return _sha256("\0".join(facts).encode())


def circumstances(model: object, request: CompileRequest) -> Circumstances | None:
    """Those of compiling *model* (a path or bytes) now, or None where no key says everything."""
    text = request_text(request)
    if text is None or not is_untouched():
        return None
    try:
        content = model_digest(model)
        compiler = find_compiler()
    except (OSError, ValueError, UserError):  # the compiler proper says what is wrong
        return None
    if content is None:
        return None
    command = repr((compiler.command, compiler.version, compiler.flags, usable_processors()))
    return Circumstances(content, text, sources_digest(), versions(), command, context_of(compiler, ()).digest)


def is_untouched() -> bool:
    """Whether nothing was loaded yet in which operators, converters, passes or backends could be registered."""
    return not any(name in sys.modules for name in REGISTRIES)


def model_digest(model: object) -> str | None:
    """The SHA-256 of a model's bytes, which *model* is or which stand at that path; None for another kind of model."""
    with _content(model) as content:
        return None if content is None else _sha256(content)


def stands_alone(model: object, digest: str) -> bool:
    """Whether *model* still has that digest, and keeps none of its data in other files."""
    if not isinstance(model, (bytes, str, Path)):
        return False
    try:
        data = model if isinstance(model, bytes) else read_file(model)
    except OSError:
        return False
    return EXTERNAL not in data and _sha256(data) == digest


@contextlib.contextmanager
def _content(model: object) -> Iterator[bytes | mmap.mmap | None]:
    if isinstance(model, bytes):
        yield model
    elif isinstance(model, (str, Path)):
        with open_file(model) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            yield view
    else:
        yield None


def sources_digest() -> str:
    """The hash of every file of byoc but contributed backends: the code is part of what decides."""
    digest = hashlib.sha256()
    seen: list[Path] = []
    for package in PACKAGES:
        for folder in map(Path, importlib.import_module(package).__path__):
            if not any(folder.is_relative_to(other) for other in seen):  # installed, they are one folder
                for path in _files(folder):
                    digest.update(f"{package}/{path.relative_to(folder).as_posix()}\0".encode())
                    digest.update(hashlib.sha256(path.read_bytes()).digest())
            seen.append(folder)
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for place, below, names in os.walk(folder):
        below[:] = sorted(name for name in below if name != "__pycache__")
        yield from (Path(place, name) for name in sorted(names))


def versions() -> str:
    """Python's version and those of the packages that compute at compile time, where they are installed."""
    found = [sys.version]
    for name in COMPUTING:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return "; ".join(found)


def tuned_records() -> str:
    """The digest of all that the database of tuning holds."""
    folder, suffix = RECORDS
    digest = hashlib.sha256()
    for file in sorted((cache_dir() / folder).glob(f"*{suffix}")):
        with contextlib.suppress(FileNotFoundError):
            digest.update(f"{file.name}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _sha256(data: bytes | mmap.mmap) -> str:
    return hashlib.sha256(data).hexdigest()
