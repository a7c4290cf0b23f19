"""The time that a run may take, said once and kept to by all that it goes through; and how long compilers may take.

``with time_limit(seconds)`` holds for the thread: executors ask :func:`check_time` between two steps, native code gets
the deadline, and who waits for a device waits :func:`seconds_left` at most. A limit within another is the shorter of
both.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from byoc.runtime.core.errors import RunTimeoutError, UserError

PATIENCE = 0.02  # seconds


class _Limit(threading.local):
    """Of one thread: the nanosecond of the monotonic clock at which its run is over, or 0, and what was asked for."""

    deadline = 0
    seconds = 0.0


LIMIT = _Limit()


@contextlib.contextmanager
def time_limit(seconds: object) -> Iterator[None]:
    """Let what is run inside take *seconds* at most; None sets no limit.

    Raises UserError for anything but a number above 0.
    """
    given = check_timeout(seconds)
    if given is None:
        yield
        return
    before = LIMIT.deadline, LIMIT.seconds
    wanted = float(given)
    deadline = time.monotonic_ns() + int(min(wanted, 1e9) * 1e9)
    if not before[0] or deadline < before[0]:
        LIMIT.deadline, LIMIT.seconds = deadline, wanted
    try:
        yield
    finally:
        LIMIT.deadline, LIMIT.seconds = before


def check_timeout(seconds: object) -> float | None:
    """A timeout as it is given. Raises UserError for one that is no number of seconds above 0; None is none."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0 or math.isnan(seconds):
        raise UserError(f"timeout is a number of seconds above 0, or None for as long as it takes, got {seconds!r}")
    return seconds


def seconds_left() -> float | None:
    """How long this thread's run may still take, at least 0; None where it has no limit."""
    deadline = LIMIT.deadline
    return max(deadline - time.monotonic_ns(), 0) / 1e9 if deadline else None


def check_time() -> None:
    """Raises RunTimeoutError when the time of this thread's run is over."""
    deadline = LIMIT.deadline
    if deadline and time.monotonic_ns() >= deadline:
        raise timed_out()


def patience(error: BaseException) -> float | None:
    """How many seconds a run that ends with *error* waits for what is still at work: None for as long as it takes.

    Little where somebody wants an end now.
    """
    return PATIENCE if isinstance(error, RunTimeoutError) or not isinstance(error, Exception) else None


def timed_out(where: str = "") -> RunTimeoutError:
    """The error of a run whose time is over; *where* says what it was waiting for."""
    return RunTimeoutError(
        f"the run took longer than its timeout of {LIMIT.seconds:g} s{where} and was ended: "
        "give it more time, or a smaller input"
    )


LIMIT_VARIABLE = "BYOC_COMPILER_SECONDS"
LIMIT_SECONDS = 300.0

Result = TypeVar("Result")


class TimeLimitError(Exception):
    """A call did not end in time; the text says how long that was."""


def compiler_seconds() -> float:
    """The seconds that one call of a compiler may take. Raises UserError where the variable is no such number."""
    text = os.environ.get(LIMIT_VARIABLE, "").strip()
    try:
        seconds = float(text) if text else LIMIT_SECONDS
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UserError(f"${LIMIT_VARIABLE} is a number of seconds above 0, got {text!r}")
    return seconds


def bounded(function: Callable[[], Result], seconds: float) -> Result:
    """What *function* gives or raises. It runs in a thread of its own, which is left where it is at the limit.

    Raises TimeLimitError when it does not end in time. Where the system gives no thread, there is no limit.
    """
    call = _Call(function)
    try:
        call.thread.start()
    except RuntimeError:
        return function()
    call.thread.join(seconds)
    if call.thread.is_alive():
        raise TimeLimitError(f"did not end within {seconds:g} s")
    if call.error is not None:
        raise call.error
    return call.results[0]


class _Call(Generic[Result]):
    """A call in a thread that does not keep the process from ending."""

    def __init__(self, function: Callable[[], Result]):
        self.function = function
        self.results: list[Result] = []
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="byoc-bounded", daemon=True)

    def _run(self) -> None:
        try:
            self.results.append(self.function())
        except BaseException as error:  # raised again by whoever waits
            self.error = error
