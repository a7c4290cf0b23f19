"""A plan by measured costs is held against the host alone and each target alone, and not given where one is faster."""

import json
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.codegen.json.backend import JsonBackend
from byoc.contract import callee_name, constraint, register_backend
from byoc.driver.compiler import module_plan as module
from byoc.driver.costs import MachineCosts
from byoc.ir.module import IRModule
from byoc.partition.costs.analytic import default_profile
from byoc.runtime.json import KernelTable

DIGITS = pathlib.Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
COSTS = {"test_tiring": lambda unit, place: 0.0, "c": "measured"}  # its vendor says that all is free


def relu(data):
    """As fast as numpy, but for numbers that no probe has."""
    if np.max(data, initial=0) > 1:
        time.sleep(0.02)
    return np.maximum(data, 0)


@constraint("operator")
def relu_alone(call):
    """relu"""
    return None if callee_name(call) == "nn.relu" else callee_name(call)


class Tiring(JsonBackend):
    """Fast at probes."""

    name = table = "test_tiring"
    constraints = (relu_alone,)


@pytest.fixture(autouse=True, scope="module")
def tiring(of_this_module):
    table = KernelTable("test_tiring")
    table.kernel("nn.relu")(relu)
    register_backend(Tiring)


@pytest.fixture(autouse=True)
def calibrated(monkeypatch):
    monkeypatch.setattr(MachineCosts, "profile", lambda self, backend: default_profile(backend))


def network(shape=(8, 8)):
    x = relay.var("x", shape=shape)
    body = relay.nn.relu(relay.multiply(x, relay.const(np.float32(1000))))
    return IRModule({"main": relay.Function([x], relay.subtract(body, relay.const(np.float32(1))))})


def test_a_plan_that_the_host_beats_is_reported_and_not_given():
    plan = byoc.plan(network(), ["test_tiring", "c"], policy="cost", costs=COSTS)
    assert not plan.regions
    assert plan.notes[-1].startswith("this is the host alone, which takes ")
    assert "the cheapest cut by measured kernels takes" in plan.notes[-1]
    (decision,) = (d for d in plan.decisions if d.operator == "nn.relu")
    assert "the host alone is faster, as measured" in str(dict(decision.verdicts)["test_tiring"])


def test_compile_does_as_plan():
    library = byoc.compile(network(), ["test_tiring", "c"], policy="cost", costs=COSTS)
    assert not library.report["plan"]["regions"]
    x = np.full((8, 8), 0.5, "float32")
    np.testing.assert_array_equal(library(x), np.full((8, 8), 499.0, "float32"))


FREE = {"format": "byoc.costs/1", "operators": {"nn.relu": 0.0}}
RUN = """
import sys
import numpy as np
import byoc.runtime
library = byoc.runtime.load(sys.argv[1])
np.save(sys.argv[2], library(np.load(sys.argv[3])))
"""


@pytest.mark.needs_cc
def test_a_device_that_is_slow_in_a_real_model_is_left_out_by_the_command_line(tmp_path, monkeypatch, capsys):
    """Its vendor's table says that each relu is free; in the network it takes 20 milliseconds, the host 40 microseconds
    for all.
    """
    ort = pytest.importorskip("onnxruntime")
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "free.json").write_text(json.dumps(FREE))
    words = ["compile", str(DIGITS), "--shape", "image=1,1,8,8", "-t", "test_tiring,c", "--policy", "cost"]
    words += ["--costs", f"test_tiring={tmp_path / 'free.json'}", "-o", str(tmp_path / "m.byoc"), "--json"]
    plans = {}
    for costs in ("typical", "measured"):
        assert main([*words, "--costs", f"c={costs}"]) == 0
        plans[costs] = json.loads(capsys.readouterr().out)["plan"]
    assert len(plans["typical"]["regions"]) == 3  # what the table promises is believed where nothing is measured
    plan = plans["measured"]
    assert plan["regions"] == []
    assert re.fullmatch(
        r"this is the host alone, which takes [\d.]+ (us|ms): the cheapest cut by measured kernels takes [\d.]+ ms, "
        r"for an estimate of [\d.]+ (us|ms)",
        plan["notes"][-1],
    )
    reasons = {d["operator"]: str(d["verdicts"]) for d in plan["decisions"]}
    assert "the host alone is faster, as measured" in reasons["nn.relu"]
    assert "the host alone" not in reasons["nn.conv2d"] and "relu" in reasons["nn.conv2d"]  # its own refusal
    image = np.random.default_rng(0).random((1, 1, 8, 8), "float32")
    np.save(tmp_path / "image.npy", image)
    places = [str(tmp_path / name) for name in ("m.byoc", "out.npy", "image.npy")]
    subprocess.run([sys.executable, "-c", RUN, *places], check=True)
    session = ort.InferenceSession(DIGITS, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"image": image})
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("plan_seconds, given", [(0.99e-3, True), (1.01e-3, False), (2e-3, False)])
def test_the_faster_is_given_and_both_are_reported(monkeypatch, plan_seconds, given):
    monkeypatch.setattr(module, "_seconds", lambda libraries: {"the plan": plan_seconds, "the host alone": 1e-3})
    plan = byoc.plan(network(), ["test_tiring", "c"], policy="cost", costs=COSTS)
    assert bool(plan.regions) == given
    assert ("measured: " in plan.notes[-1]) == given


def test_what_cannot_be_measured_is_reported():
    plan = byoc.plan(network((relay.Any(), 8)), ["test_tiring", "c"], policy="cost", costs=COSTS)
    assert plan.regions and "was not measured beside the host alone" in plan.notes[-1]


def test_other_costs_build_nothing(monkeypatch):
    monkeypatch.setattr(module, "_seconds", lambda libraries: pytest.fail("measured"))
    costs = {**COSTS, "c": "typical"}
    assert byoc.plan(network(), ["test_tiring", "c"], policy="cost", costs=costs).regions
    assert byoc.plan(network(), ["test_tiring", "c"], costs=COSTS).regions


def split_network():
    x = relay.var("x", shape=(8, 8))
    half = relay.nn.relu(relay.multiply(x, relay.const(np.float32(2))))
    return IRModule({"main": relay.Function([x], relay.nn.relu(relay.subtract(half, relay.const(np.float32(1)))))})


def test_a_target_alone_is_given_where_the_plan_is_slower(monkeypatch):
    seen = {}

    def timed(libraries):
        seen.update(libraries)
        return dict(zip(libraries, (3e-3, 2e-3, 1e-3), strict=True))

    monkeypatch.setattr(module, "_seconds", timed)
    dear = {"test_tiring": lambda unit, place: 1.0, "c": "measured"}  # so that the plan leaves all to the host
    plan = byoc.plan(split_network(), ["test_tiring", "c"], policy="cost", costs={**dear, "test_tiring": mixed()})
    assert list(seen) == ["the plan", "the host alone", "test_tiring alone"]
    assert len(plan.regions) == 2 and plan.notes[-1].startswith("this is test_tiring alone, which takes 1 ms")


def mixed():
    """Costs by which the first relu is free, and others are dear."""
    prices = iter([0.0])
    known = {}

    def cost(unit, place):
        return known.setdefault(str(unit), next(prices, 1.0))

    return cost
