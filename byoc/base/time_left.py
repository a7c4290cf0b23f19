"""How long a number of pieces will still take, as those before them took."""

from __future__ import annotations

import time

LEAST_SECONDS, LEAST_PIECES = 5.0, 10  # before which there is no estimate


def spelled(seconds: float) -> str:
    """Seconds for a reader who waits.

    >>> [spelled(n) for n in (4, 59.6, 90, 660, 7300)]
    ['4 s', '60 s', '90 s', '11 min', '2.0 h']
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"


class TimeLeft:
    """What is left of *total* pieces, which begin now."""

    def __init__(self, total: int):
        self._total, self._start = total, time.monotonic()

    def text(self, done: int) -> str:
        """``, about 11 min left``, when *done* pieces are done; empty where too few are to say it."""
        passed = time.monotonic() - self._start
        if passed < LEAST_SECONDS or done < LEAST_PIECES or done >= self._total:
            return ""
        return f", about {spelled(passed / done * (self._total - done))} left"
