"""What a device is put through: copies, order, limits of memory, events, waits that end, threads, closing.

A check is a function of an open device that raises :class:`Broken`, with a sentence, for what is against
``byoc.runtime.DeviceAPI``, or :class:`Untried` for what could not be asked. No check looks at a clock: whether a wait
keeps its time-out is seen by whether its work is done when it ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from byoc.errors import DeviceError, RunTimeoutError
from byoc.runtime.core.errors import DeviceMemoryError, DeviceTimeoutError
from byoc.runtime.core.time_limit import time_limit
from byoc.runtime.devices.device_api import DeviceAPI, DeviceMemory, DeviceProperties, DeviceStream
from byoc.runtime.devices.levels import HardwareLevel

SIZES = (0, 1, 63, 64, 4096, 100_003)  # bytes
DTYPES = ("int8", "float32", "float64")
SHORT = 0.001  # seconds of a wait that is to run out
BUSY_BYTES, BUSY_COPIES, BUSY_TURNS = 8 << 20, 16, 7  # work for such a wait, doubled each turn
THREADS, ROUNDS = 4, 8
GIVEN_BACK = 64 << 20  # bytes that are taken and given back, unless the device has less
GUARD = 0x5A


class Broken(Exception):
    """What a device does against the interface."""


class Untried(Exception):
    """Why something could not be tried."""


@dataclass(frozen=True)
class DeviceTrial:
    """A check on *device*; *open* gives another one, *seconds* is how long work may take."""

    device: DeviceAPI
    open: Callable[[], DeviceAPI]
    seconds: float

    def numbers(self, size: int, seed: int = 0, dtype: str = "uint8") -> np.ndarray:
        """Random bytes, as an array of *size* bytes."""
        data = np.random.default_rng(seed).integers(0, 256, size, "uint8")
        return data.view(dtype)

    def filled(self, stream: DeviceStream, data: np.ndarray) -> DeviceMemory:
        """Memory with *data* in it, when *stream* gets there."""
        memory = self.device.allocate(data.nbytes)
        self.device.copy_in(stream, memory, data)
        return memory

    def read(self, stream: DeviceStream, memory: DeviceMemory) -> np.ndarray:
        """What *memory* holds behind all work of *stream*."""
        found = np.full(memory.nbytes, GUARD, np.uint8)
        self.device.copy_out(stream, found, memory)
        self.finish(stream)
        return found

    def finish(self, stream: DeviceStream) -> None:
        """Wait for *stream*."""
        self.device.wait(self.device.record(stream), self.seconds)

    def expect(self, memory: DeviceMemory, wanted: np.ndarray, stream: DeviceStream, what: str) -> None:
        """Raise Broken where *memory* does not hold *wanted*."""
        same(self.read(stream, memory), wanted, what)

    def refused(self, ask: Callable[[], object], what: str, kind: type[Exception] = DeviceError) -> None:
        """Raise Broken unless *ask* raises *kind*."""
        try:
            ask()
        except kind:
            return
        except Exception as error:  # whatever a vendor's code raises
            raise Broken(f"{what} raises {type(error).__name__}, expected {kind.__name__}: {error}") from error
        raise Broken(f"{what} is not refused, expected a {kind.__name__}")

    def busy(self, stream: DeviceStream, copies: int) -> None:
        """Put *copies* large copies into *stream*."""
        known = self.device.properties.memory_bytes
        half = BUSY_BYTES if known is None else min(BUSY_BYTES, known // 8)
        memory = self.device.allocate(2 * half)
        for _ in range(copies):
            self.device.copy(stream, memory, memory, half, 0, half)
        self.device.free(memory)


def same(found: np.ndarray, wanted: np.ndarray, what: str) -> None:
    """Raise Broken where two arrays have other bytes."""
    left, right = found.reshape(-1).view(np.uint8), wanted.reshape(-1).view(np.uint8)
    wrong = np.flatnonzero(left != right) if left.size == right.size else np.arange(1)
    if wrong.size:
        at = int(wrong[0])
        raise Broken(f"{what}: {wrong.size} of {right.size} bytes are wrong, the first at {at}")


def properties(trial: DeviceTrial) -> None:
    """It says what it is, and the same again."""
    found = trial.device.properties
    if not isinstance(found, DeviceProperties) or not found.name or not isinstance(found.level, HardwareLevel):
        raise Broken(f"properties is {found!r}, expected DeviceProperties with a name and a level")
    if found.memory_bytes is not None and found.memory_bytes <= 0:
        raise Broken(f"memory_bytes is {found.memory_bytes}, expected a number above 0, or None")
    if found.alignment < 1 or found.alignment & (found.alignment - 1):
        raise Broken(f"alignment is {found.alignment}, expected a power of two")
    if not found.level.runs:
        raise Broken(f"the level of a device that is open is {found.level}, expected emulated or real")
    if trial.device.properties != found:
        raise Broken("properties are others when they are asked again")


def round_trips(trial: DeviceTrial) -> None:
    """What is copied in comes out, of any size and dtype, and the host's array is not changed."""
    stream = trial.device.new_stream()
    for size in SIZES:
        for dtype in DTYPES:
            data = trial.numbers(size // 8 * 8 if dtype != "int8" else size, size, dtype)
            kept = data.copy()
            data.flags.writeable = False
            memory = trial.filled(stream, data)
            trial.expect(memory, kept, stream, f"{data.nbytes} bytes of {dtype} that were copied in and out")
            same(data, kept, "the host's array after it was copied in")
            trial.device.free(memory)


def offsets(trial: DeviceTrial) -> None:
    """A copy to or from the middle of a memory leaves the rest as it is."""
    device, stream = trial.device, trial.device.new_stream()
    data, piece = trial.numbers(4096, 1), trial.numbers(1000, 2)
    memory = trial.filled(stream, data)
    device.copy_in(stream, memory, piece, 129)
    wanted = data.copy()
    wanted[129:1129] = piece
    trial.expect(memory, wanted, stream, "a memory after a copy to byte 129")
    found = np.full(500, GUARD, np.uint8)
    device.copy_out(stream, found[100:300], memory, 1001)
    trial.finish(stream)
    same(found[100:300], wanted[1001:1201], "a copy from byte 1001")
    if np.any(found[:100] != GUARD) or np.any(found[300:] != GUARD):
        raise Broken("a copy to the host writes outside of its array")


def device_copies(trial: DeviceTrial) -> None:
    """Copies on the device, between memories and within one, at any place."""
    device, stream = trial.device, trial.device.new_stream()
    data = trial.numbers(4096, 3)
    source, target = trial.filled(stream, data), trial.filled(stream, np.zeros(4096, np.uint8))
    device.copy(stream, target, source, 1000, 33, 2001)
    device.copy(stream, target, target, 500, 3000, 33)
    device.copy(stream, target, source, 0, 4096, 4096)
    wanted = np.zeros(4096, np.uint8)
    wanted[33:1033] = data[2001:3001]
    wanted[3000:3500] = wanted[33:533]
    trial.expect(target, wanted, stream, "a memory after copies on the device")
    trial.expect(source, data, stream, "the source of copies on the device")


def order(trial: DeviceTrial) -> None:
    """The work of a stream is done in the order in which it was put there."""
    device, stream = trial.device, trial.device.new_stream()
    memory = device.allocate(100_000)
    data = [trial.numbers(100_000, seed) for seed in range(ROUNDS)]
    found = [np.zeros(100_000, np.uint8) for _ in data]
    for source, target in zip(data, found, strict=True):
        device.copy_in(stream, memory, source)
        device.copy_out(stream, target, memory)
    trial.finish(stream)
    for k, (source, target) in enumerate(zip(data, found, strict=True)):
        same(target, source, f"round {k} of copies in and out of one memory")


def apart(trial: DeviceTrial) -> None:
    """Memories do not overlap."""
    stream = trial.device.new_stream()
    held = [(trial.filled(stream, trial.numbers(size, seed)), size, seed) for seed, size in enumerate(SIZES * 3)]
    for memory, size, seed in held:
        trial.expect(memory, trial.numbers(size, seed), stream, f"a memory of {size} bytes beside others")


def limits(trial: DeviceTrial) -> None:
    """What reaches outside of a memory is refused, and the device goes on."""
    device, stream = trial.device, trial.device.new_stream()
    data = trial.numbers(64, 4)
    memory, other = trial.filled(stream, data), device.allocate(32)
    trial.refused(lambda: device.copy_in(stream, memory, np.zeros(65, np.uint8)), "a copy of 65 bytes into 64")
    trial.refused(lambda: device.copy_in(stream, memory, np.zeros(8, np.uint8), 60), "a copy of 8 bytes to byte 60")
    trial.refused(lambda: device.copy_in(stream, memory, np.zeros(8, np.uint8), -8), "a copy to byte -8")
    trial.refused(lambda: device.copy_out(stream, np.zeros(65, np.uint8), memory), "a copy of 65 bytes from 64")
    trial.refused(lambda: device.copy(stream, other, memory, 33), "a copy of 33 bytes into 32 on the device")
    trial.refused(lambda: device.allocate(-1), "an allocation of -1 bytes")
    trial.expect(memory, data, stream, "a memory after copies that were refused")


def freed(trial: DeviceTrial) -> None:
    """Memory that was given back cannot be used, nor given back again, nor that of another device."""
    device, stream = trial.device, trial.device.new_stream()
    memory = trial.filled(stream, trial.numbers(64, 5))
    trial.finish(stream)
    device.free(memory)
    trial.refused(lambda: device.free(memory), "giving memory back twice")
    trial.refused(lambda: device.copy_in(stream, memory, np.zeros(8, np.uint8)), "a copy into memory that was freed")
    trial.refused(lambda: device.copy_out(stream, np.zeros(8, np.uint8), memory), "a copy from memory that was freed")
    other = trial.open()
    if other is not device:
        foreign = other.allocate(64)
        trial.refused(lambda: device.copy_in(stream, foreign, np.zeros(8, np.uint8)), "another device's memory")
        other.free(foreign)


def unseen(trial: DeviceTrial) -> None:
    """The host cannot read a memory as an array."""
    memory = trial.device.allocate(8)
    trial.refused(lambda: np.asarray(memory), "np.asarray of a memory")


def out_of_memory(trial: DeviceTrial) -> None:
    """More memory than there is gives DeviceMemoryError, and the device goes on."""
    device, stream = trial.device, trial.device.new_stream()
    known = device.properties.memory_bytes
    asked = 1 << 60 if known is None else known + 1
    trial.refused(lambda: device.allocate(asked), f"an allocation of {asked} bytes", DeviceMemoryError)
    data = trial.numbers(1000, 6)
    trial.expect(trial.filled(stream, data), data, stream, "a memory after one that there is not")


def given_back(trial: DeviceTrial) -> None:
    """Memory that was given back can be had again."""
    known = trial.device.properties.memory_bytes
    size = GIVEN_BACK if known is None else min(GIVEN_BACK, known * 3 // 4)
    rounds = ROUNDS if known is None else min(max(ROUNDS, 2 * known // size), 4 * ROUNDS)
    for _ in range(rounds):
        trial.device.free(trial.device.allocate(size))


def events(trial: DeviceTrial) -> None:
    """An event comes by itself once the work before it is done, can be waited for twice, and by any thread."""
    device, stream = trial.device, trial.device.new_stream()
    device.wait(device.record(stream), trial.seconds)  # of a stream without work
    data, found = trial.numbers(100_000, 7), np.zeros(100_000, np.uint8)
    memory = trial.filled(stream, data)
    device.copy_out(stream, found, memory)
    event = device.record(stream)
    end = time.monotonic() + trial.seconds
    while not device.is_done(event):
        if time.monotonic() > end:
            raise Broken(f"an event has not come after {trial.seconds:g} s, though nothing but copies is before it")
        time.sleep(0.001)
    same(found, data, "what was copied out before an event that has come")
    device.wait(event, trial.seconds)
    device.wait(event, 0)
    on_thread(lambda: device.wait(event, trial.seconds))
    if not device.is_done(event):
        raise Broken("an event that has come is not done when it is asked again")


def time_outs(trial: DeviceTrial) -> None:
    """A wait ends after its time-out, and at the end of the run that it is part of, while its work goes on."""
    waits: dict[str, tuple[Callable[[DeviceStream], None], type[Exception]]] = {
        f"wait with a time-out of {SHORT:g} s": (
            lambda stream: trial.device.wait(trial.device.record(stream), SHORT),
            DeviceTimeoutError,
        ),
        f"synchronize with a time-out of {SHORT:g} s": (
            lambda stream: trial.device.synchronize(SHORT),
            DeviceTimeoutError,
        ),
        f"wait in a run that may take {SHORT:g} s": (
            lambda stream: _in_run(lambda: trial.device.wait(trial.device.record(stream))),
            RunTimeoutError,
        ),
    }
    told = [_runs_out(trial, wait, kind) for wait, kind in waits.values()]
    ignored = [what for what, found in zip(waits, told, strict=True) if found is False]
    if ignored:
        raise Broken(f"{', '.join(ignored)}: it returned when the work was done, and not before")
    if None in told:
        raise Untried("work is done when the call returns that put it into the stream")


def _in_run(wait: Callable[[], None]) -> None:
    with time_limit(SHORT):
        wait()


def _runs_out(trial: DeviceTrial, wait: Callable[[DeviceStream], None], kind: type[Exception]) -> bool | None:
    """Whether *wait* raises *kind* before the work is done; None where no work is ever under way."""
    device, found = trial.device, None
    for turn in range(BUSY_TURNS):
        stream = device.new_stream()
        trial.busy(stream, BUSY_COPIES << turn)
        event = device.record(stream)
        was_done = device.is_done(event)
        if was_done and not device.properties.is_asynchronous:
            return None
        ran_out = False
        try:
            wait(stream)
        except kind:
            ran_out = not device.is_done(event)
        device.wait(event, trial.seconds)
        device.close_stream(stream)
        if ran_out:
            return True
        found = found if was_done else False
    return found


def between_streams(trial: DeviceTrial) -> None:
    """A stream that waits for another's event sees what was written before it."""
    device, first, second = trial.device, trial.device.new_stream(), trial.device.new_stream()
    for seed in range(ROUNDS):
        data, found = trial.numbers(100_000, seed), np.zeros(100_000, np.uint8)
        memory = device.allocate(data.nbytes)
        trial.busy(first, 2)
        device.copy_in(first, memory, data)
        device.wait_for(second, device.record(first))
        device.copy_out(second, found, memory)
        device.wait(device.record(second), trial.seconds)
        same(found, data, "what a stream read behind another's event")
        device.free(memory)


def synchronized(trial: DeviceTrial) -> None:
    """After synchronize the work of all streams is done."""
    device = trial.device
    streams = [device.new_stream() for _ in range(3)]
    data = [trial.numbers(100_000, seed) for seed in range(3)]
    found = [np.zeros(100_000, np.uint8) for _ in data]
    for stream, source, target in zip(streams, data, found, strict=True):
        trial.busy(stream, 2)
        device.copy_out(stream, target, trial.filled(stream, source))
    device.synchronize(trial.seconds)
    for k, (source, target) in enumerate(zip(data, found, strict=True)):
        same(target, source, f"what stream {k} had copied out when synchronize returned")


def threads(trial: DeviceTrial) -> None:
    """Several threads, each with a stream, at once."""
    errors: list[Exception] = []

    def work(seed: int) -> None:
        try:
            stream = trial.device.new_stream()
            for turn in range(ROUNDS):
                data = trial.numbers(10_000, seed * ROUNDS + turn)
                memory = trial.filled(stream, data)
                trial.expect(memory, data, stream, f"a memory of one of {THREADS} threads")
                trial.device.free(memory)
            trial.device.close_stream(stream)
        except Exception as error:  # raised again by who waits for it
            errors.append(error)

    team = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(THREADS)]
    for member in team:
        member.start()
    for member in team:
        member.join(trial.seconds)
    if errors:
        raise errors[0]
    if any(member.is_alive() for member in team):
        raise Broken(f"of {THREADS} threads with a stream each, some were not done after {trial.seconds:g} s")


def kernels(trial: DeviceTrial) -> None:
    """A kernel is run in its place in the stream, on the memory that it is given; what is none is refused."""
    device, stream = trial.device, trial.device.new_stream()
    trial.refused(lambda: device.launch(stream, object(), []), "the launch of what is no kernel")
    kernel = device.increment_kernel(4096)
    if kernel is None:
        raise Untried("it gives no kernel to try it with, by increment_kernel")
    data = trial.numbers(4096, 8)
    memory, other = trial.filled(stream, data), trial.filled(stream, data)
    device.launch(stream, kernel, [memory])
    device.launch(stream, kernel, [memory])
    trial.expect(memory, data + np.uint8(2), stream, "a memory after two kernels that add 1 to each byte")
    trial.expect(other, data, stream, "another memory after these")


def closed(trial: DeviceTrial) -> None:
    """After close everything is refused, and close may be called again."""
    device = trial.device
    memory, stream = device.allocate(64), device.new_stream()
    device.close()
    device.close()
    trial.refused(lambda: device.allocate(64), "an allocation on a closed device")
    trial.refused(device.new_stream, "a stream of a closed device")
    trial.refused(lambda: device.copy_in(stream, memory, np.zeros(8, np.uint8)), "a copy on a closed device")
    trial.refused(lambda: device.synchronize(trial.seconds), "synchronize on a closed device")


def on_thread(work: Callable[[], None]) -> None:
    """Do *work* on a thread. Raises what it raises."""
    errors: list[Exception] = []

    def caught() -> None:
        try:
            work()
        except Exception as error:  # raised again here
            errors.append(error)

    helper = threading.Thread(target=caught, daemon=True)
    helper.start()
    helper.join()
    if errors:
        raise errors[0]


DEVICE_CHECKS: Mapping[str, Callable[[DeviceTrial], None]] = {
    "properties": properties,
    "round trips": round_trips,
    "offsets": offsets,
    "copies on the device": device_copies,
    "order": order,
    "memories apart": apart,
    "limits of memory": limits,
    "freed memory": freed,
    "unseen by the host": unseen,
    "out of memory": out_of_memory,
    "memory given back": given_back,
    "events": events,
    "time-outs": time_outs,
    "between streams": between_streams,
    "synchronize": synchronized,
    "threads": threads,
    "kernels": kernels,
    "closed": closed,
}
