"""What the C compiler made, in the cache folder, addressed by content.

Entries appear whole and carry a checksum, so that processes share the folder and a damaged entry is built anew. One
process at a time makes an entry while the others wait for it, but not longer than that may take. A folder that cannot
be written is read; what is missing there is kept in memory, and a warning says so once.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from byoc.errors import UserError
from byoc.runtime.files.whole_file import read_file, write_whole
from byoc.runtime.files.work_folder import work_folder

FEWEST_FREE = 32 << 20  # bytes of a disk on which a compiler works
_DIGEST_BYTES = 32


def cache_dir() -> Path:
    """Where compiled code is kept: ``$BYOC_CACHE_DIR``, or the user's cache folder."""
    if own := os.environ.get("BYOC_CACHE_DIR"):
        return Path(own)
    from platformdirs import user_cache_dir  # which commands that run artefacts do without

    return Path(user_cache_dir("byoc"))


@dataclass(frozen=True)
class ObjectCache:
    """The entries in *folder*, and those of this process that it could not take."""

    folder: Path
    kept: dict[str, bytes] = field(default_factory=dict, compare=False)

    def entry(self, name: str, make: Callable[[], bytes], limit: float) -> bytes:
        """The entry *name*; made where it is missing or damaged. Another process that makes it gets *limit* seconds."""
        found = self._read(name)
        if found is not None:
            return found
        with self._alone(name, limit):
            found = self._read(name)
            if found is None:
                found = make()
                self._write(name, found)
        return found

    def keep_source(self, name: str, source: str) -> Path | None:
        """Keep a text beside the entries, for people and debuggers; its path, or None where that is not possible."""
        path = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, lambda file: file.write(source.encode()))
        except OSError as error:
            _warn(self.folder, error.strerror or str(error))
            return None
        return path

    @contextmanager
    def _alone(self, name: str, limit: float) -> Iterator[None]:
        """Hold the lock of an entry, where there can be one: without it work may be done twice, and no more."""
        from filelock import FileLock, Timeout  # which commands that run artefacts do without

        with ExitStack() as stack:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(FileLock(str(self.folder / f"{name}.lock"), timeout=limit))
            except Timeout:  # its holder hangs
                pass
            except (OSError, NotImplementedError) as error:
                _warn(self.folder, getattr(error, "strerror", None) or str(error))
            yield

    def _read(self, name: str) -> bytes | None:
        """An entry, or None where there is none or where its checksum (its last 32 bytes) is wrong."""
        if name in self.kept:
            return self.kept[name]
        try:
            data = read_file(self.folder / name)
        except OSError:
            return None
        body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        return body if hashlib.sha256(body).digest() == digest else None

    def _write(self, name: str, content: bytes) -> None:
        try:
            write_whole(self.folder / name, lambda file: file.write(content + hashlib.sha256(content).digest()))
        except OSError as error:
            _warn(self.folder, error.strerror or str(error))
            self.kept[name] = content


@functools.cache
def object_cache(folder: Path) -> ObjectCache:
    """The cache in *folder*, one in a process."""
    return ObjectCache(folder)


@functools.cache
def _warn(folder: Path, reason: str) -> None:
    warnings.warn(
        f"{folder}: the cache folder cannot be written ({reason}), so that nothing compiled is kept for later; "
        "name another with BYOC_CACHE_DIR",
        stacklevel=2,
    )


@contextmanager
def compiler_folder() -> Iterator[Path]:
    """A folder for the files of compilers: in the cache folder, else in that for temporary files.

    Raises UserError where there is room in neither.
    """
    with ExitStack() as stack:
        problems = []
        for parent in (cache_dir() / "work", Path(tempfile.gettempdir())):
            try:
                parent.mkdir(parents=True, exist_ok=True)
                _require_room(parent)
                folder = stack.enter_context(work_folder(parent))
                break
            except OSError as error:
                problems.append(f"{parent} ({error.strerror or error})")
        else:
            raise UserError(
                f"there is no folder for the C compiler to work in: {', '.join(problems)}; make room there, or name "
                "others with BYOC_CACHE_DIR and TMPDIR"
            )
        yield folder


def _require_room(folder: Path) -> None:
    state = os.statvfs(folder)
    if state.f_blocks and state.f_bavail * state.f_frsize < FEWEST_FREE:
        raise OSError(0, f"less than {FEWEST_FREE >> 20} MB are free")
