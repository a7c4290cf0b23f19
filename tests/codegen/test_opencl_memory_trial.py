"""How often the trial of buffers and images takes the faster: its real code on an emulated device, a noisy clock."""

from __future__ import annotations

import statistics
from types import SimpleNamespace

import numpy as np
import pytest

from byoc.codegen.opencl.images import trial
from byoc.runtime.core.device_event import DeviceEvent
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.opencl.images import ImageSize
from byoc.runtime.opencl.launches import Buffer, FunctionPlan

TRIES = 10
SIGNATURE = Signature("f", (TensorSpec("x", (4,), "float32"),), (TensorSpec("y", (4,), "float32"),))


class NoisyDevice:
    """Runs take their *seconds* by form, times noise: a few per cent always, several times as much now and then, and
    all of it twice as much from some run on, as a processor that gets warm or another program that starts.
    """

    def __init__(self, seconds, seed):
        self.seconds, self.random, self.runs = seconds, np.random.default_rng(seed), []
        self.slow_from = int(self.random.integers(2, 16))

    def run(self, form):
        noise = float(np.exp(self.random.normal(0.0, 0.04)))
        noise *= float(self.random.choice([1.0, self.random.uniform(3, 10)], p=[0.88, 0.12]))
        noise *= 2.0 if len(self.runs) >= self.slow_from else 1.0
        self.runs.append((form, self.seconds[form] * noise))
        return self.runs[-1][1]


class NoisyModule:
    """The module of a form on a :class:`NoisyDevice`: a call has a copy to the device and one kernel."""

    def __init__(self, form, device):
        self.form, self.device, self.events = form, device, []
        self.plans = (plan_of(form),)

    def __getitem__(self, symbol):
        assert symbol == "f"

        def call(x, y):
            assert x.shape == y.shape == (4,)
            kernel = DeviceEvent("f", "kernel", 1.0, 1.0 + self.device.run(self.form))
            self.events += [DeviceEvent("f", "copy to device", 0.0, 50.0), kernel]

        return call

    def profile(self, on):
        found, self.events = self.events, []
        return found


def plan_of(form):
    between = Buffer.of_image(ImageSize(1, 1, "float32")) if form == "image" else Buffer(16)
    return FunctionPlan(SIGNATURE, (Buffer(16), Buffer(16), between), ())


@pytest.fixture
def tried(monkeypatch):
    """``tried(seconds, seed)``: which form a trial takes, its device, and the settings that it leaves."""

    def attempt(seconds, seed, kept=None):
        device, settings = NoisyDevice(seconds, seed), {} if kept is None else kept
        monkeypatch.setattr(trial, "open_device", lambda name: SimpleNamespace(info=SimpleNamespace(name="noisy")))
        store = SimpleNamespace(get=settings.get, put=settings.__setitem__)
        monkeypatch.setattr(trial, "settings_of", lambda opened: store)
        forms = {form: (f"source of {form}s", (plan_of(form),)) for form in trial.FORMS}
        return trial.try_memory(forms, lambda form: NoisyModule(form, device)), device, settings

    return attempt


@pytest.mark.parametrize("slower", [1.11, 1.3, 2.0, 10.0])
@pytest.mark.parametrize("faster", trial.FORMS)
def test_the_faster_of_two_is_taken_in_nine_of_ten_tries(faster, slower, tried):
    (other,) = (form for form in trial.FORMS if form != faster)
    taken = [tried({faster: 1e-3, other: 1e-3 * slower}, seed)[0].memory for seed in range(TRIES)]
    assert taken.count(faster) >= 9


def test_the_noise_is_such_that_means_or_runs_that_take_no_turns_would_often_be_wrong(tried):
    means, halves = 0, 0
    for seed in range(TRIES):
        seconds = {"buffer": 1.11e-3, "image": 1e-3}
        _, device, _ = tried(seconds, seed)
        of = {form: [s for f, s in device.runs if f == form][1:] for form in trial.FORMS}
        means += statistics.fmean(of["image"]) > statistics.fmean(of["buffer"])
        again = NoisyDevice(seconds, seed)  # all of one form, then all of the other
        first, second = ([again.run(form) for _ in range(trial.ROUNDS)] for form in ("image", "buffer"))
        again = NoisyDevice(seconds, seed)
        last, before = ([again.run(form) for _ in range(trial.ROUNDS)] for form in ("buffer", "image"))
        halves += statistics.median(first) > statistics.median(second)
        halves += statistics.median(before) > statistics.median(last)
    assert means >= 2 and halves >= 2


def test_both_times_are_told_and_kept_and_a_second_trial_runs_nothing(tried):
    found, device, settings = tried({"buffer": 2e-3, "image": 1e-3}, 0)
    assert len(device.runs) == 2 * (1 + trial.ROUNDS)
    ((_, kept),) = settings.items()
    of = {form: [s for f, s in device.runs if f == form][1:] for form in trial.FORMS}
    assert kept == {form: pytest.approx(statistics.median(of[form])) for form in trial.FORMS}
    assert all(f"{form}s {kept[form] * 1e3:.4g} ms" in found.note for form in trial.FORMS)
    again, quiet, _ = tried({"buffer": 1e-3, "image": 2e-3}, 1, settings)
    assert again.memory == found.memory == "image" and quiet.runs == []
