"""Waiting for a device without giving the process out of hand: for signals, and no longer than the run may take.

The driver's own wait returns when the device is done and not before. So the events are asked first: at once, for so
short that it costs no time. What has not come by then is asked at intervals of a hundredth of what has passed where
somebody may want to stop earlier (the main thread, to which signals go, or a run with a time limit).
"""

from __future__ import annotations

import select
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from byoc.runtime.core.errors import RegionTimeoutError, RunTimeoutError
from byoc.runtime.core.time_limit import LIMIT, time_limit, timed_out
from byoc.runtime.region.seconds import WAIT_VARIABLE, wait_seconds

if TYPE_CHECKING:
    import pyopencl

SPIN_SECONDS = 0.005  # a thread that waits for a GPU turns so long
SHARED_SPIN_SECONDS = 100e-6  # and one whose processor is the device: a sleep takes longer than a small model
SHORTEST, LONGEST = 50e-6, 0.01  # seconds between two polls
_COMPLETE = 0  # CL_COMPLETE; below it stand errors
_MAIN = threading.main_thread().ident


def wait_for(events: Sequence[pyopencl.Event], where: str, spins: bool) -> None:
    """Return when all *events* are complete.

    Raises RunTimeoutError, saying *where*, when the time of this thread's run is over, RegionTimeoutError where it has
    no limit and the device hangs, pyopencl's error where it has failed, and whatever a signal's handler raises.
    """
    start = time.monotonic()
    end, between = (start + SPIN_SECONDS, _let_others_run) if spins else (start + SHARED_SPIN_SECONDS, _sleep)
    for event in events:
        if not is_complete(event):  # a driver need not begin before its queue is flushed, which asking does not do
            event.command_queue.flush()
    if not all(_comes(event, end, between, where) for event in events):
        _wait_longer(events, where, start)
    for event in events:
        event.wait()


def _wait_longer(events: Sequence[pyopencl.Event], where: str, start: float) -> None:
    """As :func:`wait_for`, for *events* that have not come in the time since *start* that costs nothing."""
    seconds = None if LIMIT.deadline else wait_seconds()
    if seconds is None:
        if LIMIT.deadline or threading.get_ident() == _MAIN:
            for event in events:
                _ask(event, where, start)
        return
    try:
        with time_limit(seconds):
            for event in events:
                _ask(event, where, start)
    except RunTimeoutError as error:
        text = f"{where} for longer than the {WAIT_VARIABLE}, {seconds:g} s, that a wait may take: it hangs"
        raise RegionTimeoutError(text) from error


def is_complete(event: pyopencl.Event) -> bool:
    """Whether *event* has come, or failed."""
    return event.command_execution_status <= _COMPLETE


def _sleep() -> None:
    """Leave the processor for as short as Python can: 50 microseconds and more, for a device that is the processor."""
    time.sleep(0)


def _let_others_run() -> None:
    """Let Python's other threads run, and come back at once: a sleep of 0 takes as long as many a small model."""
    if sys.platform == "win32":
        time.sleep(0)
    else:
        select.select((), (), (), 0)


def _comes(event: pyopencl.Event, end: float, between: Callable[[], None], where: str) -> bool:
    """Ask until *event* has come, or the clock says *end*, with *between* two times; whether it has."""
    while not is_complete(event):
        _check_time(where)
        if time.monotonic() >= end:
            return False
        between()
    return True


def _ask(event: pyopencl.Event, where: str, start: float) -> None:
    """Ask until *event* has come, which was waited for since *start*."""
    while not is_complete(event):
        _check_time(where)
        time.sleep(min(max((time.monotonic() - start) / 100, SHORTEST), LONGEST))


def _check_time(where: str) -> None:
    if LIMIT.deadline and time.monotonic_ns() >= LIMIT.deadline:
        raise timed_out(f" while {where}")
