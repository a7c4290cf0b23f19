"""The C compiler: which one, and shared libraries from sources.

A library is linked from the objects of its translation units, which are compiled side by side. An object's key is the
SHA-256 of source, flags, the compiler's version and the processor that code needs; a library's that of its objects'
keys. What was made is kept (``object_cache.py``). A compiler that hangs, crashes, or writes nothing of use is a
CompileError (``command.py`` runs it); what it leaves lies in a folder that goes with the build.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import importlib.util
import json
import mmap
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from byoc.codegen.c.toolchain.command import CommandError, Commands, Finished, run_command
from byoc.codegen.c.toolchain.compiler_flags import float_range_flags, optimization_level, shared_store_flags
from byoc.codegen.c.toolchain.machine import NO_MATRICES, Machine, machine_of, processor_of
from byoc.codegen.c.toolchain.object_cache import cache_dir, compiler_folder, object_cache
from byoc.codegen.c.toolchain.sanitizers import requested, sanitizer_flags
from byoc.errors import CompileError, CompilerNotFoundError
from byoc.runtime.core.entry_points import install_command
from byoc.runtime.core.processor import Processor, usable_processors
from byoc.runtime.core.time_limit import compiler_seconds
from byoc.runtime.dso.matrix_permission import matrix_refusal
from byoc.runtime.files.whole_file import read_file

NATIVE_FLAGS = ("-march=native",)
LINK_FLAGS = ("-shared", "-pthread")
LIBRARIES = ("-lm",)
NOT_FOUND = (
    "no C compiler was found ($CC, cc, gcc, clang, or zig of the ziglang package): "
    f"install gcc, or run {install_command('zig')}"
)

Result = TypeVar("Result")
_DESCRIPTORS = 16  # that one compilation may have open at a time
_THREAD_BYTES = 9 << 20  # its stack, and what Python needs to start it
_MOST_SHOWN = 400  # characters of what a compiler says that go into our sentence
_PROBE_SECONDS = 60.0  # in which a compiler prints its version, and its macros
_OF_THE_SYSTEM = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
_NATIVE = b"\x7fELF" if sys.platform.startswith("linux") else b""  # how an object and a library begin


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
        name = f"{_key(*head, *flags, *LINK_FLAGS, *LIBRARIES, *keys)}.so"
        return object_cache(cache_dir() / "c").entry(name, lambda: self._made(units, keys, flags), self._patience())

    def _made(self, units: Sequence[TranslationUnit], keys: Sequence[str], flags: tuple[str, ...]) -> bytes:
        cache = object_cache(cache_dir() / "c")
        with compiler_folder() as folder, Commands() as commands:

            def compile_one(place: int) -> bytes:
                unit, key = units[place], keys[place]
                work = _Work(commands, folder / f"{place}.o", folder)
                make = functools.partial(self._compile, unit.source, (*flags, *unit.flags), key, work)
                return cache.entry(f"{key}.o", make, self._patience())

            objects = _side_by_side(compile_one, len(units), commands)
            return self._link(objects, flags, _Work(commands, folder / "lib.so", folder))

    def _patience(self) -> float:
        """The seconds that another process gets to make what this one wants too."""
        return 2 * (self.limit or compiler_seconds())

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

    def _compile(self, source: str, flags: Sequence[str], key: str, work: _Work) -> bytes:
        """The object of *source*, which is kept in the cache folder, where that can be written."""
        kept = object_cache(cache_dir() / "c").keep_source(f"{key}.c", source)
        path = kept or work.folder / f"{key}.c"
        if kept is None:
            _write(path, source.encode())
        where = f"the source is {path}" if kept else "its source could not be kept"
        return self._run([*flags, "-c", str(path)], where, work)

    def _link(self, objects: Sequence[bytes], flags: Sequence[str], work: _Work) -> bytes:
        paths = [work.folder / f"part_{k}.o" for k in range(len(objects))]
        for path, data in zip(paths, objects, strict=True):
            _write(path, data)
        return self._run([*flags, *LINK_FLAGS, *map(str, paths), *LIBRARIES], "it was linking", work)

    def _run(self, arguments: Sequence[str], where: str, work: _Work) -> bytes:
        """What the compiler writes when it is called with *arguments*. Raises CompileError with its first error."""
        command = [*self.command, *arguments[:-1], "-o", str(work.output), arguments[-1]]
        try:
            done = work.commands.run(command, self.limit or compiler_seconds(), work.folder)
        except CommandError as error:
            raise CompileError(f"{self.command[0]} {error}; {where}") from error
        if done.status != 0:
            raise CompileError(f"{self.command[0]} refused generated code: {_first_error(done)}; {where}")
        try:
            made = read_file(work.output)
        except OSError as error:
            raise CompileError(f"{self.command[0]} ended well and wrote nothing ({error.strerror}); {where}") from error
        if not made.startswith(_NATIVE):
            raise CompileError(
                f"{self.command[0]} ended well and wrote {len(made)} bytes that are no native code; {where}"
            )
        return made


@dataclass(frozen=True)
class _Work:
    """Where one call of the compiler works: with which others, to which file, in which folder."""

    commands: Commands
    output: Path
    folder: Path


def _first_error(done: Finished) -> str:
    """The first line that names an error, else the first; where a signal ended it, that."""
    lines = [line.strip() for line in done.output.splitlines() if line.strip()]
    line_of_error = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "")
    if done.status < 0 or not line_of_error:
        return done.ending
    return "".join(c if c.isprintable() else "?" for c in line_of_error[:_MOST_SHOWN])


def _write(path: Path, data: bytes) -> None:
    """Raises CompileError."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise CompileError(
            f"{path.parent}: the C compiler's work cannot be written ({error.strerror}); make room there, or name "
            "other folders with BYOC_CACHE_DIR and TMPDIR"
        ) from error


def _side_by_side(make: Callable[[int], Result], count: int, commands: Commands) -> list[Result]:
    """``make(0)`` and so on, by as many threads as there are processors; the first error ends all *commands*.

    Where the system gives no threads, by this one.
    """
    workers = _workers()
    if not workers:
        return [make(k) for k in range(count)]
    pool = ThreadPoolExecutor(workers)
    try:
        try:
            futures = [pool.submit(make, k) for k in range(count)]
        except RuntimeError:  # no thread can be started
            pool.shutdown(wait=True, cancel_futures=True)
            return [make(k) for k in range(count)]
        done = wait(futures, return_when=FIRST_EXCEPTION).done
        for future in futures:
            if future in done:
                future.result()
        return [future.result() for future in futures]
    except BaseException:
        commands.end()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _workers() -> int:
    """As many as there are processors, where this process may have the descriptors that each needs; none where it may
    not have their memory: a thread of Python that lacks some as it starts is waited for without an end.
    """
    try:
        mmap.mmap(-1, usable_processors() * _THREAD_BYTES).close()  # pages of their own, as a stack's are
    except OSError:
        return 0
    try:
        import resource
    except ImportError:  # Windows
        return usable_processors()
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed < 0:  # no limit
        return usable_processors()
    return max(1, min(usable_processors(), (allowed - _DESCRIPTORS) // _DESCRIPTORS))


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def candidates() -> list[tuple[str, ...]]:
    """The commands to try, in order: ``$CC`` alone where it is set, for whoever sets it wants no other.

    Raises CompilerNotFoundError where ``$CC`` cannot be read as a command.
    """
    if os.environ.get("CC", "").strip():
        try:
            return [tuple(shlex.split(os.environ["CC"]))]
        except ValueError as error:
            raise CompilerNotFoundError(f"$CC is {os.environ['CC']!r}, which is no command: {error}") from error
    paths = (shutil.which(name) for name in ("cc", "gcc", "clang"))
    found: list[tuple[str, ...]] = [(path,) for path in paths if path]
    if importlib.util.find_spec("ziglang") is not None:
        found.append((sys.executable, "-m", "ziglang", "cc"))
    return found


def find_compiler() -> CCompiler:
    """The first C compiler that works.

    Under ``BYOC_SANITIZE`` it compiles with sanitizers, under ``BYOC_OPTIMIZATION`` at another level. Raises
    CompilerNotFoundError with one sentence when there is none, or when the one that ``$CC`` names does not work.
    """
    found = find_works(tuple(candidates()))
    if isinstance(found, CCompiler):
        return found
    if os.environ.get("CC", "").strip():
        raise CompilerNotFoundError(
            f"$CC is {os.environ['CC']!r}, which does not work as a C compiler here ({found}): mend it or unset it"
        )
    raise CompilerNotFoundError(NOT_FOUND)


def find_works(commands: tuple[tuple[str, ...], ...], standard: tuple[str, ...] = ("-std=gnu11",)) -> CCompiler | str:
    """The first of *commands* that works as a compiler, with the flags of a *standard*, or why the last does not."""
    return _find(commands, requested(), optimization_level(), standard)


@functools.lru_cache(maxsize=8)
def _find(
    commands: tuple[tuple[str, ...], ...], sanitizers: tuple[str, ...], level: str, standard: tuple[str, ...]
) -> CCompiler | str:
    problem = ""
    for command in commands:
        try:
            version = _output([*command, "--version"])
        except CommandError as error:
            problem = str(error)
            continue
        problem = "it does not print its macros"
        base = (*standard, f"-O{level}", "-fPIC", "-fno-math-errno")
        for flags in ((*base, *NATIVE_FLAGS), base):
            macros = _macros(command, flags)
            if macros is not None and matrix_refusal(processor_of(macros)):
                flags, macros = (*flags, *NO_MATRICES), _macros(command, (*flags, *NO_MATRICES))
            if macros is not None:
                flags = (*flags, *shared_store_flags(_is_gcc(macros)), *float_range_flags(macros))
                flags = (*flags, *sanitizer_flags(sanitizers))
                return CCompiler(
                    command, version.splitlines()[0], flags, machine_of(macros), _is_gcc(macros), sanitizers=sanitizers
                )
    return problem


@functools.lru_cache(maxsize=64)
def _macros(command: tuple[str, ...], flags: tuple[str, ...]) -> Mapping[str, str] | None:
    """The macros that the compiler predefines under *flags*, or None when it refuses them."""
    try:
        return _parse_macros(_output([*command, *flags, "-dM", "-E", "-x", "c", os.devnull]))
    except CommandError:
        return None


def _is_gcc(macros: Mapping[str, str]) -> bool:
    return "__GNUC__" in macros and "__clang__" not in macros


def _output(command: Sequence[str]) -> str:
    """What a command prints. Raises CommandError when it cannot run, fails, or prints nothing.

    Raises CompilerNotFoundError where the system cannot start any command now, which says nothing about this one.
    """
    try:
        done = run_command(command, min(_PROBE_SECONDS, compiler_seconds()))
    except CommandError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _OF_THE_SYSTEM:
            raise CompilerNotFoundError(f"the C compiler {command[0]} {error}") from error
        raise
    if done.status != 0:
        raise CommandError(done.ending)
    if not done.output.strip():
        raise CommandError("it prints nothing")
    return done.output.lstrip()


def _parse_macros(text: str) -> Mapping[str, str]:
    pairs = (line.split(maxsplit=2) for line in text.splitlines() if line.startswith("#define "))
    return {parts[1]: parts[2] if len(parts) > 2 else "" for parts in pairs if len(parts) > 1}
