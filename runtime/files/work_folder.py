"""Folders for work that needs names on disk, and the locks that hold them: each is removed when its work ends.

Whoever works in a folder holds a lock on it, which the kernel gives back whatever ends the process. A folder of this
form that nobody holds was left by a process that was killed: it goes when the next folder is made beside it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Locks on open files and folders, released by the kernel however their holder ends (``flock``). Without them (a file
# system, a system without ``fcntl``) ``try_lock`` says that somebody holds it.

try:
    import fcntl
except ImportError:
    _HAS_LOCKS = False  # Windows
else:
    _HAS_LOCKS = True


def lock(descriptor: int) -> None:
    """Hold the open file until it is closed; wait for whoever holds it. Without locks, do nothing."""
    if _HAS_LOCKS:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)


def try_lock(descriptor: int) -> bool:
    """Hold the open file unless somebody does; whether it is held now by the caller."""
    if not _HAS_LOCKS:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


PREFIX = "byoc-work-"


@contextmanager
def work_folder(parent: Path) -> Iterator[Path]:
    """A new folder in *parent*, for as long as the context lasts. Raises OSError where none can be made."""
    folder, descriptor = _made(parent)
    process = os.getpid()
    try:
        yield folder
    finally:
        if os.getpid() == process:  # what a forked child leaves is still its parent's
            shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _made(parent: Path) -> tuple[Path, int]:
    """A folder and the descriptor by which it is held."""
    remove_abandoned_folders(parent)
    while True:
        folder = parent / f"{PREFIX}{secrets.token_hex(8)}"
        folder.mkdir(0o700)
        try:
            descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:  # taken for abandoned before it was held
            continue
        lock(descriptor)
        if folder.is_dir():
            return folder, descriptor
        os.close(descriptor)


def remove_abandoned_folders(parent: Path) -> None:
    """Remove the folders of processes that were killed."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for name in [entry.name for entry in entries if entry.name.startswith(PREFIX)]:
            _remove_unless_held(parent / name)


def _remove_unless_held(folder: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
        try:
            if try_lock(descriptor):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)
