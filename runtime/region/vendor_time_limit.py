"""A vendor's call or wait that knows no time limit, kept to that of the run."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from byoc.runtime.core.errors import RegionTimeoutError, RunAgainError, RunTimeoutError
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
        abandon(helper.is_done, work)
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
        self.thread = threading.Thread(target=self._run, daemon=True)

    def is_done(self) -> bool:
        """Whether the work has ended."""
        return not self.thread.is_alive()

    def _run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:  # raised again where it is waited for
            self.error = error
        finally:
            self.done.release()
