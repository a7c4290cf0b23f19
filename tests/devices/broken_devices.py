"""Devices with one fault each, for the checks to find: the emulated one with a method that is wrong."""

import threading
import time

import numpy as np

from byoc.runtime import DeviceError
from byoc.runtime.devices.device_api import DeviceMemory
from byoc.runtime.devices.emulated import EmulatedDevice, EmulatedEvent
from byoc.runtime.devices.emulation import Emulation


class Broken(EmulatedDevice):
    """An emulated device with a little memory, so that checks are quick."""

    settings = "memory=16000000"

    def __init__(self):
        super().__init__(Emulation.read(self.settings))

    @classmethod
    def open(cls, settings=""):
        return cls()


class LosesEvents(Broken):
    def record(self, stream):
        return EmulatedEvent(self)


class SignalsEarly(Broken):
    settings = "memory=16000000,seconds=0.002"

    def record(self, stream):
        event = EmulatedEvent(self)
        event.flag.set()
        return event


class NeedsAWaitToBeDone(Broken):
    """As a driver that begins nothing before somebody waits."""

    def is_done(self, event):
        return hasattr(event, "waited") and super().is_done(event)

    def wait(self, event, timeout=None):
        super().wait(event, timeout)
        event.waited = True


class LiesOfCopiesIn(Broken):
    settings = "memory=16000000,corrupt=copy_in@10"


class LiesOfCopiesOut(Broken):
    settings = "memory=16000000,corrupt=copy_out@10"


class DropsCopiesOut(Broken):
    def copy_out(self, stream, target, source, offset=0):
        self._part(source, offset, target.nbytes)


class IgnoresOffsets(Broken):
    def copy_in(self, stream, target, source, offset=0):
        super().copy_in(stream, target, source)


class WritesToTheHost(Broken):
    def copy_in(self, stream, target, source, offset=0):
        super().copy_in(stream, target, source, offset)
        self.wait(self.record(stream))
        source.flags.writeable = True
        source.view(np.uint8)[:1] ^= 255


class CopiesAtOnce(Broken):
    """A copy in that does not stand in its stream."""

    settings = "memory=16000000,seconds=0.005"

    def copy_in(self, stream, target, source, offset=0):
        self._part(target, offset, source.nbytes)[...] = source.reshape(-1).view(np.uint8)


class IgnoresOtherStreams(Broken):
    settings = "memory=16000000,seconds=0.002"

    def wait_for(self, stream, event):
        pass


class IgnoresTimeOuts(Broken):
    def wait(self, event, timeout=None):
        event.flag.wait()
        event.has_come()

    def synchronize(self, timeout=None):
        for stream in list(self._streams):
            self.wait(self.record(stream))


class IgnoresTheRunsTime(Broken):
    """Only where it is given no time-out of its own."""

    def wait(self, event, timeout=None):
        if timeout is None:
            event.flag.wait()
        super().wait(event, timeout)


class SynchronizesNothing(Broken):
    settings = "memory=16000000,seconds=0.002"

    def synchronize(self, timeout=None):
        self._check_usable()


class TakesFreedMemory(Broken):
    def free(self, memory):
        pass


class KeepsFreedMemory(Broken):
    def free(self, memory):
        used = self._used
        super().free(memory)
        self._used = used


class SharesMemory(Broken):
    """All allocations stand at one place."""

    def allocate(self, nbytes):
        memory = super().allocate(nbytes)
        whole = self.__dict__.setdefault("whole", np.empty(self.emulation.memory, np.uint8))
        self._memories[memory.handle] = whole[:nbytes]
        return memory


class WritesBehindMemory(Broken):
    """Takes copies that reach outside, and cuts them."""

    def _part(self, memory, offset, nbytes):
        nbytes = max(min(nbytes, memory.nbytes - offset), 0)
        return super()._part(memory, max(offset, 0), nbytes)

    def copy_in(self, stream, target, source, offset=0):
        part = self._part(target, offset, source.nbytes)
        super().copy_in(stream, target, source.reshape(-1).view(np.uint8)[: part.size], max(offset, 0))


class ShowsItsMemory(Broken):
    def allocate(self, nbytes):
        memory = super().allocate(nbytes)
        visible = type("Visible", (DeviceMemory,), {"__array__": lambda own, *args, **options: np.zeros(nbytes)})
        return visible(self, nbytes, memory.handle)


class RaisesMemoryError(Broken):
    def allocate(self, nbytes):
        try:
            return super().allocate(nbytes)
        except DeviceError as error:
            raise MemoryError("no memory") from error


class IsOfOneThread(Broken):
    def __init__(self):
        super().__init__()
        self.owner = threading.get_ident()

    def new_stream(self):
        if threading.get_ident() != self.owner:
            raise DeviceError("another thread's")
        return super().new_stream()


class LaunchesNothing(Broken):
    def launch(self, stream, kernel, memories):
        if not callable(kernel):
            super().launch(stream, kernel, memories)


class GoesOnClosed(Broken):
    def close(self):
        pass


class ChangesItsName(Broken):
    @property
    def properties(self):
        found = super().properties
        return type(found)(f"{found.name} {time.perf_counter_ns()}", found.kind)


# the class, and the check that is to find it
BROKEN = [
    (LosesEvents, "events"),
    (SignalsEarly, "events"),
    (SignalsEarly, "round trips"),
    (NeedsAWaitToBeDone, "events"),
    (LiesOfCopiesIn, "round trips"),
    (LiesOfCopiesOut, "round trips"),
    (DropsCopiesOut, "round trips"),
    (IgnoresOffsets, "offsets"),
    (WritesToTheHost, "round trips"),
    (CopiesAtOnce, "order"),
    (IgnoresOtherStreams, "between streams"),
    (IgnoresTimeOuts, "time-outs"),
    (IgnoresTheRunsTime, "time-outs"),
    (SynchronizesNothing, "synchronize"),
    (TakesFreedMemory, "freed memory"),
    (KeepsFreedMemory, "memory given back"),
    (SharesMemory, "memories apart"),
    (WritesBehindMemory, "limits of memory"),
    (ShowsItsMemory, "unseen by the host"),
    (RaisesMemoryError, "out of memory"),
    (IsOfOneThread, "threads"),
    (LaunchesNothing, "kernels"),
    (GoesOnClosed, "closed"),
    (ChangesItsName, "properties"),
]
