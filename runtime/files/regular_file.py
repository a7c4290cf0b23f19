"""Opening a file that a user names: a regular file alone, found out before anything is opened.

Reading a pipe, a terminal or a socket may never end, and opening a device may do something. So the kind is asked first,
and again of what was opened, since a name may come to mean another thing in between. Errors are ``OSError``, whose
``strerror`` goes into the caller's sentence.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

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
