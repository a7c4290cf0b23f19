"""A vendor's call or wait that knows no time limit, kept to that of the run."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from byoc.runtime.core.time_limit import LIMIT, seconds_left, timed_out
from byoc.runtime.region.left_behind import leave_behind

Result = TypeVar("Result")


def in_time(work: Callable[[], Result], where: str) -> Result:
    """What *work* gives; where the run has a time limit, on a thread that is left behind when the time is over.

    What says ``keeps_time = True`` (it asks ``time_limit`` itself) is called as it is. Raises RunTimeoutError, which
    says *where*, and whatever the work raises.
    """
    if not LIMIT.deadline or keeps_time(work):
        return work()
    helper = _Helper(work)
    helper.thread.start()
    if not helper.done.acquire(timeout=seconds_left() or 0):
        leave_behind(helper.is_done, work)
        raise timed_out(f" while {where}")
    if helper.error is not None:
        raise helper.error
    return helper.result


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
