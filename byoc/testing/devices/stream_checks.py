"""Streams of devices: order, events, waits that end, kernels, threads, closing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np

from byoc.errors import RunTimeoutError
from byoc.runtime.core.errors import DeviceTimeoutError
from byoc.runtime.core.time_limit import time_limit
from byoc.runtime.devices.device_api import DeviceStream
from byoc.testing.devices.trial import Broken, DeviceTrial, Untried, on_thread, same

SHORT = 0.001  # seconds of a wait that is to run out
BUSY_COPIES, BUSY_TURNS = 16, 7  # work for such a wait, doubled each turn
THREADS, ROUNDS = 4, 8


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
    problems = [_runs_out(trial, wait, kind) for wait, kind in waits.values()]
    ignored = [what for what, found in zip(waits, problems, strict=True) if found is False]
    if ignored:
        raise Broken(f"{', '.join(ignored)}: it returned when the work was done, and not before")
    if None in problems:
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
