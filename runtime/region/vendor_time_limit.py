"""A vendor's call or wait that knows no time limit, kept to that of the run."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from byoc.runtime.core.errors import RegionTimeoutError, RunAgainError, RunTimeoutError
from byoc.runtime.core.fork import new_rlock
from byoc.runtime.core.time_limit import LIMIT, seconds_left, time_limit, timed_out
from byoc.runtime.region.abandoned_work import abandon

Result = TypeVar("Result")


def within_time_limit(work: Callable[[], Result], where: str, seconds: float | None = None) -> Result:
    """What *work* gives; where the run has a time limit, on a thread that is left behind when the time is over.

    What says ``keeps_time = True`` (it asks ``time_limit`` itself) is called as it is.

    Args:
        work: what a vendor does.
        where: what is waited for, for the message.
        seconds: what the work itself may take; None for as long as the run.

    Raises:
        RunTimeoutError: the run's time is over.
        RegionTimeoutError: the work's time is.
    """
    if seconds is None:
        return _limited(work, where) if LIMIT.deadline else work()
    left = seconds_left()
    if left is not None and left <= seconds:
        return _limited(work, where)
    with time_limit(seconds):
        try:
            return _limited(work, where)
        except RegionTimeoutError:
            raise
        except RunTimeoutError as error:
            raise RegionTimeoutError(f"it took longer than the {seconds:g} s that it may take") from error


def _limited(work: Callable[[], Result], where: str) -> Result:
    """What *work* gives within the time limit of this thread."""
    if keeps_time(work):
        return work()
    helper = _Helper(work)
    helper.thread.start()
    if not helper.done.acquire(timeout=seconds_left() or 0):
        helper.leave()
        raise timed_out(f" while {where}")
    if helper.error is not None:
        raise helper.error
    return helper.result


def run_again(run: Callable[[], Result], regions: int) -> Result:
    """What *run* gives; it is made again where a region's time was over and the host has that region from now on.

    The memory of the run before may still be in use: who calls this takes other memory. There are so many *regions*.
    """
    for _ in range(regions):
        try:
            return run()
        except RunAgainError:
            continue
    return run()


def keeps_time(work: object) -> bool:
    """Whether *work*, a function, a method or a call that is prepared, asks for the time itself."""
    while isinstance(work, functools.partial):
        work = work.args[0] if work.args and hasattr(work.args[0], "keeps_time") else work.func
    return bool(getattr(getattr(work, "__self__", work), "keeps_time", False))


class _Helper(Generic[Result]):
    result: Result  # once it is done and there is no error

    def __init__(self, work: Callable[[], Result]):
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()
        self._work = work
        self._is_left = False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def is_done(self) -> bool:
        """Whether the work has ended."""
        return not self.thread.is_alive()

    @property
    def is_gone(self) -> bool:
        """Whether nobody does the work any more, though it has not ended: this process was forked meanwhile."""
        return self.is_done() and self.done.locked()

    def leave(self) -> None:
        """Have nobody wait for it any more."""
        if not self._is_left:
            self._is_left = True
            abandon(self.is_done, self._work)

    def _run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:  # raised again where it is waited for
            self.error = error
        finally:
            self.done.release()


class SharedWork(Generic[Result]):
    """Work of a vendor that is done once, whichever thread asks for it first; others wait for the same.

    Each waits no longer than its own time limit, and what is left behind then is joined by whoever asks next: there is
    never a second try beside one that goes on. Work that raised is done again.
    """

    keeps_time = True

    def __init__(self, work: Callable[[], Result], where: str):
        self._work, self._where = work, where
        self._lock = new_rlock()
        self._helper: _Helper[Result] | None = None
        self._results: list[Result] = []

    def __call__(self) -> Result:
        """What the work gives. Raises RunTimeoutError when this thread's time is over, and what the work raises."""
        if self._results:
            return self._results[0]
        left = seconds_left()
        if not self._lock.acquire(timeout=-1 if left is None else left):
            raise timed_out(f" while {self._where}")
        try:
            if not self._results:
                self._results.append(self._done())
            return self._results[0]
        finally:
            self._lock.release()

    @property
    def has_result(self) -> bool:
        """Whether it is done."""
        return bool(self._results)

    @property
    def is_under_way(self) -> bool:
        """Whether it goes on, on a thread of its own."""
        return self._helper is not None and not self._helper.is_done()

    def _done(self) -> Result:
        """What the work gives: on this thread where it has no time limit and the work is not under way already."""
        helper, left = self._helper, seconds_left()
        if helper is None or helper.is_gone:
            if left is None:
                self._helper = None
                return self._work()
            helper = _Helper(self._work)
            helper.thread.start()
            self._helper = helper
        if not helper.done.acquire(timeout=-1 if left is None else left):
            helper.leave()
            raise timed_out(f" while {self._where}")
        self._helper = None
        if helper.error is not None:
            raise helper.error
        return helper.result
