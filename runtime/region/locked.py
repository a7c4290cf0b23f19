"""One thread at a time in the code of a vendor whose modules are not for several (``Module.thread_safe``)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from byoc.runtime.core.fork import new_rlock
from byoc.runtime.region.in_time import keeps_time

Lock = AbstractContextManager[object]
Result = TypeVar("Result")

_LOCKS: dict[str, Lock] = {}
_MAKING = threading.Lock()


def lock_of(type_key: str) -> Lock:
    """The lock that all modules of a type share in this process: what they call may be one library."""
    with _MAKING:
        if type_key not in _LOCKS:
            _LOCKS[type_key] = new_rlock()
        return _LOCKS[type_key]


class LockedCall(Generic[Result]):
    """*work* with *lock* held: on the thread that does it, so that who waits for it may have a time limit."""

    def __init__(self, work: Callable[[], Result], lock: Lock):
        self._work, self._lock = work, lock
        self.keeps_time = keeps_time(work)

    def __call__(self) -> Result:
        with self._lock:
            return self._work()


def locked(work: Callable[[], Result], lock: Lock | None) -> Callable[[], Result]:
    """*work*, with *lock* where there is one."""
    return work if lock is None else LockedCall(work, lock)
