"""The C compiler: which one, and shared libraries from sources through a cache that is addressed by content.

A library is linked from the objects of its translation units, which are compiled side by side. An object's key is the
SHA-256 of source, flags, the compiler's version and the processor that code needs; a library's that of its objects'
keys. Entries appear whole (written beside and renamed under a lock), so that processes share the cache; a damaged one
is built anew. A folder that cannot be written is read; what is missing there is kept until the process ends.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_dir

from byoc.codegen.c.machine import NO_MATRICES, Machine, machine_of, processor_of
from byoc.codegen.c.sanitizers import requested, sanitizer_flags
from byoc.errors import CompileError, CompilerNotFoundError
from byoc.runtime.dso.matrix_permission import matrix_refusal
from byoc.runtime.dso.processor import Processor, usable_processors

BASE_FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-fno-math-errno")
NATIVE_FLAGS = ("-march=native",)
LINK_FLAGS = ("-shared", "-pthread")
LIBRARIES = ("-lm",)
NOT_FOUND = (
    "no C compiler was found ($CC, cc, gcc, clang, or zig of the ziglang package): "
    "install gcc, or run pip install byoc[zig]"
)


@dataclass(frozen=True)
class TranslationUnit:
    """A source that is compiled by itself, with *flags* of its own beside those of the library."""

    source: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class CCompiler:
    """A C compiler: command, first line of its version, the flags that it accepts, its machine, whether it is GCC."""

    command: tuple[str, ...]
    version: str
    flags: tuple[str, ...]
    machine: Machine
    is_gcc: bool = False
    limit: float | None = None  # seconds that one call of it may take
    sanitizers: tuple[str, ...] = ()  # that its flags have

    def build(self, source: str, extra_flags: Sequence[str] = ()) -> bytes:
        """The shared library of one *source*; as :meth:`build_units`."""
        return self.build_units([TranslationUnit(source)], extra_flags)

    def build_units(self, units: Sequence[TranslationUnit], extra_flags: Sequence[str] = ()) -> bytes:
        """The shared library of *units*, from the cache where it is, else from their objects.

        Raises CompileError with the compiler's first error and the path where the source is kept.
        """
        flags = (*self.flags, *extra_flags)
        head = (self.version, json.dumps(self.processor(extra_flags).to_json()))
        keys = [_key(*head, *flags, *unit.flags, unit.source) for unit in units]

        def compile_one(key: str, unit: TranslationUnit) -> bytes:
            source = _folder() / f"{key}.c"
            return _cached(f"{key}.o", lambda: self._compile(unit.source, (*flags, *unit.flags), source))

        def link() -> bytes:
            with ThreadPoolExecutor(usable_processors()) as pool:
                return self._link(list(pool.map(compile_one, keys, units)), flags)

        return _cached(f"{_key(*head, *flags, *LINK_FLAGS, *LIBRARIES, *keys)}.so", link)

    def processor(self, extra_flags: Sequence[str] = ()) -> Processor:
        """The processor that code built with *extra_flags* needs. Raises CompileError for flags that are refused."""
        macros = _macros(self.command, (*self.flags, *extra_flags))
        if macros is None:
            raise CompileError(f"{' '.join(self.command)} refused the flags {' '.join(extra_flags)}")
        return processor_of(macros)

    def machine_for(self, extra_flags: Sequence[str]) -> Machine:
        """The machine for which code is generated under *extra_flags*. Raises CompileError for refused flags."""
        macros = _macros(self.command, (*self.flags, *extra_flags))
        if macros is None:
            raise CompileError(f"{' '.join(self.command)} refused the flags {' '.join(extra_flags)}")
        return machine_of(macros)

    def _compile(self, source: str, flags: Sequence[str], source_path: Path) -> bytes:
        """The object of *source*, which is kept at *source_path*."""
        source_path.write_text(source, encoding="utf-8")
        return self._run([*flags, "-c", str(source_path)], f"the source is {source_path}")

    def _link(self, objects: Sequence[bytes], flags: Sequence[str]) -> bytes:
        with tempfile.TemporaryDirectory() as scratch:
            paths = [Path(scratch) / f"{k}.o" for k in range(len(objects))]
            for path, data in zip(paths, objects, strict=True):
                path.write_bytes(data)
            return self._run([*flags, *LINK_FLAGS, *map(str, paths), *LIBRARIES], "it was linking")

    def _run(self, arguments: Sequence[str], where: str) -> bytes:
        """What the compiler writes when it is called with *arguments*. Raises CompileError with its first error."""
        with tempfile.TemporaryDirectory() as scratch:
            output = Path(scratch) / "output"
            command = [*self.command, *arguments[:-1], "-o", str(output), arguments[-1]]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=self.limit)
            except subprocess.TimeoutExpired as error:
                raise CompileError(f"{self.command[0]} did not end within {self.limit:g} s; {where}") from error
            if done.returncode != 0 or not output.is_file():
                lines = done.stderr.splitlines() or [f"exit status {done.returncode}"]
                first = next((line for line in lines if "error" in line), lines[0])
                raise CompileError(f"{self.command[0]} refused generated code: {first}; {where}")
            return output.read_bytes()


def cache_dir() -> Path:
    """Where compiled code is kept: ``$BYOC_CACHE_DIR``, or the user's cache folder."""
    return Path(os.environ.get("BYOC_CACHE_DIR") or user_cache_dir("byoc"))


def _shared_folder() -> Path:
    return cache_dir() / "c"


def _folder() -> Path:
    """The folder to write to: the shared one, else one of this process."""
    folder = _shared_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return _own_folder(folder, error.strerror or str(error))
    return folder


@functools.cache
def _own_folder(instead: Path, reason: str) -> Path:
    """A folder that is removed when the process ends. Warns, once, that the one to write to is not *instead*."""
    warnings.warn(
        f"{instead}: the cache folder cannot be written ({reason}), so that nothing compiled is kept for later; "
        "name another with BYOC_CACHE_DIR", stacklevel=2,
    )
    folder = tempfile.mkdtemp(prefix="byoc-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _cached(name: str, make: Callable[[], bytes]) -> bytes:
    """The entry *name* of the cache; made where it is missing or damaged, by one process at a time."""
    found = _read_entry(_shared_folder() / name)
    if found is None:
        entry = _folder() / name
        with FileLock(str(entry.with_suffix(f"{entry.suffix}.lock"))):
            found = _read_entry(entry)
            if found is None:
                found = make()
                _write_entry(entry, found)
    return found


def _read_entry(entry: Path) -> bytes | None:
    """An entry of the cache, or None where there is none or where its checksum (its last 32 bytes) is wrong."""
    try:
        data = entry.read_bytes()
    except OSError:
        return None
    body, digest = data[:-32], data[-32:]
    return body if hashlib.sha256(body).digest() == digest else None


def _write_entry(entry: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=entry.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content + hashlib.sha256(content).digest())
    os.replace(name, entry)


def candidates() -> list[tuple[str, ...]]:
    """The commands to try, in order: ``$CC`` alone where it is set, for whoever sets it wants no other."""
    if os.environ.get("CC", "").strip():
        return [tuple(shlex.split(os.environ["CC"]))]
    paths = (shutil.which(name) for name in ("cc", "gcc", "clang"))
    found: list[tuple[str, ...]] = [(path,) for path in paths if path]
    if importlib.util.find_spec("ziglang") is not None:
        found.append((sys.executable, "-m", "ziglang", "cc"))
    return found


def find_compiler() -> CCompiler:
    """The first C compiler that works.

    Under ``BYOC_SANITIZE`` it compiles with sanitizers. Raises CompilerNotFoundError with one sentence when there is
    none, or when the one that ``$CC`` names does not work.
    """
    found = _find(tuple(candidates()), requested())
    if found is None and os.environ.get("CC", "").strip():
        raise CompilerNotFoundError(
            f"$CC is {os.environ['CC']!r}, which does not work as a C compiler here: mend it or unset it"
        )
    if found is None:
        raise CompilerNotFoundError(NOT_FOUND)
    return found


@functools.lru_cache(maxsize=8)
def _find(commands: tuple[tuple[str, ...], ...], sanitizers: tuple[str, ...]) -> CCompiler | None:
    for command in commands:
        version = _output([*command, "--version"])
        if version is None:
            continue
        for flags in ((*BASE_FLAGS, *NATIVE_FLAGS), BASE_FLAGS):
            macros = _macros(command, flags)
            if macros is not None and matrix_refusal(processor_of(macros)):
                flags, macros = (*flags, *NO_MATRICES), _macros(command, (*flags, *NO_MATRICES))
            if macros is not None:
                flags = (*flags, *sanitizer_flags(sanitizers))
                return CCompiler(
                    command, version.splitlines()[0], flags, machine_of(macros), _is_gcc(macros), sanitizers=sanitizers
                )
    return None


@functools.lru_cache(maxsize=64)
def _macros(command: tuple[str, ...], flags: tuple[str, ...]) -> Mapping[str, str] | None:
    """The macros that the compiler predefines under *flags*, or None when it refuses them."""
    text = _output([*command, *flags, "-dM", "-E", "-x", "c", os.devnull])
    return None if text is None else _parse_macros(text)


def _is_gcc(macros: Mapping[str, str]) -> bool:
    return "__GNUC__" in macros and "__clang__" not in macros


def _output(command: Sequence[str]) -> str | None:
    """What a command prints, or None when it cannot run or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 and done.stdout else None


def _parse_macros(text: str) -> Mapping[str, str]:
    pairs = (line.split(maxsplit=2) for line in text.splitlines() if line.startswith("#define "))
    return {parts[1]: parts[2] if len(parts) > 2 else "" for parts in pairs}
