"""Something that a module did, as it reports it to a profiler: a kernel or a copy, with its times."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class EventFacts:
    """What was known of a kernel or a copy before it ran.

    Attributes:
        variant: the schedule that a kernel follows.
        operators: those that it computes a part of.
        dtype: what it computes in.
        operations: its arithmetic on data, a multiply-add being two; None where nobody counted.
        bytes: that it has to read and write, or copies; None where nobody counted.
    """

    variant: str = ""
    operators: tuple[str, ...] = ()
    dtype: str = "float32"
    operations: int | None = None
    bytes: int | None = None


NO_FACTS = EventFacts()


@dataclass(frozen=True)
class EventHeader:
    """What is recorded of an event beside its times, known before it happens."""

    name: str
    nodes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    facts: EventFacts = NO_FACTS


@dataclass(frozen=True)
class DeviceEvent:
    """*name* (a kernel, an operator, ``copy in``) within a call of *symbol*.

    *nodes* are the ONNX nodes that it computes a part of, *sizes* the work-items of a kernel and of a group of them,
    where its module knows them. *begin* and *end* are seconds of ``time.perf_counter`` in this process: a module whose
    device has a clock of its own brings them there. So are *queued*, when the host put it into its queue, and
    *submitted*, when the queue gave it to the device; None where its module does not report them. *queue* names the
    queue of a device in which it stood.
    """

    symbol: str
    name: str
    begin: float
    end: float
    nodes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    queued: float | None = None
    submitted: float | None = None
    queue: str = ""
    facts: EventFacts = NO_FACTS

    def since(self, begin: float) -> DeviceEvent:
        """The event with its times counted from *begin*."""
        queued, submitted = (None if t is None else t - begin for t in (self.queued, self.submitted))
        return replace(self, begin=self.begin - begin, end=self.end - begin, queued=queued, submitted=submitted)

    @property
    def waits(self) -> tuple[float, float]:
        """The seconds in the queue, and those on the device before it began; 0 where its module reports none."""
        submitted = self.begin if self.submitted is None else self.submitted
        return submitted - (submitted if self.queued is None else self.queued), self.begin - submitted
