"""Which costs a plan has: what is measured here, when, who passes costs instead, and what is kept."""

import json
import os
import pathlib
from dataclasses import replace

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.contract.registration import get_backend
from byoc.driver.costs import calibrate as calibration
from byoc.driver.costs import machine
from byoc.driver.costs.calibrate import BUSY, LATE, NOTHING
from byoc.driver.costs.store import CostStore
from byoc.ir.module import IRModule
from byoc.partition.costs.analytic import default_profile
from byoc.partition.costs.profile import GPU_DEFAULTS, HOST_DEFAULTS, OPENCL_ON_CPU_DEFAULTS
from byoc.relay.transform import InferType
from byoc.runtime.core.processor import usable_processors

DIGITS = str(pathlib.Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx")
TRUE = replace(HOST_DEFAULTS, multiply_adds={"*": 7e10}, kernel=1e-7, source="calibrated")


@pytest.fixture
def calibrated(monkeypatch):
    """What was asked to be calibrated; each is found as TRUE, or as ``calibrated.found`` says."""

    class Asked(list):
        found = TRUE

    asked = Asked()
    monkeypatch.setattr(calibration.Calibrator, "profile", lambda self: asked.append(self._backend) or asked.found)
    monkeypatch.setattr(machine, "_FOUND", {})
    return asked


def test_what_a_busy_machine_gave_is_reported_and_used_for_a_while(calibrated, monkeypatch, tmp_path):
    calibrated.found = busy = replace(TRUE, source=f"calibrated, without product: {BUSY}")
    for _ in range(2):  # the second is another Machine, as in another process
        asked = machine.MachineCosts(1, CostStore(tmp_path))
        assert asked.profile("c") == busy and calibrated == ["c"]
        assert asked.problems == [
            f"c: calibrated, without product: {BUSY}; typical numbers stand in until it is calibrated again, after 30 "
            "minutes or by byoc calibrate"
        ]
    (kept,) = tmp_path.glob("profile_*")
    long_ago = kept.stat().st_mtime - machine.BUSY_SECONDS - 1
    os.utime(kept, (long_ago, long_ago))
    calibrated.found = TRUE
    assert machine.MachineCosts(1, CostStore(tmp_path)).profile("c") == busy and calibrated == [
        "c"
    ]  # this process keeps it
    monkeypatch.setattr(machine, "_FOUND", {})
    asked = machine.MachineCosts(1, CostStore(tmp_path))
    assert (
        asked.profile("c") == TRUE == machine.MachineCosts(1, CostStore(tmp_path)).profile("c") and asked.problems == []
    )


def test_what_cannot_be_kept_is_kept_for_the_process(calibrated, tmp_path):
    (tmp_path / "file").write_text("no folder")
    for _ in range(2):
        asked = machine.MachineCosts(1, CostStore(tmp_path / "file"))
        assert asked.profile("c") == TRUE and calibrated == ["c"]


@pytest.mark.parametrize("reason", [BUSY, LATE])
def test_a_whole_profile_is_not_replaced_by_one_that_lacks_something(calibrated, tmp_path, reason):
    asked = machine.MachineCosts(1, CostStore(tmp_path))
    assert asked.calibrate("c") == TRUE
    calibrated.found = replace(TRUE, kernel=1.0, source=f"calibrated, without product: {reason}")
    assert asked.calibrate("c") == TRUE == machine.MachineCosts(1, CostStore(tmp_path)).kept("c")
    assert asked.problems == [f"c: calibrated, without product: {reason}; what was measured before stays"]


def test_what_lacks_everything_is_kept_for_the_process_alone(calibrated, monkeypatch, tmp_path):
    calibrated.found = replace(TRUE, source=f"{NOTHING}{LATE}")
    for _ in range(2):
        asked = machine.MachineCosts(1, CostStore(tmp_path))
        assert asked.profile("c") == calibrated.found and calibrated == ["c"] and LATE in asked.problems[0]
    assert not list(tmp_path.iterdir())
    assert asked.kept_in_full("c") is None  # byoc calibrate measures it again
    CostStore(tmp_path).keep_profile(asked.facts("c"), TRUE)  # by another process
    assert asked.profile("c") == TRUE


def test_all_calibrations_of_a_plan_share_one_time_limit(calibrated, own_store, monkeypatch):
    ends = []
    monkeypatch.setattr(
        calibration.Calibrator, "profile", lambda self: ends.append((self._backend, self.until - self._clock())) or TRUE
    )
    digits_on_json(costs="analytic")
    (first, half), (second, rest) = ends
    assert {first, second} == {"c", "json"}
    assert half <= machine.LONGEST_SECONDS / 2 and machine.LONGEST_SECONDS - 20 < rest <= machine.LONGEST_SECONDS


def test_each_calibration_has_its_share_of_what_is_left():
    now = [100.0]
    limit = machine.CalibrationTime(90.0, shares=3, clock=lambda: now[0])
    assert limit.next_end() == 130.0
    now[0] = 110.0
    assert limit.next_end() == 150.0 and not limit.is_over
    now[0] = 191.0
    assert limit.is_over and limit.next_end() < now[0]


def digits_on_json(**options):
    return byoc.plan(DIGITS, ["json", "c"], policy="cost", **options)


@pytest.fixture
def own_store(monkeypatch, tmp_path):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path))
    return CostStore(machine.cache_dir() / machine.FOLDER)


def test_no_machine_is_asked_unless_the_user_wants_it(calibrated, own_store):
    plan = digits_on_json()
    assert calibrated == []
    (note,) = plan.notes
    assert note.startswith("costs are typical numbers: this machine is not calibrated for json, c")
    assert note.endswith("byoc calibrate -t json,c does it, once")
    assert plan.total == digits_on_json(costs="typical").total
    digits_on_json(costs="analytic")
    assert sorted(calibrated) == ["c", "json"]


def test_what_was_calibrated_is_used_when_all_devices_are(calibrated, own_store):
    for name, more in (("c", True), ("json", False)):
        assert machine.MachineCosts(1, own_store).profile(name) == TRUE
        assert any("typical" in note for note in digits_on_json().notes) == more
    assert digits_on_json().total == digits_on_json(costs="analytic").total != digits_on_json(costs="typical").total


def test_orders_and_scores_ask_for_no_costs(calibrated, own_store):
    assert byoc.plan(DIGITS, ["json", "c"]).notes == () and calibrated == []


def test_progress_is_reported_while_a_plan_calibrates(own_store, monkeypatch):
    monkeypatch.setattr(calibration, "ready", lambda function, *rest: function)
    monkeypatch.setattr(calibration, "interleaved", lambda runs, *rest: {n: 1e-3 * len(n) for n in runs})
    monkeypatch.setattr(machine, "_FOUND", {})
    heard = []
    digits_on_json(costs="analytic", progress=heard.append)
    assert heard[:2] == ["reading the model", "planning"]
    assert "calibrating c (1 thread): product, 7 of 20" in heard
    assert any(stage.startswith("calibrating json: timing") for stage in heard)


@pytest.mark.parametrize("threads, shape", [(1, (4, 4)), (None, (512, 512))])
def test_the_hosts_threads_are_those_of_a_run(threads, shape):
    x = relay.var("x", shape=shape)
    mod = InferType()(IRModule({"main": relay.Function([x], relay.nn.dense(x, x))}))
    assert machine.threads_for(mod) == (threads or usable_processors())
    library = byoc.compile(mod, ["c"])
    assert library.executor().threads == machine.threads_for(mod)


def test_typical_costs_know_the_kind_of_device(monkeypatch):
    opencl = type(get_backend("opencl"))
    for kind, expected in (("cpu", OPENCL_ON_CPU_DEFAULTS), ("gpu", GPU_DEFAULTS), (None, GPU_DEFAULTS)):
        monkeypatch.setattr(opencl, "device_kind", lambda self, kind=kind: kind)
        assert default_profile("opencl") == expected


def test_a_processor_under_opencl_gets_no_product_of_the_host(monkeypatch):
    x, w = relay.var("x", shape=(64, 256)), relay.const(np.ones((256, 256), "float32"))
    mod = IRModule({"main": relay.Function([x], relay.nn.relu(relay.nn.dense(x, w)))})
    monkeypatch.setattr(type(get_backend("opencl")), "device_kind", lambda self: "cpu")
    plan = byoc.plan(mod, ["opencl", "c"], policy="cost", costs="typical")
    assert not plan.regions


def test_calibrate_prints_what_it_found_and_keeps_it(calibrated, own_store, capsys):
    assert main(["calibrate", "-t", "json", "--threads", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["c", "json"] and calibrated == ["c", "json"]
    assert lines[2].split()[1:3] == ["1", "140"]  # two operations a multiply-add
    assert main(["calibrate", "-t", "json", "--threads", "1", "--json"]) == 0 and calibrated == ["c", "json"]
    assert json.loads(capsys.readouterr().out)["profiles"][0]["kernel"] == 1e-7
    assert main(["calibrate", "--threads", "1", "--again"]) == 0 and calibrated == ["c", "json", "c"]
    assert digits_on_json().notes == ()


@pytest.mark.needs_cc
def test_a_command_whose_time_is_over_says_what_is_typical_and_keeps_nothing(own_store, monkeypatch, capsys):
    monkeypatch.setattr(machine, "_FOUND", {})
    assert main(["calibrate", "-t", "json", "--threads", "1", "--time-limit", "1e-6"]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: ")]
    assert [note.split(":")[1].strip() for note in notes] == ["c", "json"]
    assert all(f"typical numbers alone: {LATE}; typical numbers stand in" in note for note in notes)
    assert not own_store.folder.exists()


@pytest.mark.parametrize(
    "words, said",
    [
        (["--threads", "0"], "--threads 0: give a whole number from 1"),
        (["--time-limit", "0"], "--time-limit 0: give seconds above 0"),
        (["-t", "acmee"], "no backend is called 'acmee'"),
    ],
)
def test_a_mistake_in_calibrate_is_one_sentence(words, said, capsys):
    assert main(["calibrate", *words]) == 2
    assert said in capsys.readouterr().err
