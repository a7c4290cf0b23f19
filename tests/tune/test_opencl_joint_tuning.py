"""Placement and tuning in one run: copies count where an operator goes, and what goes to the device is tuned there.

Costs are given, so that what is chosen does not depend on this machine's clock; the trials are real.
"""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc.codegen.tune.level import LEVELS
from byoc.codegen.tune.tuner import Tuner, own_database
from byoc.contract import callee_name
from byoc.partition.costs.model import CostModel, Estimate

pytestmark = [pytest.mark.needs_opencl, pytest.mark.needs_cc]
SHAPE = (1, 8, 20, 20)
ON_HOST = 5e-6  # seconds of the operator between: locally the host is the faster one
NEAR, FAR = 2e-5, 2e-3  # what it takes on the device: less, and more, than a result to the host and back takes


def network():
    """A convolution, a Softmax and a convolution."""
    rng = np.random.default_rng(0)
    weights = [(rng.standard_normal((8, 8, 3, 3)) / 9).astype("float32") for _ in range(2)]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Softmax", ["a"], ["b"], "between", axis=-1),
        helper.make_node("Conv", ["b", "w1"], ["y"], "last", pads=[1, 1, 1, 1]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xy"]
    constants = [numpy_helper.from_array(w, f"w{k}") for k, w in enumerate(weights)]
    graph = helper.make_graph(nodes, "joint", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


class Costs(CostModel):
    """Convolutions take 2 ms on the host and 0.2 on the device; the operator *between* so many seconds there.

    A transfer takes 10 us and half a nanosecond a byte.
    """

    name = "test"

    def __init__(self, between):
        self.between = between

    def units(self, calls, target, precision=""):
        local, convolution = (ON_HOST, 2e-3) if target == "host" else (self.between, 2e-4)
        return [Estimate(local if callee_name(c) == "nn.softmax" else convolution, "test") for c in calls]

    def transfer(self, size, source, destination):
        return Estimate(1e-5 + size / 2e9, "test")

    def launch(self, target):
        return Estimate(0.0, "test")


def compiled(between, **options):
    return byoc.compile(network(), targets=["opencl"], policy="cost", costs=Costs(between), **options)


def targets(library):
    """Where each operator of the model went, by its ONNX node."""
    return {node: d["target"] for d in library.report["plan"]["decisions"] for node in d["nodes"]}


def check(library):
    x = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")
    session = onnxruntime.InferenceSession(network(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(library.run({"x": x})[0], session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_the_locally_faster_place_is_left_where_copies_cost_more_than_it_gains(cache):
    kept, moved = compiled(NEAR), compiled(FAR)
    assert set(targets(kept).values()) == {"opencl"} and len(kept.report["plan"]["moves"]) == 2
    assert targets(moved) == {"first": "opencl", "between": None, "last": "opencl"}
    assert len(moved.report["plan"]["moves"]) == 4
    for library in (kept, moved):
        check(library)


CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
from test_opencl_joint_tuning import NEAR, compiled, targets
library = compiled(NEAR, tune="fast")
print(json.dumps([library.report["tuning"]["trials"], targets(library)]))
"""


@pytest.mark.slow
def test_placement_with_copies_and_trials_are_one_run_and_a_second_process_tries_nothing(cache):
    tuner = Tuner(dataclasses.replace(LEVELS["fast"], seconds=3600.0), own_database())
    library = compiled(NEAR, tune=tuner)
    report = library.report["tuning"]
    tried = [row for row in report["tuned"] if row.get("device")]
    assert set(targets(library).values()) == {"opencl"} and tried
    for row in tried:  # several of each, measured at least three times where it was not hopeless
        assert len(row["trials"]) > 1 and row["trials"][0]["choice"] == row["expected"]
    check(library)
    done = subprocess.run([sys.executable, "-c", CHILD, os.path.dirname(__file__)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [0, targets(library)]
