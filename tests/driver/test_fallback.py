"""Fallback when a model runs: a region whose backend fails runs on the host, is recorded, and is not retried."""

import json
import subprocess
import sys

import numpy as np
import pytest
from faulty_backend import FAULTS, NAME, registered, same
from onnx import TensorProto, helper

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.driver.vm import compile_module
from byoc.errors import DeviceError, InputError, UserError
from byoc.ir.types import Any, TensorType
from byoc.runtime import cpu, load, load_module_tree
from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.dso.aot import AotExecutor
from byoc.runtime.executors.graph_executor import GraphExecutor
from byoc.runtime.vm import VirtualMachine

pytestmark = pytest.mark.needs_cc
RNG = np.random.default_rng(0)
W = RNG.standard_normal((6, 4)).astype("float32")
X = RNG.standard_normal((3, 4)).astype("float32")


@pytest.fixture
def faults():
    yield from registered()


def module(rows=3):
    """A region of two outputs (exp and tanh of one dense), between operators that the host keeps."""
    x = relay.var("x", TensorType((rows, 4), "float32"))
    inner = relay.nn.dense(relay.abs(x), relay.const(W))
    body = relay.Tuple([relay.add(relay.exp(inner), relay.const(1.0)), relay.negative(relay.tanh(inner))])
    return relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], body)))


def want(x):
    inner = np.abs(x) @ W.T
    return [np.exp(inner) + 1, -np.tanh(inner)]


def executors(library):
    return {"aot": library.executor(), "graph": library.graph_executor()}


FAILURES = {
    "load": ("load", ValueError("no such kernel"), "ValueError"),
    "initialize": ("initialize", MemoryError("weights do not fit"), "MemoryError"),
    "launch": ("launch", RuntimeError("the device hung"), "RuntimeError"),
}


def break_at(stage):
    if stage == "device":
        FAULTS.missing = "there is no such device"
    else:
        FAULTS.errors[stage] = FAILURES[stage][1]


@pytest.mark.parametrize("stage", [*FAILURES, "device"])
@pytest.mark.parametrize("way", ["aot", "graph"])
def test_a_region_that_fails_runs_on_the_host_and_is_recorded_once(faults, stage, way):
    library = byoc.compile(module(), [NAME, "c"], fallback=True)
    assert library.report["fallback"] == {s: "the host's version is in the artefact" for s in library.module.regions}
    executor = executors(library)[way]
    assert isinstance(executor, AotExecutor if way == "aot" else GraphExecutor)
    break_at(stage)
    for k in range(4):
        same(executor({"x": X + k}), want(X + k))
    (record,) = executor.fallbacks
    assert library.fallbacks == [record]
    assert (record.stage, record.target, record.shapes) == (stage, NAME, ((3, 4),))
    assert record.subgraph in library.module.regions
    assert record.exception == FAILURES[stage][2] if stage != "device" else "DeviceError"
    assert f"region {record.subgraph}" in str(record) and f"failed at {stage}" in str(record)
    assert json.loads(json.dumps(record.to_json()))["stage"] == stage
    assert faults.counts[stage] == 1  # and was left alone in the three runs after


def test_what_works_has_no_record_and_never_builds_the_hosts_version(faults):
    library = byoc.compile(module(), [NAME, "c"], fallback=True)
    for executor in executors(library).values():
        same(executor({"x": X}), want(X))
        assert executor.fallbacks == []
    origin = next(m for m in library.module.imports if m.type_key == "origin")
    assert origin._program is None and faults.counts["launch"] == 2


@pytest.mark.parametrize("way", ["aot", "graph"])
def test_a_backend_that_failed_is_tried_again_for_other_shapes_alone(faults, way):
    library = byoc.compile(module(Any("n")), [NAME, "c"], fallback=True)
    executor = executors(library)[way]
    faults.errors["launch"], faults.bad_shapes = RuntimeError("no room"), ((3, 4), (7, 4))
    launches = []
    for rows in (3, 3, 5, 5, 3, 7, 7, 5):
        before = faults.counts["launch"]
        x = RNG.standard_normal((rows, 4)).astype("float32")
        same(executor({"x": x}), want(x))
        launches.append(faults.counts["launch"] - before)
    assert launches == [1, 0, 1, 1, 0, 1, 0, 1]
    assert [r.shapes for r in executor.fallbacks] == [((3, 4),), ((7, 4),)]
    assert faults.counts["initialize"] == 1


def test_what_could_not_be_loaded_is_loaded_when_the_shape_changes(faults):
    library = byoc.compile(module(Any("n")), [NAME, "c"], fallback=True)
    faults.errors["load"] = OSError("the driver is being updated")
    same(library.run({"x": X}), want(X))
    del faults.errors["load"]
    same(library.run({"x": X}), want(X))
    assert faults.counts["launch"] == 0
    other = np.concatenate([X, X])
    same(library.run({"x": other}), want(other))
    assert faults.counts["launch"] == 1 and len(library.fallbacks) == 1


def test_it_is_decided_for_each_region(faults):
    x = relay.var("x", shape=(3, 4))
    body = relay.tanh(relay.abs(relay.exp(x)))
    library = byoc.compile(byoc.IRModule.from_expr(relay.Function([x], body)), [NAME, "c"], fallback=True)
    assert len(library.module.regions) == 2
    faults.errors["launch"] = RuntimeError("once")
    same(library.run({"x": X}), [np.tanh(np.exp(X))])
    assert len(library.fallbacks) == 2 and faults.counts["launch"] == 2
    faults.errors.clear()
    library = byoc.compile(byoc.IRModule.from_expr(relay.Function([x], body)), [NAME, "c"], fallback=True)
    first, _second = library.module.regions
    library.module.guard(first).failed(((3, 4),), RuntimeError("this one alone"))
    same(library.run({"x": X}), [np.tanh(np.exp(X))])
    assert faults.counts["launch"] == 3 and [r.subgraph for r in library.fallbacks] == [first]


@pytest.mark.parametrize("stage", FAILURES)
def test_without_the_option_the_error_names_region_nodes_and_stage(faults, stage):
    library = byoc.compile(module(), [NAME, "c"])
    (symbol,) = library.module.regions
    break_at(stage)
    kind, text = DeviceError, f"region {symbol}.* on {NAME} failed at {stage}: "
    if stage == "initialize":
        kind, text = MemoryError, "weights do not fit"
    with pytest.raises(kind, match=text):
        library.run({"x": X})
    with pytest.raises((kind, UserError)):
        library.graph_executor()({"x": X})
    assert library.fallbacks == []


def test_a_run_that_failed_leaves_no_output_behind(faults):
    library = byoc.compile(module(), [NAME, "c"])
    for executor in executors(library).values():
        executor.run(x=X)
        faults.errors["launch"] = RuntimeError("half of it is written")
        with pytest.raises(DeviceError, match="half of it is written"):
            executor.run(x=X + 1)
        with pytest.raises(UserError, match="there is no output yet"):
            executor.get_output(0)
        faults.errors.clear()
        executor.run(x=X + 2)
        same([executor.get_output(k).numpy() for k in range(2)], want(X + 2))


def test_a_wrong_input_is_the_callers_mistake_and_no_fallback(faults):
    library = byoc.compile(module(), [NAME, "c"], fallback=True)
    with pytest.raises(InputError):
        library.run({"x": X[:2]})
    assert library.fallbacks == []


CHILD = """
import json, sys
import numpy as np
import byoc.runtime
library = byoc.runtime.load(sys.argv[1])
x = np.frombuffer(bytes.fromhex(sys.argv[2]), "float32").reshape(3, 4)
outputs = library.run({"x": x})
compiler = [m for m in sys.modules if m.startswith(("byoc.ir", "byoc.relay", "byoc.codegen", "byoc.driver", "onnx"))]
print(json.dumps([[o.tolist() for o in outputs], [r.to_json() for r in library.fallbacks], compiler]))
"""


def test_a_saved_model_runs_where_nobody_knows_the_vendors_modules(faults, tmp_path):
    path = byoc.compile(module(), [NAME, "c"], fallback=True).save(tmp_path / "m.byoc")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), X.tobytes().hex()], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    outputs, (record,), compiler = json.loads(done.stdout)
    same([np.array(o, "float32") for o in outputs], want(X))
    assert record["stage"] == "load" and "nothing here loads modules of type 'test_faulty'" in record["message"]
    assert compiler == []
    strict = byoc.compile(module(), [NAME, "c"]).save(tmp_path / "strict.byoc")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(strict), X.tobytes().hex()], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0 and "nothing here loads modules of type 'test_faulty'" in done.stderr


def test_a_loaded_model_has_the_hosts_version_and_one_whose_module_is_lost_is_saved_again(faults, tmp_path):
    path = byoc.compile(module(), [NAME, "c"], fallback=True).save(tmp_path / "m.byoc")
    library = load(path)
    same(library.run({"x": X}), want(X))
    assert library.fallbacks == []
    faults.missing = "it was unplugged"
    library = load(path)
    same(library.run({"x": X}), want(X))
    assert [r.stage for r in library.fallbacks] == ["device"]
    faults.missing, faults.errors["read"] = None, ValueError("written by a newer driver")
    library = load(path)
    again = library.save(tmp_path / "again.byoc")
    same(library.run({"x": X}), want(X))
    ((stage, message),) = [(r.stage, r.message) for r in library.fallbacks]
    assert stage == "load" and "failed with ValueError: written by a newer driver" in message
    faults.errors.clear()
    library = load(again)
    same(library.run({"x": X}), want(X))
    assert library.fallbacks == []
    faults.missing = "it was unplugged"
    with pytest.raises(ArtifactError, match="cannot run here: it was unplugged"):
        load(byoc.compile(module(), [NAME, "c"]).save(tmp_path / "strict.byoc"))


def test_constants_that_both_versions_use_are_stored_once(faults):
    strict, both = (byoc.compile(module(), [NAME, "c"], fallback=f).module for f in (False, True))
    assert both.constant_bytes < 2 * strict.constant_bytes + W.nbytes
    held = [a.numpy().tobytes() for a in both.constant_arrays.values()]
    assert len(held) == len(set(held))


def branching():
    x, which = relay.var("x", shape=(3, 4)), relay.var("which", shape=(), dtype="bool")
    body = relay.If(which, relay.exp(x), relay.negative(x))
    mod = relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x, which], body)))
    passes = relay.transform
    for step in (passes.AnnotateTarget(NAME), passes.MergeCompilerRegions(), passes.PartitionGraph()):
        mod = step(mod)
    return mod


def test_the_virtual_machine_falls_back_too_and_so_does_what_it_saved(faults, tmp_path):
    executable = compile_module(branching(), fallback=True)
    assert executable.lib.regions
    faults.errors["launch"] = RuntimeError("the device hung")
    machine = VirtualMachine(executable, cpu())
    for _ in range(2):
        same([np.asarray(machine.run(X, np.array(True)))], [np.exp(X)])
    assert faults.counts["launch"] == 1 and [r.stage for r in executable.lib.fallbacks] == ["launch"]
    executable.mod.export_library(tmp_path / "vm.byoc")
    faults.errors["read"] = ValueError("written by a newer driver")
    loaded = load_module_tree(tmp_path / "vm.byoc")
    same([np.asarray(VirtualMachine(loaded.executable, cpu()).run(X, np.array(True)))], [np.exp(X)])
    assert [r.stage for r in loaded.executable.lib.fallbacks] == ["load"]
    with pytest.raises(DeviceError, match="failed at launch"):
        VirtualMachine(compile_module(branching()), cpu()).run(X, np.array(True))


def test_the_commands_compile_with_it_and_report_what_ran_on_the_host(faults, tmp_path, capsys):
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in "xy"]
    nodes = [helper.make_node("Exp", ["x"], ["e"], name="Exp_n"), helper.make_node("Neg", ["e"], ["y"], name="Neg_n")]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    file, out = tmp_path / "m.onnx", str(tmp_path / "m.byoc")
    file.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    )
    assert main(["compile", str(file), "-t", f"{NAME},c", "--fallback", "-o", out]) == 0
    faults.errors["launch"] = RuntimeError("the device hung")
    assert main(["run", out, "--random"]) == 0
    shown = capsys.readouterr().out
    assert "on the host instead: region" in shown
    assert "(nodes Exp_n) on test_faulty failed at launch: the device hung" in shown
    assert main(["run", out, "--random", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fallbacks"][0]["nodes"] == ["Exp_n"]
