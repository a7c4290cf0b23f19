"""Waits for devices, which end: by what comes, by their own time-out, or by the end of the run that waits.

A wait in the main thread is done in short pieces, so that signals are seen.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from byoc.runtime.core.errors import DeviceTimeoutError, UserError
from byoc.runtime.core.time_limit import seconds_left, timed_out
from byoc.runtime.region.seconds import WAIT_VARIABLE, wait_seconds

PIECE = 0.05  # seconds between two looks at the limits
SHORTEST, LONGEST = 20e-6, 0.005  # seconds between two polls of a device


def wait_until(arrived: Callable[[float], bool], where: str, timeout: float | None = None) -> None:
    """Return when ``arrived(seconds)``, which waits so long at most, says that it has come.

    Args:
        arrived: asked again and again; what it raises is raised.
        where: what is done meanwhile, for the messages: ``waiting for npu0``.
        timeout: seconds, 0 to ask once; None for ``$BYOC_WAIT_SECONDS``, or as long as this thread's run may take.

    Raises:
        DeviceTimeoutError: the time-out is over.
        RunTimeoutError: the time of this thread's run is.
        UserError: a time-out that is no number of seconds.
    """
    checked_timeout(timeout)
    own = timeout
    if own is None and seconds_left() is None:
        own = wait_seconds()
    end = math.inf if own is None else time.monotonic() + own
    while True:
        left = end - time.monotonic()
        run_left = seconds_left()
        if arrived(max(min(left, PIECE, math.inf if run_left is None else run_left), 0.0)):
            return
        if seconds_left() == 0:
            raise timed_out(f" while {where}")
        if time.monotonic() >= end:
            said = f"${WAIT_VARIABLE}" if timeout is None else "the time-out"
            raise DeviceTimeoutError(f"{where} took longer than {said} of {own:g} s: it hangs, or needs more time")


def checked_timeout(timeout: object) -> None:
    """Raises UserError for a *timeout* that is neither None nor a number of seconds of at least 0."""
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout >= 0:
        raise UserError(f"a time-out is a number of seconds, or None, got {timeout!r}")


def sleeping(is_done: Callable[[], bool]) -> Callable[[float], bool]:
    """What :func:`wait_until` asks, of *is_done*, which is asked at intervals that grow."""

    def arrived(seconds: float) -> bool:
        start = time.monotonic()
        while not is_done():
            passed = time.monotonic() - start
            if passed >= seconds:
                return False
            time.sleep(min(max(passed / 50, SHORTEST), LONGEST, seconds - passed))
        return True

    return arrived
