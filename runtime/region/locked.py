"""One thread at a time in the code of a vendor whose modules are not for several (``Module.thread_safe``)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from byoc.runtime.core.errors import RegionTimeoutError
from byoc.runtime.core.fork import new_rlock
from byoc.runtime.core.time_limit import seconds_left, timed_out
from byoc.runtime.region.vendor_time_limit import keeps_time


class Lock(Protocol):
    """What ``threading.RLock`` makes."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


Result = TypeVar("Result")

_LOCKS: dict[str, Lock] = {}
_MAKING = threading.Lock()


def lock_of(type_key: str) -> Lock:
    """The lock that all modules of a type share in this process: what they call may be one library."""
    with _MAKING:
        if type_key not in _LOCKS:
            _LOCKS[type_key] = new_rlock()
        return _LOCKS[type_key]


@contextlib.contextmanager
def held(lock: Lock | None, where: str, seconds: float | None) -> Iterator[None]:
    """With *lock*, where there is one, waited for no longer than *seconds* and the run may take.

    Raises RunTimeoutError, RegionTimeoutError: another call held it all the time, one that hangs perhaps.
    """
    if lock is None:
        yield
        return
    left = seconds_left()
    if seconds is not None and (left is None or seconds < left):
        if not lock.acquire(timeout=seconds):
            raise RegionTimeoutError(
                f"it waited longer than the {seconds:g} s that it may take for another call of its library, which "
                "takes one at a time"
            )
    elif not lock.acquire(timeout=-1 if left is None else max(left, 0)):
        raise timed_out(f" while {where}")
    try:
        yield
    finally:
        lock.release()


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
