"""What this thread started on a device and has not waited for: a clock around a call that leaves work there is wrong.

A device works while the host goes on, so a timer that stops when a call comes back, and not when its work is done,
measures how long it takes to put work into a queue. Whoever starts work on a device begins a ticket here, and ends it
when somebody has waited for that work; whoever times calls asks that nothing was left.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from byoc.runtime.core.errors import UserError


class Ticket:
    """One piece of work of the thread that started it; any thread may end it, more than once too."""

    __slots__ = ("_count", "_is_open")

    def __init__(self, count: list[int]):
        self._count, self._is_open = count, True
        count[0] += 1

    def end(self) -> None:
        """Somebody has waited for the work, or has given it up."""
        if self._is_open:
            self._is_open = False
            self._count[0] -= 1


class _Local(threading.local):
    def __init__(self) -> None:
        self.count = [0]


_LOCAL = _Local()


def begin_work() -> Ticket:
    """Begin to count work that this thread starts on a device."""
    return Ticket(_LOCAL.count)


@contextmanager
def timed_to_the_end(what: str) -> Iterator[None]:
    """Around calls of *what* that a clock is held against.

    Raises UserError where they leave work on a device for which nobody has waited.
    """
    before = _LOCAL.count[0]
    yield
    left = _LOCAL.count[0] - before
    if left > 0:
        raise UserError(
            f"timing {what}: it came back while {left} of the calls that it started on a device had not been waited "
            "for, so a clock would measure how long putting them into a queue takes; wait for what it starts, or use "
            "library.profile, which asks the device"
        )
