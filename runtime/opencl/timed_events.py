"""The times of a call's kernels and copies, from the device's own clock, which a queue that profiles asks.

A device's clock begins where it likes. Each event of a call was put into the queue at a moment that the host's clock
saw a little later; the smallest difference between both is taken for all events of the call, so that they lie to each
other as the device says. Source: OpenCL 1.2, section 5.12 (profiling of events).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from byoc.runtime.core.device_event import DeviceEvent, EventFacts, EventHeader
from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.opencl.launches import Launch, Variant
from byoc.runtime.opencl.numbers import Number, counted

if TYPE_CHECKING:
    import pyopencl

OnTimes = Callable[[Sequence[DeviceEvent]], object]
NANO = 1e-9
Times = tuple[int, int, int, int]  # queued, submitted, started, ended: nanoseconds of the device


def header_of_launch(launch: Launch, variant: Variant, shape: tuple[int, ...], sizes: Mapping[str, int]) -> EventHeader:
    """Of the kernel that *variant* is, launched with the sizes *shape* (global, local) for a call with *sizes*."""
    work = launch.work
    if work is None:
        return EventHeader(variant.kernel, launch.nodes, shape, EventFacts(variant.schedule))
    counts = _count(work.operations, sizes), _count(work.bytes, sizes)
    return EventHeader(
        variant.kernel, launch.nodes, shape, EventFacts(variant.schedule, work.operators, work.dtype, *counts)
    )


def _count(number: Number, sizes: Mapping[str, int]) -> int | None:
    """The value of *number* as a count, for a profile; None where it cannot be one."""
    try:
        return counted(number, sizes)
    except ArtifactError:
        return None


def header_of_copy(name: str, nbytes: int) -> EventHeader:
    """Of a copy between host and device."""
    return EventHeader(name, facts=EventFacts(bytes=nbytes))


class TimedEvents:
    """The events of a call of *symbol* with what is recorded of them, and when each was put into the queue *queue*."""

    def __init__(self, symbol: str, queue: str = "", clock: Callable[[], float] = time.perf_counter):
        self._symbol, self._queue, self._clock = symbol, queue or symbol, clock
        self._events: list[tuple[EventHeader, pyopencl.Event, float]] = []

    def add(self, header: EventHeader, event: pyopencl.Event) -> None:
        """Take an event that was just put into the queue."""
        self._events.append((header, event, self._clock()))

    def events(self) -> list[DeviceEvent]:
        """What happened, for events that are complete, in the order in which they were put into the queue.

        Raises pyopencl's error where the driver reports no times.
        """
        found = [(header, _times(event), seen) for header, event, seen in self._events]
        if not found:
            return []
        first = min(times[0] for _, times, _ in found)  # clocks count from far away: differences keep their digits
        begin = min(seen - NANO * (times[0] - first) for _, times, seen in found)
        begin = min(begin, self._clock() - NANO * (max(times[3] for _, times, _ in found) - first))
        return [self._event(header, [begin + NANO * (t - first) for t in times]) for header, times, _ in found]

    def _event(self, header: EventHeader, seconds: Sequence[float]) -> DeviceEvent:
        queued, submitted, begin, end = seconds
        return DeviceEvent(
            self._symbol,
            header.name,
            begin,
            end,
            header.nodes,
            header.sizes,
            queued,
            submitted,
            self._queue,
            header.facts,
        )


def _times(event: pyopencl.Event) -> Times:
    """The times of *event*, none before the one that it follows, whatever the driver says."""
    profile = event.profile
    queued, submitted, begin, end = (int(t) for t in (profile.queued, profile.submit, profile.start, profile.end))
    queued = queued or submitted or begin  # a driver that does not know one says 0
    submitted = min(max(submitted, queued), max(begin, queued))
    begin = max(begin, submitted)
    return queued, submitted, begin, max(end, begin)
