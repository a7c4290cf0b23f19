"""A plan by measured costs is held against the host alone and each target alone, and not given where one is faster."""

import time

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.codegen.json.backend import JsonBackend
from byoc.contract import callee_name, constraint, register_backend
from byoc.driver.compiler import module_plan as module
from byoc.driver.costs import MachineCosts
from byoc.ir.module import IRModule
from byoc.partition.costs.analytic import default_profile
from byoc.runtime.json import KernelTable

COSTS = {"test_tiring": lambda unit, place: 0.0, "c": "measured"}  # its vendor says that all is free


def relu(data):
    """As fast as numpy, but for numbers that no probe has."""
    if np.max(data, initial=0) > 10:
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
