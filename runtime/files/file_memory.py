"""The bytes of a file in memory: a copy of its own, or a mapping that processes share and that can be watched.

A mapping shows whatever is written into the file later, and ends the process (SIGBUS) where the file was cut: ``cp``
over a loaded file does both. So a copy is the rule, and read-only memory as a mapping is. Who maps promises that the
file is replaced (a new file under the old name) or removed, never written into; a broken promise is found by the file's
size and time of change.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import time
from pathlib import Path
from typing import BinaryIO

from byoc.runtime.core.errors import ArtifactError, UnavailableError
from byoc.runtime.files.whole_file import open_file

_TICK = 0.02  # seconds: coarser than any clock by which a file system notes a change
_PROT_READ = 1


class FileWatch:
    """An open file that nobody shall write into."""

    def __init__(self, path: Path, file: BinaryIO):
        self._path, self._file = path, file
        if time.time() - os.fstat(file.fileno()).st_mtime < _TICK:
            time.sleep(_TICK)  # a change in the same tick as the last one could not be distinguished from it
        self._known = self._state()

    def _state(self) -> tuple[int, int]:
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns

    def check(self) -> None:
        """Raises ArtifactError when the file was written into since this object was made."""
        if self._state() != self._known:
            raise ArtifactError(
                f"{self._path}: the file was overwritten while it was loaded with mapped=True; load it again, and "
                "replace such a file by renaming another to its name"
            )


def copy_of(path: Path) -> memoryview:
    """The bytes of the file at *path* in memory of their own, read-only.

    Raises ArtifactError for an empty file and one that is cut while it is read, UnavailableError where there is too
    little memory, OSError for a file that cannot be read.
    """
    with open_file(path) as file:
        size = _size(path, file)
        try:
            memory = _new_memory(size)
        except (OSError, MemoryError) as error:
            raise UnavailableError(
                f"{path}: this machine has no memory for its {size:,} bytes; load it with mapped=True"
            ) from error
        _prefer_large_pages(memory)
        if _read_into(file, memory) != size:
            raise ArtifactError(f"{path}: the file was cut while it was read; save the model again")
    _forbid_writing(memory)
    return memoryview(memory).toreadonly()


def mapping_of(path: Path) -> tuple[memoryview, FileWatch]:
    """The mapped file at *path*, and its watch. Raises ArtifactError for an empty file, OSError as :func:`copy_of`."""
    file = open_file(path)
    try:
        size = _size(path, file)
        watch = FileWatch(path, file)
        return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)), watch
    except BaseException:
        file.close()
        raise


def _size(path: Path, file: BinaryIO) -> int:
    size = os.fstat(file.fileno()).st_size
    if size == 0:
        raise ArtifactError(f"{path}: the file is empty; save the model again")
    return size


def _read_into(file: io.BufferedReader, memory: mmap.mmap) -> int:
    count = 0
    with memoryview(memory) as view:
        while count < len(view):
            with view[count:] as rest:
                read = file.readinto(rest)
            if not read:
                break
            count += read
    return count


def _new_memory(size: int) -> mmap.mmap:
    """*size* bytes of this process alone: memory that Python shares with children by default has no large pages."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)


def _prefer_large_pages(memory: mmap.mmap) -> None:
    """Weights are read from end to end in every run, which costs fewer look-ups of addresses in large pages."""
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError:  # a kernel without them
            return


def _forbid_writing(memory: mmap.mmap) -> None:
    """Let the processor refuse stores into constants, as in a mapping of the file."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = getattr(ctypes.CDLL(None), "mprotect", None)
    if protect is not None:
        protect(ctypes.c_void_p(address), ctypes.c_size_t(len(memory)), _PROT_READ)
