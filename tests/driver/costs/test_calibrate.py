"""Calibration: from the seconds of probes to a profile, on a device whose numbers are known, without a clock."""

import itertools
import math
from dataclasses import replace

import pytest

from byoc.codegen.json.backend import JsonBackend
from byoc.contract import callee_name, constraint, register_backend
from byoc.driver.costs import calibrate as calibration
from byoc.driver.costs.alone import build_alone
from byoc.driver.costs.calibrate import (
    BUSY,
    LATE,
    Calibrator,
    Sheet,
    is_incomplete,
    is_typical,
    senseless,
    solve,
    steps_of,
    with_borders,
)
from byoc.driver.costs.probes import MIDDLE, TINY, Probe, by_annotation, by_pool, nothing, probes
from byoc.driver.costs.timing import Turns, interleaved
from byoc.errors import CompileError, UserError
from byoc.ir.module import IRModule
from byoc.partition.costs import Memory, Profile
from byoc.partition.costs.analytic import kernel_seconds
from byoc.partition.costs.kernels import kernels_of
from byoc.partition.costs.model import unit_calls
from byoc.partition.costs.profile import GPU_DEFAULTS, HOST_DEFAULTS, NUMPY_DEFAULTS
from byoc.relay.transform import InferType
from byoc.relay.transform.fuse.fuse_ops import fuse_body

TRUE = replace(
    HOST_DEFAULTS,
    multiply_adds={
        "float32": 7e10,
        "float64": 3e10,
        "*": 3e10,
        "int8": 2e11,
        "uint8": 2e11,
        "bfloat16": 7e10 * 2.5 / 1.27,
    },
    depthwise=5e10,
    window=1e10,
    pointwise=4e10,
    costly=3e9,
    reduction=2e10,
    rows=1e10,
    move=3e9,
    library=5e8,
    memories=(Memory(1 << 20, 8e10), Memory(1 << 25, 4e10), Memory(math.inf, 1e10)),
    kernel=1e-7,
    overhead=4.0,
    window_overhead=3.0,
    transform=8e9,
    convolution=0.8,
)


def model_seconds(function, profile):
    """What the analytic model says of a function whose steps are kept apart."""
    typed = InferType()(IRModule({"main": function}))["main"]
    calls = [c for c in unit_calls(typed) if c.op.name != "annotation.stop_fusion"]
    return sum(sum(kernel_seconds(k, profile)) for k in kernels_of(calls, fuse_body))


def sheet_of(profile):
    """The steps' seconds on a device that is exactly as the model says."""
    found = {}
    for probe in probes():
        for name, steps in (("1", 1), ("n", 1 + probe.more)):
            found[f"{probe.name} {name}"] = 1e-3 + model_seconds(probe.function(steps, by_annotation), profile)
    return Sheet(steps_of(found, probes()))


FIELDS = (
    "pointwise",
    "costly",
    "rows",
    "move",
    "window",
    "depthwise",
    "window_overhead",
    "overhead",
    "transform",
    "reduction",
    "convolution",
)


@pytest.fixture(scope="module")
def solved():
    # the tiny step of the probe "kernel" is taken for the call of a kernel alone, hence the tolerance
    return solve(sheet_of(TRUE), HOST_DEFAULTS, [1 << 20, 1 << 25])


@pytest.mark.parametrize("name", FIELDS)
def test_a_device_that_is_as_the_model_says_is_found_again(solved, name):
    assert getattr(solved, name) == pytest.approx(getattr(TRUE, name), rel=0.1)


def test_rates_of_products_and_of_memories_are_found_again(solved):
    assert solved.multiply_adds == pytest.approx(TRUE.multiply_adds, rel=0.1)
    assert [m.rate for m in solved.memories] == pytest.approx([m.rate for m in TRUE.memories], rel=0.1)
    assert [m.bytes for m in solved.memories] == [1 << 20, 1 << 25, math.inf]


def test_what_was_not_measured_stays_as_it_was():
    found = solve(Sheet({"kernel": 1e-6}), HOST_DEFAULTS)
    kept = ("depthwise", "costly", "move", "overhead", "window", "multiply_adds")
    assert [getattr(found, name) for name in kept[:-1]] == [getattr(HOST_DEFAULTS, name) for name in kept[:-1]]
    assert found.multiply_adds["float32"] == HOST_DEFAULTS.multiply_adds["float32"]
    assert found.kernel == 1e-6


def test_a_step_that_took_no_time_gives_a_finite_rate():
    found = solve(Sheet(dict.fromkeys((p.name for p in probes()), 0.0)), HOST_DEFAULTS)
    assert Profile.from_json(found.to_json()) == found


def test_borders_are_the_differences_between_regions():
    size = 4 * math.prod(MIDDLE)
    base = replace(GPU_DEFAULTS, kernel=1e-5, memories=(Memory(math.inf, 1e12),))
    far = 1e-5 + size / 1e12
    seconds = {"host": 1e-6, "little": 1e-6 + 1e-3, "two": 1e-6 + 1e-3 + 1e-4}
    seconds["much"] = seconds["little"] + size / 2e9 + far
    seconds["given"] = seconds["little"] + size / 5e9 + far
    found = with_borders(base, seconds)
    assert found.latency == pytest.approx(1e-4)
    assert found.launch == pytest.approx(1e-3 - 2e-4 - 1e-5)
    assert (found.upload, found.download) == pytest.approx((2e9, 5e9))


def test_a_backend_in_the_hosts_memory_has_a_launch_and_no_transfers():
    found = with_borders(HOST_DEFAULTS, {"host": 1e-6, "little": 5e-6, "two": 6e-6, "much": 1.0, "given": 1.0})
    assert found.launch == pytest.approx(4e-6) and math.isinf(found.upload) and found.latency == 0


def test_a_backend_that_builds_nothing_is_said_to_be_so():
    def build(mod):
        raise CompileError("no device")

    with pytest.raises(UserError, match="backend 'c' cannot be calibrated: no device"):
        Calibrator("c", build, HOST_DEFAULTS).profile()


class Ticking:
    """A clock of a machine on which each run takes the seconds that it is given."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def run(self, *seconds):
        left = list(seconds)

        def call():
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return call


def test_turns_keep_the_least_of_each_without_the_call_that_warms_it():
    clock = Ticking()
    runs = {"a": clock.run(9.0, 9.0, 5.0, 3.0, 4.0), "b": clock.run(2.0)}
    assert interleaved(runs, Turns(rounds=3, seconds=0.0), clock) == {"a": 4.0, "b": 2.0}


def test_short_runs_are_repeated_within_a_turn():
    clock, calls = Ticking(), []
    step = clock.run(0.25)
    interleaved({"a": lambda: (calls.append(1), step())}, Turns(rounds=2, seconds=1.0), clock)
    assert len(calls) == 1 + 2 * (1 + 4)


def test_steps_of_a_probe_are_kept_apart_either_way():
    probe = next(p for p in probes() if p.name == "pointwise")
    for apart, name in ((by_annotation, "annotation.stop_fusion"), (by_pool, "nn.max_pool2d")):
        names = [c.op.name for c in unit_calls(InferType()(IRModule({"main": probe.function(3, apart)}))["main"])]
        assert names.count(name) == 3
    assert [p.checked_type.shape for p in nothing().params] == [TINY]


ASKED = [Probe("step", TINY, by_annotation), Probe("kernel", TINY, by_annotation, 64, is_slight=True)]


@pytest.mark.parametrize(
    "once, often, slight, expected",
    [
        (1.0, 5.0, 1.01, []),
        (1.0, 1.1, 1.01, ["step"]),
        (5.0, 1.0, 1.01, ["step"]),
        (1.0, 2.0, 1.0, ["kernel"]),
        (1e-9, 50.0, 0.9, ["kernel"]),
    ],
)
def test_seconds_that_make_no_sense_are_known(once, often, slight, expected):
    found = {"step 1": once, "step n": often, "kernel 1": 1.0, "kernel n": slight}
    assert senseless(found, ASKED) == expected
    assert senseless({}, ASKED) == []


def test_a_busy_machine_is_asked_again_and_what_stays_senseless_is_left_out(monkeypatch):
    """Runs are numbered by their steps; the clock of the first attempts says the same for one step and for many."""
    attempts = []

    def timed(runs, turns, clock, until, progress):
        attempts.append(len(runs))
        good = len(attempts) > 2
        return {name: 1e-4 * (5 if good and name.endswith(" n") else 1) for name in runs}

    monkeypatch.setattr(calibration, "ready", lambda function, *rest: function)
    monkeypatch.setattr(calibration, "interleaved", timed)
    found = Calibrator("c", None, HOST_DEFAULTS).profile()
    assert len(attempts) == 4 and is_typical(found) and found.source.endswith(BUSY)
    assert found.multiply_adds == HOST_DEFAULTS.multiply_adds  # what was not distinguished is as it was


class Picky(JsonBackend):
    """Takes dense layers of constant weights alone."""

    name = "test_picky"

    @property
    def constraints(self):
        return (dense_alone,)


@constraint("operator")
def dense_alone(call):
    """dense layers"""
    return None if callee_name(call) == "nn.dense" else callee_name(call)


@pytest.fixture
def picky(of_this_test):
    register_backend(Picky)
    return Picky.name


def test_a_backend_is_not_asked_for_what_it_refuses(picky, monkeypatch):
    monkeypatch.setattr(calibration, "senseless", lambda found, asked: [])  # a busy machine is no failure
    built = []

    def build(mod):
        built.append([c.op.name for f in mod.functions.values() for c in unit_calls(f)])
        return build_alone(mod)

    found = Calibrator(picky, build, NUMPY_DEFAULTS, turns=Turns(1, 0.0)).profile()
    assert {name for names in built[:-2] for name in names} == {"nn.dense"}
    assert found.launch > 0 and found.multiply_adds["float32"] != NUMPY_DEFAULTS.multiply_adds["float32"]
    assert found.window == NUMPY_DEFAULTS.window and "window" not in found.source


def test_a_calibration_ends_in_time_with_what_it_has():
    clock, seconds = Ticking(), itertools.cycle([1e-3, 5e-3])  # of one step, and of many

    def ready(function, target, build, threads, mod):
        clock.now += 1.0
        return clock.run(next(seconds))

    calibrator = Calibrator("c", None, HOST_DEFAULTS, turns=Turns(2, 0.0), clock=clock)
    calibrator.until = 5.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "ready", ready)
        found = calibrator.profile()
    assert clock.now < 7 and found.source.endswith(f"move, library: {LATE}") and "product" in found.source
    assert found.multiply_adds == HOST_DEFAULTS.multiply_adds and found.pointwise == HOST_DEFAULTS.pointwise
    assert found.kernel != HOST_DEFAULTS.kernel and is_incomplete(found) and not is_typical(found)


def test_what_is_slow_to_run_is_timed_no_longer_than_the_limit(monkeypatch):
    """A run takes a second, so that ten of forty functions have their turn before the time is over."""
    clock = Ticking()
    monkeypatch.setattr(calibration, "ready", lambda *rest: clock.run(1.0))
    calibrator = Calibrator("c", None, HOST_DEFAULTS, turns=Turns(7, 0.0), clock=clock)
    calibrator.until, heard = 30.0, []
    calibrator.progress = heard.append
    found = calibrator.profile()
    assert clock.now <= 33 and found.source.endswith(f": {BUSY} and {LATE}") and is_incomplete(found)
    assert heard[-1] == "calibrating c: timing 40 functions, attempt 1 of at most 4, round 1 of 7"


def test_without_any_time_all_is_typical():
    calibrator = Calibrator("c", None, HOST_DEFAULTS, clock=lambda: 1.0)
    calibrator.until = 0.0
    found = calibrator.profile()
    assert is_typical(found) and is_incomplete(found)
    assert replace(found, device=HOST_DEFAULTS.device, source=HOST_DEFAULTS.source) == HOST_DEFAULTS


def test_turns_end_in_time_with_those_that_had_one():
    clock = Ticking()
    runs = {"a": clock.run(1.0), "b": clock.run(1.0), "c": clock.run(1.0)}
    assert interleaved(runs, Turns(rounds=3, seconds=0.0), clock, until=4.0) == {"a": 1.0, "b": 1.0}
