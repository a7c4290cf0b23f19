"""What a forked process does first: locks that a thread of its parent held are free again, for that thread is not here.

``new_lock`` and ``new_rlock`` stand for ``threading``'s in objects that live across a fork. Functions given to
``in_child`` are called in the child too, in their order, before anything else of ours runs there. ``OwnProcess``
refuses what a child cannot do.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from byoc.runtime.core.errors import DeviceError


class _AtFork:
    """What is done in a child: registered with Python once."""

    def __init__(self) -> None:
        self.generation = 0  # how many forks lie between the first process and this one
        self.locks: weakref.WeakSet[Any] = weakref.WeakSet()  # locks, whose methods for this are Python's own
        self.functions: list[Callable[[], None]] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self)

    def __call__(self) -> None:
        self.generation += 1
        for lock in list(self.locks):
            lock._at_fork_reinit()
        for function in self.functions:
            function()


@functools.cache
def _at_fork() -> _AtFork:
    return _AtFork()


def new_lock() -> threading.Lock:
    """A lock that is free in a forked child, whoever held it in the parent."""
    lock = threading.Lock()
    _at_fork().locks.add(lock)
    return lock


def new_rlock() -> threading.RLock:  # a function in older typing
    """As :func:`new_lock`, for a lock that its holder may take again."""
    lock = threading.RLock()
    _at_fork().locks.add(lock)
    return lock


def in_child(function: Callable[[], None]) -> None:
    """Call *function* in each process that is forked from this one."""
    _at_fork().functions.append(function)


class OwnProcess:
    """The process that made this object, for what does not work in a child of it: *reason* says why, and what to do."""

    def __init__(self, reason: str):
        self._forks = _at_fork()
        self._generation, self._reason = self._forks.generation, reason

    @property
    def is_this(self) -> bool:
        """Whether this is no child of it."""
        return self._forks.generation == self._generation  # a call of the system for its number costs more

    def require(self) -> None:
        """Raises DeviceError in a child of it."""
        if self._forks.generation != self._generation:
            raise DeviceError(self._reason)
