"""The cost model of products and of Winograd's method by what is known of a device: peaks, registers, lanes."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnxruntime
import pytest
from test_opencl_images import as_model, convolution, notes_of, opencl_part

import byoc
from byoc.codegen.opencl import backend, tuned
from byoc.codegen.opencl.device import profile as profiles
from byoc.codegen.opencl.device.choosing import penalty
from byoc.codegen.opencl.device.profile import ANY_CPU, ANY_GPU, DeviceProfile, profile_of, with_rates
from byoc.codegen.opencl.device.rates import FITTED, DeviceRates
from byoc.codegen.opencl.products.candidates import candidates
from byoc.codegen.opencl.products.tile import TILES, cost_of
from byoc.codegen.tune.level import LEVELS
from byoc.codegen.tune.tuner import Tuner, own_database
from byoc.errors import DeviceError
from byoc.runtime.devices.peak import Peak
from byoc.runtime.opencl import devices
from byoc.runtime.opencl.devices import open_device
from byoc.runtime.opencl.peaks import EDITION, SETTING
from byoc.runtime.opencl.settings import settings_of

H100 = DeviceProfile("gpu", 132, 48 << 10, 1024)
SMALL = DeviceRates(2e4, 5e4, 15.0)  # 24 units of 0.02 TFLOP/s each, 50 GB/s: a GPU within a processor
PEAK = Peak({"float32": 4.8e11, "*": 4.8e11}, 5e10, "measured on a small GPU", 1.5e-5)


class Product:
    """What candidates ask of a product: its sizes and the dtype of its sums."""

    def __init__(self, *sizes):
        self.reduce = type("Sums", (), {"dtype": "float32"})
        self.sizes = lambda: sizes


def best(profile, *sizes, parts=(1, 2, 4, 8, 16, 32)):
    return candidates(Product(*sizes), profile, parts)[0]


SHAPES = [(1, 64, 196, 576), (1, 512, 49, 4608), (1, 1000, 1, 2048), (12, 128, 128, 64), (1, 4096, 4096, 4096)]


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_rates_of_the_device_that_the_model_was_fitted_on_change_nothing(sizes):
    known = dataclasses.replace(H100, rates=FITTED)
    assert candidates(Product(*sizes), known, (1, 2, 4)) == candidates(Product(*sizes), H100, (1, 2, 4))


def test_a_slower_unit_takes_longer_for_a_step_and_slower_memory_for_parts():
    tile, pace = TILES[0]
    size = (1, 256, 256, 1024)
    one = cost_of(size, tile, pace, 1, 132)
    slow = dataclasses.replace(FITTED, operations=FITTED.operations / 4)
    assert cost_of(size, tile, pace, 1, 132, slow) == pytest.approx(4 * one)
    for other in (dataclasses.replace(FITTED, bytes=FITTED.bytes / 10), dataclasses.replace(FITTED, launch=62.0)):
        assert cost_of(size, tile, pace, 1, 132, other) == one
        assert cost_of(size, tile, pace, 4, 132, other) > cost_of(size, tile, pace, 4, 132)


def test_a_device_whose_launches_take_long_divides_fewer_sums():
    def parts(launch):
        return best(dataclasses.replace(H100, rates=dataclasses.replace(FITTED, launch=launch)), 1, 64, 64, 4608).parts

    found = [parts(launch) for launch in (0.5, 6.2, 60.0, 600.0)]
    assert found == sorted(found, reverse=True) and found[0] > 1 == found[-1]


def test_a_slow_unit_divides_sums_that_a_fast_one_does_not():
    """A second kernel is little beside what its parts save where a step takes long."""
    few = DeviceProfile("gpu", 24, 48 << 10, 1024)
    slow = dataclasses.replace(few, rates=dataclasses.replace(SMALL, launch=FITTED.launch))
    assert best(few, 1, 64, 64, 128, parts=(1, 2)).parts == 1
    assert best(slow, 1, 64, 64, 128, parts=(1, 2)).parts == 2


def test_winograds_method_is_weighed_by_what_memory_and_units_are_measured_to_do(monkeypatch):
    from byoc.codegen.opencl.winograd import rewrite

    costs = {}
    plan = type("Tiles", (), {"largest": 1, "moved": 10_000_000})()
    monkeypatch.setattr(rewrite, "_products_alone", lambda plan: None)
    monkeypatch.setattr(rewrite, "_tiled_cost", lambda stage, profile: 10.0)
    for name, rates in (("none", None), ("fitted", FITTED), ("memory", dataclasses.replace(FITTED, bytes=1e5))):
        costs[name] = rewrite.winograd_cost(plan, dataclasses.replace(H100, rates=rates))
    assert costs["none"] == costs["fitted"] < costs["memory"]


def test_tiles_that_the_registers_of_a_group_do_not_hold_are_no_candidates():
    def largest(registers):
        found = candidates(Product(1, 4096, 4096, 4096), dataclasses.replace(H100, registers=registers))
        return {c.tile for c in found}

    everything = largest(0)
    assert largest(1 << 16) == everything, "the tiles were measured on such a device"
    fewer = largest(1 << 14)
    assert fewer < everything and all(t.items * t.registers <= 1 << 14 for t in fewer)
    assert largest(8), "a driver that lies does not leave a product without a tile"


def test_groups_that_leave_lanes_idle_are_tried_later():
    assert penalty(8, 64, 32) > penalty(32, 64, 32) == penalty(32, 64)
    assert penalty(48, 64, 32) > penalty(48, 64)
    assert penalty(64, 64, 32) == 0.0


@pytest.mark.parametrize(
    "peak",
    [Peak({"*": 0.0}, 1.0, launch=1.0), Peak({"*": 1.0}, 0.0, launch=1.0), Peak({"*": 1.0}, 1.0), Peak({}, 1.0)],
)
def test_peaks_that_are_no_rates_are_not_taken(peak):
    assert with_rates(ANY_GPU, peak).rates is None and with_rates(ANY_GPU, None).rates is None


def test_a_processor_keeps_the_model_of_its_own():
    assert with_rates(ANY_CPU, PEAK) == ANY_CPU
    rates = with_rates(dataclasses.replace(ANY_GPU, units=24), PEAK).rates
    assert rates == DeviceRates(2e4, 5e4, 15.0, PEAK.source)


@pytest.fixture
def as_gpu(monkeypatch, tmp_path):
    """PoCL's device as one that says that it is a GPU, with empty caches."""
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path))
    opened = open_device()
    seen = dataclasses.replace(opened, info=dataclasses.replace(opened.info, kind="gpu", units=24))
    for module in (profiles, tuned):
        monkeypatch.setattr(module, "open_device", lambda *_: seen)
    return seen


def network():
    rng, constants = np.random.default_rng(0), []
    nodes = [convolution("first", "x", "y", 64, 64, 3, 1, constants, rng)]
    return as_model(nodes, {"x": (1, 64, 8, 8)}, ["y"], constants)


def keep(opened, peak):
    kept = {"edition": EDITION, "operations": dict(peak.operations), "bandwidth": peak.bandwidth}
    settings_of(opened).put(SETTING, {**kept, "launch": peak.launch, "near": [peak.bandwidth] * 3})


@pytest.mark.needs_opencl
def test_what_was_measured_before_is_used_and_told_and_nothing_is_measured_behind_the_users_back(as_gpu, monkeypatch):
    monkeypatch.setattr(tuned, "device_peak", lambda opened: pytest.fail("measured"))
    model, x = network(), np.random.default_rng(1).standard_normal((1, 64, 8, 8)).astype("float32")
    want = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = want.run(None, {"x": x})
    found = []
    for peak in (None, PEAK, dataclasses.replace(PEAK, launch=1e-2)):
        if peak is not None:
            keep(as_gpu, peak)
        library = byoc.compile(model, ["opencl"], backend_options={"opencl": {"mode": "memory=buffer"}})
        np.testing.assert_allclose(library.run({"x": x})[0], want, rtol=1e-4, atol=1e-5)
        notes = [n for n in notes_of(library) if n.startswith("cost model: ")]
        assert len(notes) == (peak is not None)
        assert not notes or (f"{1e6 * peak.launch:.3g} a launch; measured on" in notes[0])
        found.append(len(opencl_part(library).plans[0].launches))
    assert found[2] < found[1], "sums are not divided where a launch takes 10 ms"


@pytest.mark.needs_opencl
def test_a_level_that_measures_the_device_measures_its_peaks_once(as_gpu, monkeypatch):
    calls = []
    monkeypatch.setattr(tuned, "device_peak", lambda opened: calls.append(opened) or PEAK)

    def after(level):
        tuner = Tuner(LEVELS[level], own_database())
        return tuned.measured_rates(profiles.profile_for({}), tuner), tuner

    assert after("fast")[0].rates is None and not calls
    assert after("normal")[0].rates == DeviceRates.of(PEAK, 24) and calls == [as_gpu]
    keep(as_gpu, PEAK)
    assert after("heavy")[0].rates.launch == pytest.approx(15.0) and len(calls) == 1

    def refuse(opened):
        raise DeviceError("its clock says that work took no time")

    monkeypatch.setattr(tuned, "device_peak", refuse)
    settings_of(as_gpu).put(SETTING, {"edition": 0})
    made, tuner = after("normal")
    assert made.rates is None
    why = "the cost model is for an H100's rates: its clock says that work took no time"
    assert tuner.report.notes == [f"{as_gpu.info.name}: {why}"]


@pytest.mark.needs_opencl
def test_a_device_is_asked_for_its_registers_and_the_groups_that_run_in_step():
    info = open_device().info
    assert info.group_multiple >= 1 and info.registers >= 0
    gpu = profile_of(dataclasses.replace(info, kind="gpu", registers=1 << 16, group_multiple=32))
    assert (gpu.registers, gpu.multiple) == (1 << 16, 32)
    assert profile_of(dataclasses.replace(info, kind="cpu")).multiple == 1
    assert backend.measured_rates is tuned.measured_rates


def test_without_any_device_the_report_says_for_which_kernels_are_written(monkeypatch):
    monkeypatch.setattr(devices, "_found_devices", lambda: [])
    monkeypatch.setattr(devices, "_open", devices._open.__wrapped__)
    monkeypatch.delenv(devices.DEVICE_VARIABLE, raising=False)
    library = byoc.compile(network(), ["opencl"])
    assert [n for n in notes_of(library) if n.startswith("no OpenCL device is here: kernels are written for any GPU")]
