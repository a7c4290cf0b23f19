"""Compiled models in the cache folder: artefacts by the key of what decides them (``library_key.py``).

An entry is what ``Library.save`` writes: it appears whole or not at all, whoever else writes it at the time, and every
member has its SHA-256, so that a damaged entry counts as none. The folder is kept below a limit; what was read or
written longest ago goes first.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from byoc.codegen.c.toolchain.object_cache import cache_dir
from byoc.errors import UserError
from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.library import Library

FOLDER = "libraries"
LIMIT_VARIABLE = "BYOC_LIBRARY_CACHE_MB"  # 0: no library is kept, and none is read
LIMIT_MB = 4096
ABANDONED_SECONDS = 3600.0  # after which a file that nobody finished is not being written any more


@dataclass(frozen=True)
class LibraryCache:
    """The libraries in *folder*, which take at most *limit* bytes."""

    folder: Path
    limit: int

    def read(self, key: str) -> Library | None:
        """The library of *key*; None where there is none, where it is damaged, and where it cannot run here."""
        entry = self._entry(key)
        if not entry.is_file():
            return None
        from byoc.runtime.loading import read_library

        try:
            library = read_library(entry)
        except ArtifactError:
            return None
        if library.problems() or library.edited:
            return None
        with contextlib.suppress(OSError):  # a folder that can only be read has no order of use
            os.utime(entry)
        return library

    def write(self, key: str, library: Library) -> str | None:
        """Keep *library*. Returns why that was not possible, or None."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            library.save(self._entry(key))
            self.shrink()
        except (OSError, UserError) as error:
            return str(error)
        return None

    def shrink(self) -> int:
        """Remove the entries that were not used for longest, until the others stay below the limit; how many."""
        for part in self.folder.glob("*.part"):
            with contextlib.suppress(FileNotFoundError):
                if part.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                    part.unlink()
        kept = removed = 0
        for _used, size, entry in sorted(self._entries(), reverse=True):
            kept += size
            if kept > self.limit:
                entry.unlink(missing_ok=True)
                removed += 1
        return removed

    def _entries(self) -> list[tuple[int, int, Path]]:
        """When each was used last, its bytes, and its place."""
        found = []
        for entry in self.folder.glob("*.byoc"):
            with contextlib.suppress(FileNotFoundError):  # another process shrinks the folder too
                status = entry.stat()
                found.append((status.st_mtime_ns, status.st_size, entry))
        return found

    def _entry(self, key: str) -> Path:
        return self.folder / f"{key}.byoc"


def own_libraries() -> LibraryCache | None:
    """The libraries of the cache folder; None where ``$BYOC_LIBRARY_CACHE_MB`` is 0.

    Raises UserError where that is no number of megabytes.
    """
    text = os.environ.get(LIMIT_VARIABLE, "").strip() or str(LIMIT_MB)
    if not (text.isascii() and text.isdecimal()):
        raise UserError(f"${LIMIT_VARIABLE} is a number of megabytes, 0 to keep no libraries, got {text!r}")
    return LibraryCache(cache_dir() / FOLDER, int(text) << 20) if int(text) else None
