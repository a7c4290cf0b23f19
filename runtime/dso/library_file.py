"""Libraries loaded from memory, and what a process must have been started with before it loads some.

The dynamic loader takes names, so the bytes go into a file without one: a memory file (``memfd_create``) that is sealed
against changes, or a file without a name in the folder for temporary files, reached through ``/proc/self/fd``. Its
descriptor is closed as soon as it is loaded. Where neither can be had, the file has a name until it is loaded.
``BYOC_KEEP_LIBRARIES`` names a folder in which libraries are kept under the hash of their content, for debuggers,
profilers and sanitizers, which want to read them by name.

The loader takes two libraries of one name for the same, and descriptors are used again: each load spells the path in a
way of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import itertools
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cffi

from byoc.runtime.core.errors import ArtifactError, UnavailableError
from byoc.runtime.core.fork import new_lock
from byoc.runtime.files.whole_file import write_whole

with contextlib.suppress(ImportError):  # Windows has none, and no files in memory
    import fcntl

KEEP_VARIABLE = "BYOC_KEEP_LIBRARIES"
_FFI = cffi.FFI()
_FFI.cdef("""
void *dlopen(const char *name, int flags);
int dlclose(void *handle);
char *dlerror(void);
""")
_RTLD_NOW = getattr(os, "RTLD_NOW", 2)
_MFD_EXEC = 0x10  # since Linux 6.3, where a system may ask for it; older kernels do not know it
_NUMBERS = itertools.count(1)


class LibraryFile:
    """The bytes of a shared library, which is loaded when it is first opened, and once."""

    def __init__(self, library: bytes):
        self._library = library
        self._lock = new_lock()
        self._loaded: _Loaded | None = None

    def open(self, declarations: str) -> Any:
        """The functions of *declarations*, as attributes; the library stays loaded as long as one is open.

        Raises ArtifactError when the library cannot be loaded, UnavailableError where no file of it can be made.
        """
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self._library)
        ffi = cffi.FFI()
        ffi.cdef(declarations)
        opened = ffi.dlopen(self._loaded.handle)
        weakref.finalize(opened, _let_go, self._loaded).atexit = False
        return opened


class _Loaded:
    """A loaded library; it is unloaded with this object, but not by the end of the process, when threads may run."""

    def __init__(self, handle: object):
        self.handle = handle
        weakref.finalize(self, _system().dlclose, handle).atexit = False


def _let_go(loaded: _Loaded) -> None:
    """The finalizer of what was opened: it held *loaded* until now."""


@functools.cache
def _system() -> Any:
    return _FFI.dlopen(None)


def _load(library: bytes) -> _Loaded:
    """Raises ArtifactError, UnavailableError."""
    kept = os.environ.get(KEEP_VARIABLE)
    if kept:
        return _load_kept(library, Path(kept))
    problem: Exception | None = None
    for place in (_memory_file, _nameless_file, _named_file):
        try:
            with place(library) as path:
                return _dlopen(path)
        except OSError as error:  # this place is refused; another may be not
            problem = UnavailableError(
                f"the folder for temporary files cannot be written ({error.strerror}): name another with TMPDIR"
            )
        except ArtifactError as error:  # a policy may forbid to run what lies there
            problem = error
    raise problem or ArtifactError("the compiled library cannot be loaded on this machine")


def _load_kept(library: bytes, folder: Path) -> _Loaded:
    path = folder / f"{hashlib.sha256(library).hexdigest()[:32]}.so"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_whole(path, lambda file: file.write(library))
    except OSError as error:
        raise UnavailableError(f"{folder}: ${KEEP_VARIABLE} cannot be written ({error.strerror})") from error
    return _dlopen(str(path))


def _dlopen(path: str) -> _Loaded:
    system = _system()
    handle = system.dlopen(os.fsencode(path), _RTLD_NOW)
    if handle == _FFI.NULL:
        said = system.dlerror()
        reason = _FFI.string(said).decode(errors="replace") if said != _FFI.NULL else "no reason is given"
        raise ArtifactError(
            f"the compiled library cannot be loaded on this machine: {reason.removeprefix(f'{path}: ')}"
        )
    return _Loaded(handle)


@contextmanager
def _memory_file(library: bytes) -> Iterator[str]:
    descriptor = _memory_descriptor()
    try:
        _write(descriptor, library)
        with contextlib.suppress(OSError):
            fcntl.fcntl(  # nobody who finds it under /proc can take its pages away
                descriptor,
                fcntl.F_ADD_SEALS,
                fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL,
            )
        yield _path_of(descriptor)
    finally:
        os.close(descriptor)


def _memory_descriptor() -> int:
    create: Callable[[str, int], int] | None = getattr(os, "memfd_create", None)
    if create is None:
        raise OSError(0, "this system has no memory files")
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return create("byoc-library", flags | _MFD_EXEC)
    except OSError:
        return create("byoc-library", flags)


@contextmanager
def _nameless_file(library: bytes) -> Iterator[str]:
    with tempfile.TemporaryFile(prefix="byoc-", suffix=".so", buffering=0) as file:  # without a name on Linux
        _write(file.fileno(), library)
        yield _path_of(file.fileno())


@contextmanager
def _named_file(library: bytes) -> Iterator[str]:
    descriptor, path = tempfile.mkstemp(prefix="byoc-", suffix=".so")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(library)
        yield path
    finally:
        os.unlink(path)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _path_of(descriptor: int) -> str:
    """A path of an open file that was never written so before: ``/`` and ``./`` spell a number, and lead nowhere."""
    spelled = "".join("./" if bit == "1" else "/" for bit in f"{next(_NUMBERS):b}")
    return f"/proc/self/fd/{spelled}{descriptor}"


# Sanitizers in compiled code. Those of addresses and of threads replace ``malloc`` from the start of a process, so
# their library must be there first (``LD_PRELOAD``), or loading such code ends the process. That of undefined behaviour
# needs nothing.

SANITIZERS = ("address", "undefined", "thread")
# of those whose library comes first: the library, and a symbol that it has
PRELOADED = {"address": ("libasan.so", "__asan_init"), "thread": ("libtsan.so", "__tsan_init")}


def absent(sanitizers: Sequence[str]) -> list[str]:
    """Those of *sanitizers* whose library this process was not started with, where it had to be."""
    process = ctypes.CDLL(None)
    return [name for name in sanitizers if name in PRELOADED and not hasattr(process, PRELOADED[name][1])]


def sanitizer_refusal(sanitizers: Sequence[str]) -> str | None:
    """Why code with *sanitizers* cannot be loaded into this process: a sentence, or None when it can."""
    missing = absent(sanitizers)
    if not missing:
        return None
    library = PRELOADED[missing[0]][0]
    return (
        f"it was built with the {missing[0]} sanitizer, whose library this process was not started with: start it with "
        f"LD_PRELOAD=$(gcc -print-file-name={library}), or compile the model without BYOC_SANITIZE"
    )
