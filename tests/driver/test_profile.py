"""``library.profile`` on compiled models: structure and counts; times are asked only to be there."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.driver.compiler.compile_times import StageTimes, timed_compile
from byoc.driver.costs import machine, peaks
from byoc.driver.options import CompileRequest
from byoc.driver.vm.compile import compile_module
from byoc.errors import InputError, UserError
from byoc.ir.module import IRModule
from byoc.partition.costs.profile import HOST_DEFAULTS
from byoc.runtime import cpu
from byoc.runtime.vm import VirtualMachine

ROOT = pathlib.Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
NODES = {"node_Conv_26", "node_Conv_27", "node_Conv_28", "node_linear", "node_softmax", "node_max_pool2d"}
pytestmark = pytest.mark.needs_cc


@pytest.fixture(scope="module")
def library():
    """The digit classifier over the JSON backend and the host."""
    return byoc.compile(DIGITS, targets=["json", "c"], exclude=["nn.softmax"])


def names(profile, by):
    return {row.name for row in profile.rows(by)}


def test_a_profile_has_all_levels(library):
    profile = library.profile(repeat=2, warmup=1)
    assert len(profile.seconds) == len(profile.whole) == 2
    assert names(profile, "region") == {"tvmgen_default_json_main_0", "host"}
    assert {"nn.conv2d", "nn.dense", "nn.softmax"} <= names(profile, "operator")
    assert {name for row in profile.rows("node") for name in row.nodes} >= NODES
    assert {f.backend for f in profile.functions} == {"json", "c"}
    assert all(f.runs and all(end >= begin for run in f.runs for begin, end in run) for f in profile.functions)
    assert profile.memory["constants"] == library.module.constant_bytes
    assert any("cannot be divided from outside" in note for note in profile.notes)


def test_functions_are_at_work_in_the_order_of_the_graph():
    library = byoc.compile(DIGITS, targets=["json", "c"], exclude=["nn.softmax", "nn.max_pool2d"])
    calls = library.graph_executor().graph.calls
    profile = library.profile(repeat=1)
    begun = sorted((span[0], f.symbol) for f in profile.functions for span in f.runs[0])
    assert [symbol for _, symbol in begun] == [node.function for node in calls if node.function != "__nop"]


def test_a_region_that_falls_back_is_reported(monkeypatch):
    library = byoc.compile(DIGITS, targets=["json", "c"], exclude=["nn.softmax"], fallback=True)

    def broken(*arrays):
        raise RuntimeError("the device is gone")

    module = next(m for m in library.module.imports if m.type_key == "json")
    monkeypatch.setattr(module, "get_function", lambda name, query_imports=False: broken)
    notes = library.profile(repeat=1, warmup=0).notes
    assert any(note.startswith("on the host instead: region tvmgen_default_json_main_0") for note in notes)


def test_the_numpy_kernels_of_a_region_are_measured_one_by_one(library):
    (region,) = (f for f in library.profile(repeat=1, warmup=0).functions if f.is_region)
    assert {part.name for part in region.parts} == {operator.operator for operator in region.operators}
    assert all(len(part.runs) == 1 for part in region.parts)
    counts = {part.name: len(part.runs[0]) for part in region.parts}
    assert counts["nn.conv2d"] == 3


def test_operations_and_bytes_are_those_of_the_sizes_that_ran(library):
    def conv(batch):
        image = np.zeros((batch, 1, 8, 8), "float32")
        rows = library.profile({"image": image}, repeat=1, warmup=0).rows("operator")
        return next(row for row in rows if row.name == "nn.conv2d")

    one, three = conv(1), conv(3)
    assert one.operations % (2 * 64 * 9) == 0 and three.operations == 3 * one.operations
    assert one.bytes < three.bytes < 3 * one.bytes  # weights are read once
    fixed = byoc.compile(DIGITS, targets=["json", "c"], shapes={"image": (3, 1, 8, 8)}).profile(repeat=1, warmup=0)
    same = next(row for row in fixed.rows("operator") if row.name == "nn.conv2d")
    assert (same.operations, same.bytes) == (three.operations, three.bytes)


def test_an_artefact_is_profiled_by_the_runtime_alone(library, tmp_path):
    path = library.save(tmp_path / "m.byoc")
    code = (
        "import sys, json, importlib.abc\n"
        "class No(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('byoc.driver', 'byoc.relay', 'byoc.ir', 'byoc.partition'):\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, No())\n"
        "import byoc.runtime\n"
        "p = byoc.runtime.load(sys.argv[1]).profile(repeat=1, warmup=0)\n"
        "assert '<html' in p.to_html() and p.trace()['traceEvents']\n"
        "print(json.dumps([[r.name, r.operations] for r in p.rows('operator')]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    here = {(r.name, r.operations) for r in library.profile(repeat=1, warmup=0).rows("operator")}
    assert set(map(tuple, json.loads(done.stdout))) == here


def test_results_are_the_same_after_a_profile(library):
    image = np.random.default_rng(0).random((2, 1, 8, 8), "float32")
    before = library(image)
    library.profile({"image": image}, repeat=1, warmup=0)
    np.testing.assert_array_equal(library(image), before)


def test_wrong_inputs_and_counts_are_refused(library):
    with pytest.raises(InputError, match="image"):
        library.profile({"image": np.zeros((1, 1, 8, 9), "float32")}, repeat=1)
    with pytest.raises(InputError, match="no input 'x'"):
        library.profile({"x": np.zeros(1)}, repeat=1)
    with pytest.raises(UserError, match="repeat is a whole number from 1 on, got 0"):
        library.profile(repeat=0)


@pytest.mark.needs_opencl
def test_a_devices_kernels_and_copies_are_reported_by_its_own_clock():
    library = byoc.compile(DIGITS, targets=["opencl", "c"], exclude=["nn.softmax"])
    profile = library.profile(repeat=2, warmup=1)
    (region,) = (f for f in profile.functions if f.is_region)
    shown = {part.name for part in region.parts}
    assert {"copy in", "copy out"} < shown and any("conv2d" in name for name in shown)
    kernels = [part for part in region.parts if part.nodes]
    assert {node for part in kernels for node in part.nodes} >= {"node_Conv_26", "node_linear"}
    assert all(gws % lws == 0 for part in kernels for gws, lws in [part.sizes])
    for run, ((begin, end),) in enumerate(region.runs):
        inside = [span for part in region.parts for span in part.runs[run]]
        assert all(0 <= a <= b for a, b in inside)
        assert sum(b - a for a, b in inside) < 2 * (end - begin) + 0.1
    image = np.random.default_rng(0).random((2, 1, 8, 8), "float32")
    expected = byoc.compile(DIGITS)(image)
    np.testing.assert_allclose(library(image), expected, rtol=1e-4, atol=1e-5)  # its queue keeps no times any more


def test_the_virtual_machine_is_profiled_call_by_call():
    x = relay.var("x", shape=(8, 8), dtype="float32")
    body = relay.nn.relu(relay.nn.dense(x, relay.const(np.ones((8, 8), "float32"))))
    executable = compile_module(IRModule.from_expr(relay.Function([x], body)))
    machine_ = VirtualMachine(executable, cpu())
    profile = machine_.profile(np.ones((8, 8), "float32"), repeat=2, warmup=1)
    (function,) = profile.functions
    assert profile.executor == "virtual machine" and len(profile.seconds) == 2
    assert [len(run) for run in function.runs] == [1, 1]
    assert {operator.operator for operator in function.operators} == {"nn.dense", "nn.relu"}
    assert function.bytes == 3 * 8 * 8 * 4  # data, weights, result
    assert sum(row.operations for row in profile.rows("operator")) == 2 * 8**3 + 8 * 8
    with pytest.raises(InputError, match="is not set"):
        VirtualMachine(executable, cpu()).profile()


def test_the_peaks_are_those_that_a_calibration_kept(monkeypatch, library):
    monkeypatch.setattr(machine.MachineCosts, "kept", lambda self, name: HOST_DEFAULTS if name == "c" else None)
    assert peaks.kept_peaks(["c", "json", "nobody"]) == {"c": peaks.peak_of(HOST_DEFAULTS)}
    profile = library.profile(repeat=1, warmup=0)
    reached = {row.name: row.of_peak for row in profile.rows("kernel") if row.backend == "c"}
    assert reached["nn_softmax"] > 0
    assert all(row.of_peak is None for row in profile.rows("kernel") if row.backend == "json")
    assert library.profile(repeat=1, warmup=0, peaks={}).rows("kernel")[0].of_peak is None


def test_stages_and_passes_of_a_compilation_are_timed():
    shown = []
    library, times = timed_compile(CompileRequest(DIGITS, targets=["json", "c"], progress=shown.append))
    assert [name for name, _ in times.stages] == list(dict.fromkeys(shown))
    assert {"reading the model", "planning", "compiling the host's share"} <= set(shown)
    assert any(name == "InferType" for name, _, _ in times.passes)
    assert "compiling" not in library.report  # only who asks gets it


def test_a_stage_that_comes_again_is_one_stage():
    ticks = iter([0.0, 1.0, 1.0, 3.0, 3.0, 7.0])
    stages = StageTimes(clock=lambda: next(ticks))
    for name in ("a", "b", "a"):
        stages(name)
    assert stages.finished() == (("a", 5.0), ("b", 2.0))


def test_a_library_and_its_plan_have_short_forms(library):
    text = repr(library)
    assert text == "Library(image: float32[batch, 1, 8, 8] -> probabilities: float32[batch, 10]; json, c)"
    assert repr(library.plan) == "Plan(order, json: 1 region, 16 of 17 operators offloaded)"
    assert str(library.plan) == library.report["plan_text"]


def test_profile_has_a_place_among_the_names_of_a_library(library):
    assert {"profile", "plan"} <= set(dir(library))
    assert os.environ.get("BYOC_VERIFY") == "1"
