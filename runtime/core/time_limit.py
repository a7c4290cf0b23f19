"""The time that a run may take: said once by whoever runs, and kept to by everything that the run goes through.

``with time_limit(seconds)`` holds for the thread: executors ask :func:`check_time` between two steps, native code gets
the deadline, and who waits for a device waits :func:`seconds_left` at most. A limit within another is the shorter of
both.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator

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
