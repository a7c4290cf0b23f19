"""The times of a call's kernels and copies, from the device's own clock, which a queue that profiles asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from byoc.runtime.core.device_event import DeviceEvent

if TYPE_CHECKING:
    import pyopencl

Tell = Callable[[Sequence[DeviceEvent]], object]
NANO = 1e-9


class TimedEvents:
    """The events of a call of *symbol* with their names, and when each was put into the queue."""

    def __init__(self, symbol: str):
        self._symbol = symbol
        self._events: list[tuple[str, pyopencl.Event, float, tuple[str, ...], tuple[int, ...]]] = []

    def add(self, name: str, event: pyopencl.Event, nodes: tuple[str, ...] = (), sizes: tuple[int, ...] = ()) -> None:
        """Take an event that was just put into the queue; *nodes* and *sizes* are those of DeviceEvent."""
        self._events.append((name, event, time.perf_counter(), nodes, sizes))

    def told(self) -> list[DeviceEvent]:
        """What happened, for events that are complete: the device says how long after it was queued each began."""
        found = []
        for name, event, queued, nodes, sizes in self._events:
            times = event.profile
            begin = queued + NANO * (times.start - times.queued)
            found.append(DeviceEvent(self._symbol, name, begin, begin + NANO * (times.end - times.start), nodes, sizes))
        return found
