"""What trials on a device measure is what a kernel takes in a model: on an emulated device with a cache and threads."""

from types import SimpleNamespace

import numpy as np
import pytest

from byoc.codegen.kernel.choice import Choice
from byoc.codegen.opencl.tuning import device_batch
from byoc.codegen.opencl.tuning.device_batch import DeviceCandidate
from byoc.codegen.opencl.tuning.trials import DeviceTrialRunner, clear_winner
from byoc.codegen.tune.arrays import MOST_COPIES
from byoc.runtime.core.device_event import DeviceEvent
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.opencl.launches import FunctionPlan

CACHE = 1 << 20
MODELS, OTHER = (Choice.of("item", local=n) for n in (64, 128))


class Array:
    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype

    def fill(self, array):
        """Nothing: results are not what this is about."""

    def numpy(self):
        return np.zeros(self.shape, self.dtype)


class Device:
    """One that keeps the CACHE bytes of constants that it read last, and whose threads sleep while nothing waits.

    *times* are a kernel's microseconds by its source: where its constants are in the cache, where they are not, and
    what it takes more where threads have to be woken.
    """

    def __init__(self, times):
        self.times, self.read, self.waiting, self.sessions = times, [], 0, []
        self.device = SimpleNamespace(global_mem_cache_size=CACHE)

    def seconds(self, source, place, size):
        since = sum(s for p, s in self.read[self.read.index((place, size)) :]) if (place, size) in self.read else None
        self.read = [item for item in self.read if item[0] != place] + [(place, size)]
        cached, uncached, asleep = self.times[source]
        taken = cached if since is not None and since <= CACHE else uncached
        return 1e-6 * (taken + (0 if self.waiting else asleep))


class Session:
    """Runs a kernel on a :class:`Device`, whose program is the kernel's source."""

    def __init__(self, plan, program, opened, constants, on_times=None):
        self.program, self.opened, self.on_times = program, opened, on_times
        self.place, self.size = len(opened.sessions), sum(c.nbytes for c in constants)
        opened.sessions.append(self)

    def empty_on_device(self, shape, dtype):
        return Array(shape, dtype)

    def start(self, arrays):
        seconds = self.opened.seconds(self.program, self.place, self.size)
        self.opened.waiting += 1

        def wait():
            self.opened.waiting -= 1
            self.on_times([DeviceEvent("f", "kernel", 0.0, seconds)])

        return SimpleNamespace(wait=wait)


def with_constants(session, constants):
    return Session(None, session.program, session.opened, constants, session.on_times)


@pytest.fixture
def chosen(monkeypatch):
    """The choice between kernels on a device with such times, and the device."""

    def choose(models, other, size):
        device = Device({"models": models, "other": other})
        monkeypatch.setattr(device_batch, "open_device", lambda name: device)
        monkeypatch.setattr(device_batch, "_program", lambda source, opened: source)
        monkeypatch.setattr(device_batch, "import_pyopencl", lambda: None)
        monkeypatch.setattr(device_batch, "Session", Session)
        monkeypatch.setattr(device_batch, "with_constants", with_constants)
        weights = (np.zeros(size, np.uint8),) if size else ()
        constants = tuple(TensorSpec("weights", (size,), "uint8") for _ in weights)
        signature = Signature("f", (), (TensorSpec("output", (1,), "float32"),), constants)
        program = SimpleNamespace(sizes=(), groups=(), inputs=(), signature=signature)

        def emit(space, program, only):
            only.choose(space)
            source = "models" if only.choice == MODELS else "other"
            return DeviceCandidate(source, FunctionPlan(signature, (), ()), weights)

        runner = DeviceTrialRunner(lambda space: program, emit, 8, lambda batch: batch.run(lambda number: None))
        trials = runner.trials(SimpleNamespace(kernel="kernel"), [MODELS, OTHER], None)
        return clear_winner(trials, MODELS), device

    return choose


@pytest.mark.parametrize("size", [CACHE // 4, CACHE, 3 * CACHE], ids=["quarter", "whole", "more"])
def test_a_kernel_that_is_fast_with_its_weights_in_the_cache_alone_does_not_win(chosen, size):
    winner, device = chosen(models=(90, 100, 0), other=(50, 120, 0), size=size)
    assert winner == MODELS
    assert {s.size for s in device.sessions} == {0, size}


def test_a_kernel_that_is_faster_with_weights_from_memory_wins(chosen):
    assert chosen(models=(60, 100, 0), other=(70, 80, 0), size=CACHE // 4)[0] == OTHER


def test_small_weights_that_a_model_has_in_the_cache_are_tried_there(chosen):
    size = CACHE // 64
    winner, device = chosen(models=(90, 100, 0), other=(50, 120, 0), size=size)
    assert winner == OTHER and len([s for s in device.sessions if s.program == "models" and s.size]) <= 2 * MOST_COPIES


def test_a_kernel_that_wakes_its_threads_faster_does_not_win(chosen):
    assert chosen(models=(70, 70, 200), other=(100, 100, 0), size=0)[0] == MODELS


def test_a_kernel_that_others_start_faster_does_not_lose(chosen):
    assert chosen(models=(100, 100, 0), other=(70, 70, 200), size=0)[0] == OTHER
