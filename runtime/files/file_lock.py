"""Locks on open files and folders that the kernel gives back when their holder ends, however it ends (``flock``).

A file system without locks, and a system without ``fcntl``, grants none: ``try_lock`` then says that somebody holds it.
"""

from __future__ import annotations

import contextlib

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
