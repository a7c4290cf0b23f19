"""The cache files of devices as a user sees them: what is in each, how large and how old; removing, and merging two.

A file is handed to another machine as it is, or merged there into what that machine has. Binaries are code which the
driver runs: whoever merges a file trusts who made it. An entry that is damaged is neither listed nor merged.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from byoc.runtime.core.errors import UserError
from byoc.runtime.files.record_file import FileRecord, RecordFile
from byoc.runtime.opencl.kernel_cache import SUFFIX, CacheEntry, file_name, record_file


@dataclass(frozen=True)
class CachedEntry:
    """An entry, and the bytes of its data."""

    entry: CacheEntry
    nbytes: int

    def to_json(self) -> dict[str, object]:
        return {**vars(self.entry), "bytes": self.nbytes}


@dataclass(frozen=True)
class CacheFile:
    """A device's file: its place, its bytes, the seconds since it was changed, and its whole entries."""

    path: Path
    nbytes: int
    age: float
    entries: tuple[CachedEntry, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices in it: one, unless somebody put files together by hand."""
        return tuple(dict.fromkeys(e.entry.device for e in self.entries))

    def to_json(self) -> dict[str, object]:
        entries = [e.to_json() for e in self.entries]
        return {"file": str(self.path), "bytes": self.nbytes, "age_seconds": self.age, "entries": entries}


def cache_files(folder: Path) -> list[CacheFile]:
    """The files in *folder* that can be read, by name; none where there is no such folder."""
    found = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with contextlib.suppress(OSError):
            status = path.stat()
            age = max(time.time() - status.st_mtime, 0.0)
            found.append(CacheFile(path, status.st_size, age, entries_of(RecordFile(path))))
    return found


def entries_of(file: RecordFile) -> tuple[CachedEntry, ...]:
    """The whole entries of a file, oldest first."""
    entries = [(CacheEntry.of(record), len(record.data)) for record in file.records()]
    return tuple(CachedEntry(entry, nbytes) for entry, nbytes in entries if entry is not None)


def clear(folder: Path, is_unwanted: Callable[[CacheEntry], bool] | None = None) -> int:
    """Remove the entries that are unwanted, all without a rule; how many. A file without entries goes.

    Raises UserError for a file that cannot be written.
    """
    removed = 0
    for found in cache_files(folder):
        try:
            if is_unwanted is None:
                found.path.unlink(missing_ok=True)
                removed += len(found.entries)
                continue

            removed += record_file(found.path).remove(functools.partial(_is_unwanted, is_unwanted))
            if not RecordFile(found.path).records():
                found.path.unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"{found.path}: the cache file cannot be changed ({error.strerror})") from error
    return removed


def _is_unwanted(rule: Callable[[CacheEntry], bool], record: FileRecord) -> bool:
    entry = CacheEntry.of(record)
    return entry is not None and rule(entry)


@dataclass(frozen=True)
class Merged:
    """How many entries were taken, how many were there already, and the files that changed."""

    taken: int
    known: int
    files: tuple[Path, ...]


def merge(sources: Iterable[Path], folder: Path | None = None, target: Path | None = None) -> Merged:
    """Put the entries of *sources* into the device's files in *folder*, or all into the file *target*.

    Of two settings with one name the later source's counts; a setting of the target gives way too. Raises UserError for
    what is no such file, and for what cannot be written; the other files are as they were or have more entries.
    """
    taken = known = 0
    changed: dict[Path, None] = {}
    for source in sources:
        file = RecordFile(source)
        try:
            foreign = file.is_foreign()
        except OSError as error:
            raise UserError(f"{source}: the cache file cannot be read ({error.strerror or error})") from error
        if foreign:
            raise UserError(f"{source}: expected a cache file of a device (*{SUFFIX}, as byoc cache list names them)")
        for record in file.records():
            entry = CacheEntry.of(record)
            if entry is None:
                continue
            if target is None:
                assert folder is not None
                place = folder / file_name(entry.device, entry.platform)
            else:
                place = target
            if place.exists() and os.path.samefile(place, source):
                known += 1
                continue
            try:
                is_new = record_file(place).add(record)
            except OSError as error:
                raise UserError(f"{place}: the cache file cannot be written ({error.strerror or error})") from error
            taken, known = taken + is_new, known + (not is_new)
            if is_new:
                changed[place] = None
    return Merged(taken, known, tuple(changed))
