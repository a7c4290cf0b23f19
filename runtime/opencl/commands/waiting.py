"""Waiting for a device without giving the process out of hand: for signals, and no longer than the run may take.

The driver's own wait returns when the device is done and not before. Where somebody may want to stop earlier (the main
thread, to which signals go, or a run with a time limit), the events are asked instead: at once on a device of its own,
for so short that it costs no time, then at intervals of a hundredth of what has passed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
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
    seconds = None if LIMIT.deadline else wait_seconds()
    if seconds is not None:
        try:
            with time_limit(seconds):
                return wait_for(events, where, spins)
        except RunTimeoutError as error:
            text = f"{where} for longer than the {WAIT_VARIABLE}, {seconds:g} s, that a wait may take: it hangs"
            raise RegionTimeoutError(text) from error
    if LIMIT.deadline or threading.get_ident() == _MAIN:
        for event in events:
            _ask(event, where, spins)
    for event in events:
        event.wait()


def is_complete(event: pyopencl.Event) -> bool:
    """Whether *event* has come, or failed."""
    return event.command_execution_status <= _COMPLETE


def _ask(event: pyopencl.Event, where: str, spins: bool) -> None:
    """Ask until *event* has come. A driver need not begin before its queue is flushed, which asking does not do."""
    if is_complete(event):
        return
    event.command_queue.flush()
    start, spin = time.monotonic(), SPIN_SECONDS if spins else SHARED_SPIN_SECONDS
    while not is_complete(event):
        if LIMIT.deadline and time.monotonic_ns() >= LIMIT.deadline:
            raise timed_out(f" while {where}")
        passed = time.monotonic() - start
        time.sleep(0 if passed < spin else min(max(passed / 100, SHORTEST), LONGEST))
