"""Reading regular files, and writing a file whole or not at all, with nothing left beside it.

The content goes into a file without a name (``O_TMPFILE``), which the kernel forgets with the process. It gets the
name that is wanted in one step where that is free; else a name beside it first, and is renamed, for the kernel has no
step that links over a file. Where a file system has no files without names, the file has such a name from the
beginning. Whoever writes holds a lock (``flock``) on it: a file of that form that nobody holds was left by a process
that was killed, and goes when the next process writes into the folder.

Readers see the old file or the new one, and whoever has the old one open or mapped keeps it.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import io
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from byoc.runtime.files.work_folder import lock, try_lock

# Opening a file that a user names, a regular file alone: reading a pipe, a terminal or a socket may never end, and
# opening a device may have effects. The kind is checked first, and again of what was opened. Errors are ``OSError``,
# whose ``strerror`` goes into the caller's sentence.

_KINDS = (
    (stat.S_ISFIFO, "it is a pipe, whose end may never come; write what it gives to a file, and name that"),
    (stat.S_ISSOCK, "it is a socket, not a file"),
    (stat.S_ISCHR, "it is a device, not a file"),
    (stat.S_ISBLK, "it is a device, not a file"),
)
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class NotAFileError(OSError):
    """What a name stands for is neither a file nor a folder."""


def open_file(path: str | os.PathLike[str]) -> io.BufferedReader:
    """The regular file at *path*, open for reading bytes.

    Raises IsADirectoryError for a folder, NotAFileError for a pipe, socket or device, OSError for what cannot be read.
    """
    _require_regular(_status(path).st_mode, path)
    file = os.fdopen(os.open(path, _FLAGS), "rb")
    try:
        _require_regular(os.fstat(file.fileno()).st_mode, path)
    except OSError:
        file.close()
        raise
    return file


def read_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of the regular file at *path*. Raises as :func:`open_file`."""
    with open_file(path) as file:
        return file.read()


def read_text(path: str | os.PathLike[str], encoding: str = "utf-8") -> str:
    """The text of the regular file at *path*. Raises as :func:`open_file`, and UnicodeDecodeError."""
    return read_file(path).decode(encoding)


def require_writable_kind(path: str | os.PathLike[str]) -> None:
    """Refuse to put a file in the place of what is none.

    Raises IsADirectoryError for a folder, NotAFileError for a pipe, socket or device; nothing at *path* is fine.
    """
    try:
        mode = _status(path).st_mode
    except (FileNotFoundError, NotADirectoryError):  # the latter says so when it is written
        return
    _require_regular(mode, path)


def _status(path: str | os.PathLike[str]) -> os.stat_result:
    try:
        return os.stat(path)
    except ValueError as error:
        raise OSError(errno.EINVAL, "the name has a null character", repr(path)) from error


def _require_regular(mode: int, path: str | os.PathLike[str]) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(Path(path)))
    for is_kind, sentence in _KINDS:
        if is_kind(mode):
            raise NotAFileError(errno.EINVAL, sentence, str(Path(path)))


_MODE = 0o666  # less what the user's umask takes away
_LONGEST_NAME = 200  # bytes, of 255, so that there is room for what makes a name of a part
_PART = re.compile(r".+\.byoc[0-9a-f]{16}\.part$")
_NAMELESS = getattr(os, "O_TMPFILE", 0)
_OWN_DESCRIPTORS = "/proc/self/fd"

Write = Callable[[BinaryIO], object]


def write_whole(path: Path, write: Write) -> None:
    """Let *write* fill the file at *path*, which appears when it is whole. It may be called twice.

    Raises OSError where that fails, IsADirectoryError and NotAFileError where something else than a file is there;
    nothing is left then.
    """
    require_writable_kind(path)
    remove_abandoned(path.parent)
    if not (_NAMELESS and os.path.isdir(_OWN_DESCRIPTORS) and _write_nameless(path, write)):
        _write_named(path, write)


def _write_nameless(path: Path, write: Write) -> bool:
    """As :func:`write_whole`; False where the file system has no such files."""
    try:
        descriptor = os.open(path.parent, os.O_RDWR | _NAMELESS | os.O_CLOEXEC, _MODE)
    except OSError:  # with many errors, by the file system's age; a file with a name says what is wrong
        return False
    with os.fdopen(descriptor, "wb") as file:
        write(file)
        file.flush()
        return _give_name(descriptor, path)


def _give_name(descriptor: int, path: Path) -> bool:
    source = f"{_OWN_DESCRIPTORS}/{descriptor}"
    with contextlib.suppress(FileExistsError):
        return _linked(source, path, descriptor)
    part = part_of(path)
    lock(descriptor)  # until it is closed, which is behind the renaming
    if not _linked(source, part, descriptor):
        return False
    with _removed_on_error(part):
        os.replace(part, path)
    return True


def _linked(source: str, path: Path, descriptor: int) -> bool:
    """Give an open file a name; False where the file system refuses that. Raises FileExistsError."""
    try:
        os.link(source, path, src_dir_fd=descriptor, follow_symlinks=True)  # with src_dir_fd: by linkat, which follows
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def _write_named(path: Path, write: Write) -> None:
    while True:
        part = part_of(path)
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), _MODE)
        with os.fdopen(descriptor, "wb") as file, _removed_on_error(part):
            lock(descriptor)
            if not part.exists():  # taken for abandoned before it was locked
                continue
            write(file)
            file.flush()
            os.replace(part, path)
            return


@contextlib.contextmanager
def _removed_on_error(part: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:  # also when the user interrupts it
        part.unlink(missing_ok=True)
        raise


def part_of(path: Path) -> Path:
    """A new name beside *path* for a file that becomes it."""
    name = path.name
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return path.with_name(f"{name}.byoc{secrets.token_hex(8)}.part")


@functools.lru_cache(maxsize=64)
def remove_abandoned(folder: Path) -> None:
    """Remove what processes that were killed left in *folder*; once a process, since folders may be large."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if _PART.match(entry.name)]:
            _remove_unless_held(folder / name)


def _remove_unless_held(part: Path) -> None:
    with contextlib.suppress(OSError), part.open("rb") as file:
        if try_lock(file.fileno()):
            part.unlink(missing_ok=True)
