"""A region whose backend fails when it is compiled, or takes too long, is the host's; the others stay as they are."""

import json
import threading

import numpy as np
import pytest
from faulty_backend import FAULTS, NAME, registered, same
from onnx import TensorProto, helper

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.driver.vm import compile_module
from byoc.errors import CompileError, PartitionError, UnsupportedError, UserError
from byoc.ir.types import Any, TensorType
from byoc.relay.interpreter import evaluate
from byoc.runtime import cpu, load
from byoc.runtime.core.errors import ArtifactError, RegionTimeoutError, RunTimeoutError
from byoc.runtime.region.abandoned_work import at_work
from byoc.runtime.region.record import Fallback
from byoc.runtime.vm import VirtualMachine

pytestmark = pytest.mark.needs_cc
ADVICE = "; compile with fallback=True (byoc compile --fallback) to run it on the host then"
X = np.linspace(-2, 2, 12, dtype="float32").reshape(3, 4)


@pytest.fixture
def faults():
    yield from registered()


def model(rows=3):
    """Two regions, one of exp with two outputs, one of tanh, between operators that the host keeps."""
    x = relay.var("x", TensorType((rows, 4), "float32"))
    one = relay.exp(relay.abs(x))
    two = relay.exp(one)
    body = relay.Tuple([relay.tanh(relay.negative(one)), relay.sqrt(two)])
    return relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], body)))


def onnx_model():
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in "xy"]
    steps = (("Exp", "x", "a"), ("Neg", "a", "b"), ("Tanh", "b", "y"))
    nodes = [helper.make_node(op, [i], [o], name=f"{op}_n") for op, i, o in steps]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return made.SerializeToString()


def want(mod, x=X):
    return list(evaluate(mod, [x]))


STAGES = {
    "optimize": ("optimize", ValueError("no such layer"), "convert", "ValueError"),
    "refused": ("compile", UnsupportedError("a tanh of rank 2"), "convert", "UnsupportedError"),
    "compile": ("compile", RuntimeError("the vendor's compiler crashed"), "build", "RuntimeError"),
    "memory": ("compile", MemoryError("512 KB are not enough"), "build", "MemoryError"),
    "exit": ("compile", SystemExit(3), "build", "SystemExit"),
    "module": ("module", "a string", "build", "CompileError"),
}


@pytest.mark.parametrize("way", ["aot", "graph", "saved"])
@pytest.mark.parametrize("name", STAGES)
def test_a_region_that_cannot_be_compiled_is_the_hosts_and_is_recorded(faults, name, way, tmp_path):
    where, error, stage, exception = STAGES[name]
    faults.errors[where] = error
    library = byoc.compile(model(), [NAME, "c"], fallback=True)
    assert library.module.regions == {} and not any(m.type_key == NAME for m in library.module.imports)
    shown = library.fallbacks
    assert [(f.stage, f.exception, f.target) for f in shown] == [(stage, exception, NAME)] * 2
    assert json.dumps(library.report["fallbacks"]) == json.dumps([f.to_json() for f in shown])
    if way == "saved":
        library = load(library.save(tmp_path / "m.byoc"))
        assert library.fallbacks == shown
    run = library.graph_executor() if way == "graph" else library.run
    for k in range(2):
        same(run({"x": X + k}), want(model(), X + k))


def test_the_plan_says_that_the_host_stands_in_for_a_region_and_why(faults, tmp_path):
    faults.errors["compile"], faults.bad_operators = RuntimeError("no tanh today"), ("tanh",)
    library = byoc.compile(onnx_model(), [NAME, "c"], fallback=True)
    (lost,) = library.fallbacks
    for each in (library, load(library.save(tmp_path / "m.byoc"))):
        text = each.report["plan_text"]
        assert text == str(each.plan) and f"targets {NAME}: 1 regions, 1 of " in text.splitlines()[0]
        rows = {line.split()[0]: line for line in text.splitlines() if line.startswith("tvmgen_")}
        assert f"  host (not {NAME})  " in rows.pop(lost.subgraph)
        assert [line.split()[1] for line in rows.values()] == [NAME]
        assert f"  {lost.subgraph}: {NAME} failed at build: {lost.message}" in text
        shown = str(each.plan.explain("Tanh_n"))
        assert f"on the host instead, since {NAME} failed at build: " in shown and "no tanh today" in shown
        assert "on the host instead" not in str(each.plan.explain("Exp_n"))
        assert f"host (not {NAME})" in each.plan._repr_html_()
    faults.errors.clear()
    again = byoc.compile(onnx_model(), plan=library.plan, fallback=True)
    assert not again.plan.stand_ins and "stands in" not in again.report["plan_text"]


@pytest.mark.parametrize("name", STAGES)
def test_a_record_names_its_region_and_its_nodes_once(faults, name):
    where, error, stage, _ = STAGES[name]
    faults.errors[where] = error
    lost = byoc.compile(onnx_model(), [NAME, "c"], fallback=True).fallbacks[-1]
    text = str(lost)
    assert text.startswith(f"region {lost.subgraph} (nodes Tanh_n) on {NAME} failed at {stage}: "), text
    assert text.count(lost.subgraph) == 1 and "failed on" not in text, text
    assert text.count("Tanh_n") == (2 if name == "refused" else 1)  # which operator it is that the verdict took
    assert ("gave str; its compile must return" if name == "module" else str(error)) in text, text


def test_a_record_keeps_what_a_vendor_says_of_the_region(faults):
    faults.errors["compile"], faults.bad_operators = RuntimeError("no tanh today"), ("tanh",)
    (lost,) = byoc.compile(onnx_model(), [NAME, "c"], fallback=True).fallbacks
    said = f"no room on the chip for {lost.subgraph} (nodes Tanh_n): make it smaller"
    faults.errors["compile"] = ValueError(said)
    (lost,) = byoc.compile(onnx_model(), [NAME, "c"], fallback=True).fallbacks
    assert said in lost.message, lost.message


@pytest.mark.parametrize("stage", ["optimize", "compile"])
def test_other_regions_of_the_same_target_stay_on_it(faults, stage):
    faults.errors[stage], faults.bad_operators = RuntimeError("no tanh today"), ("tanh",)
    library = byoc.compile(onnx_model(), [NAME, "c"], fallback=True)
    (symbol,) = library.module.regions
    assert library.module.regions[symbol].nodes == ("Exp_n",)
    (lost,) = library.fallbacks
    assert lost.nodes == ("Tanh_n",) and "no tanh today" in lost.message and lost.subgraph != symbol
    same(library.run({"x": X}), [np.tanh(-np.exp(X))])
    assert faults.counts["launch"] == 1 and library.fallbacks == [lost]


@pytest.mark.parametrize(
    ("stage", "kind"), [("optimize", PartitionError), ("compile", CompileError), ("module", CompileError)]
)
def test_without_fallback_it_is_an_error_that_names_backend_region_and_nodes(faults, stage, kind):
    faults.errors[stage] = "a string" if stage == "module" else RuntimeError("no tanh today")
    with pytest.raises(kind) as raised:
        byoc.compile(onnx_model(), [NAME, "c"])
    words = [NAME] if stage == "optimize" else [f"backend '{NAME}'", f"{NAME}_main_0", "(nodes Exp_n)"]
    assert all(word in str(raised.value) for word in words), raised.value
    assert str(raised.value).endswith(ADVICE) and str(raised.value).count("fallback") == 2


@pytest.mark.parametrize("stage", ["optimize", "compile"])
def test_what_it_advises_works_on_the_command_line(faults, stage, tmp_path, capsys):
    faults.errors[stage] = RuntimeError("no tanh today")
    (tmp_path / "m.onnx").write_bytes(onnx_model())
    words = ["compile", str(tmp_path / "m.onnx"), "-t", f"{NAME},c", "-o", str(tmp_path / "m.byoc")]
    assert main(words) == 2
    assert capsys.readouterr().err.rstrip().endswith(ADVICE)
    assert main([*words, "--fallback"]) == 0 and ADVICE not in capsys.readouterr().out
    same(load(tmp_path / "m.byoc").run({"x": X}), [np.tanh(-np.exp(X))])


def test_a_plan_without_a_target_that_failed_advises_nothing(faults):
    faults.errors["compile"] = RuntimeError("no tanh today")
    library = byoc.compile(onnx_model(), [NAME, "c"], replan=True)
    assert "no tanh today" in str(library.report["replanned"]) and "fallback=True" not in str(library.report)


def test_what_the_host_has_no_kernel_for_stays_an_error(faults, monkeypatch):
    faults.errors["compile"] = RuntimeError("no tanh today")
    monkeypatch.setattr("byoc.driver.losses.host_can", lambda region: False)
    for fallback in (True, False):
        with pytest.raises(CompileError, match="no tanh today") as raised:
            byoc.compile(model(), [NAME, "c"], fallback=fallback)
        assert "fallback" not in str(raised.value)  # it would not help


def test_free_sizes_and_the_launch_fall_back_beside_it(faults):
    faults.errors["compile"], faults.bad_operators = RuntimeError("no tanh today"), ("tanh",)
    mod = model(Any("n"))
    library = byoc.compile(mod, [NAME, "c"], fallback=True)
    faults.errors["launch"] = RuntimeError("the device hung")
    for rows in (3, 5, 3):
        x = np.linspace(-1, 1, 4 * rows, dtype="float32").reshape(rows, 4)
        same(library.run({"x": x}), want(mod, x))
    assert [f.stage for f in library.fallbacks] == ["build", "launch", "launch"]
    assert faults.counts["launch"] == 2  # once for each shape


def partitioned():
    """A branch with a region of two outputs in it."""
    x, which = relay.var("x", shape=(3, 4)), relay.var("which", shape=(), dtype="bool")
    body = relay.If(which, relay.tanh(relay.abs(relay.exp(x))), relay.negative(x))
    mod = relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x, which], body)))
    passes = relay.transform
    for step in (passes.AnnotateTarget(NAME), passes.MergeCompilerRegions(), passes.PartitionGraph()):
        mod = step(mod)
    return mod


def test_the_virtual_machines_host_computes_it_too(faults):
    faults.errors["compile"], faults.bad_operators = RuntimeError("no tanh today"), ("tanh",)
    executable = compile_module(partitioned(), fallback=True)
    (lost,) = executable.lib.fallbacks
    assert len(executable.lib.regions) == 1 and lost.stage == "build"
    machine = VirtualMachine(executable, cpu())
    same([np.asarray(machine.run(X, np.array(True)))], [np.tanh(np.abs(np.exp(X)))])
    same([np.asarray(machine.run(X, np.array(False)))], [-X])
    with pytest.raises(CompileError, match="no tanh today") as raised:
        compile_module(partitioned())
    assert str(raised.value).endswith(ADVICE)


@pytest.mark.parametrize("fallback", [False, True])
def test_a_compile_that_does_not_end_is_an_error_or_the_hosts(faults, fallback):
    faults.hanging = ("compile",)
    if not fallback:
        with pytest.raises(CompileError, match=r"its compile did not end within 0.2 s, which compile_timeout allows"):
            byoc.compile(model(), [NAME, "c"], compile_timeout=0.2)
        return
    library = byoc.compile(model(), [NAME, "c"], fallback=True, compile_timeout=0.2)
    assert [(f.stage, f.exception) for f in library.fallbacks] == [("build", "TimeLimitError")] * 2
    same(library.run({"x": X}), want(model()))


def test_a_compile_with_a_time_limit_sees_the_contexts_of_its_caller(faults, monkeypatch):
    seen = []
    compiled = byoc.contract.get_backend(NAME).compile

    def compile_and_look(function, options):
        seen.append((byoc.ir.transform.PassContext.current().opt_level, threading.current_thread().name))
        return compiled(function, options)

    monkeypatch.setattr(byoc.contract.get_backend(NAME), "compile", compile_and_look)
    with byoc.ir.transform.PassContext(opt_level=3):
        byoc.compile(model(), [NAME, "c"], compile_timeout=60)
    assert seen == [(3, "byoc-bounded")] * 2


def test_a_number_of_seconds_below_0_is_refused():
    with pytest.raises(UserError, match="compile_timeout is a number from 0 on"):
        byoc.compile(b"", compile_timeout=-1)


def machine_of(fallback, **limits):
    executable = compile_module(partitioned(), fallback=fallback)
    return VirtualMachine(executable, cpu()), executable.lib


@pytest.mark.parametrize("way", ["aot", "graph", "vm", "started"])
@pytest.mark.parametrize("fallback", [False, True])
def test_a_region_that_hangs_is_an_error_or_the_hosts(faults, way, fallback, monkeypatch):
    faults.is_asynchronous = way == "started"
    if way == "vm":
        monkeypatch.setenv("BYOC_REGION_SECONDS", "0.2")
        machine, lib = machine_of(fallback)
        run = lambda x: [np.asarray(machine.run(x, np.array(True)))]  # noqa: E731
        expected = lambda x: [np.tanh(np.abs(np.exp(x)))]  # noqa: E731
    else:
        library = byoc.compile(model(), [NAME, "c"], fallback=fallback, region_timeout=0.2)
        lib = library.module
        executor = library.graph_executor() if way == "graph" else library.executor()
        run = lambda x: executor({"x": x})  # noqa: E731
        expected = lambda x: want(model(), x)  # noqa: E731
    same(run(X), expected(X))
    faults.hanging = ("launch",)
    if not fallback:
        with pytest.raises(RegionTimeoutError, match=r"region .* on test_faulty failed at launch: it took longer than"):
            run(X)
    else:
        before = faults.counts["launch"]
        same(run(X + 1), expected(X + 1))
        assert {(f.stage, f.exception) for f in lib.fallbacks} == {("launch", "RegionTimeoutError")}
        tried = faults.counts["launch"] - before
        same(run(X + 2), expected(X + 2))
        assert faults.counts["launch"] - before == tried  # what hung is not tried again for these shapes
    assert at_work()
    faults.hanging = ()
    FAULTS.hang.set()  # what hung goes on now, and writes: nobody's outputs
    if fallback:
        same(run(X + 3), expected(X + 3))


def test_the_runs_own_limit_is_the_callers_and_no_fallback(faults):
    library = byoc.compile(model(), [NAME, "c"], fallback=True, region_timeout=50)
    faults.hanging = ("launch",)
    with pytest.raises(RunTimeoutError) as raised:
        library.run({"x": X}, timeout=0.2)
    assert not isinstance(raised.value, RegionTimeoutError) and library.fallbacks == []


@pytest.mark.parametrize("fallback", [False, True])
@pytest.mark.parametrize("stage", ["initialize", "load"])
def test_a_run_has_its_limit_while_a_region_is_initialised_too(faults, stage, fallback):
    library = byoc.compile(model(), [NAME, "c"], fallback=fallback)
    faults.hanging = (stage,)
    for _ in range(2):
        with pytest.raises(RunTimeoutError, match=rf"of 0.3 s while {NAME} loaded and initialised tvmgen\w+ \("):
            library.run({"x": X}, timeout=0.3)
    faults.hanging = ()
    FAULTS.hang.set()  # it was slow, and goes on
    same(library.run({"x": X}), want(model()))
    assert library.fallbacks == []
    assert faults.counts["initialize"] == len(library.module.regions)


@pytest.mark.parametrize("fallback", [False, True])
def test_a_region_that_hangs_while_it_is_initialised_is_an_error_or_the_hosts(faults, fallback, monkeypatch):
    """It may take as long as a wait: its ``region_timeout`` is for a call."""
    monkeypatch.setenv("BYOC_WAIT_SECONDS", "0.3")
    library = byoc.compile(model(), [NAME, "c"], fallback=fallback, region_timeout=50)
    faults.hanging = ("initialize",)
    if fallback:
        same(library.run({"x": X}), want(model()))
        assert {(f.stage, f.exception) for f in library.fallbacks} == {("initialize", "RegionTimeoutError")}
        assert {f.subgraph for f in library.fallbacks} == set(library.module.regions)
    else:
        with pytest.raises(RegionTimeoutError, match=r"failed at initialize: it took longer than the 0.3 s"):
            library.run({"x": X})


def test_a_region_of_another_vendor_does_not_wait_for_one_that_hangs(faults, monkeypatch):
    """Initialising is one at a time by symbol, and by the library of a vendor that asks for it."""
    monkeypatch.setenv("BYOC_WAIT_SECONDS", "0.3")
    library = byoc.compile(model(), [NAME, "json", "c"], fallback=True, region_timeout=50)
    others = {symbol for symbol, region in library.module.regions.items() if region.target == "json"}
    assert others
    faults.hanging = ("initialize",)
    same(library.run({"x": X}), want(model()))
    assert not others & {f.subgraph for f in library.fallbacks}


def test_what_was_started_is_waited_for_no_longer_than_the_variable_says(faults, monkeypatch):
    monkeypatch.setenv("BYOC_WAIT_SECONDS", "0.2")
    faults.is_asynchronous = True
    library = byoc.compile(model(), [NAME, "c"], fallback=True)
    faults.hanging = ("launch",)
    same(library.run({"x": X}), want(model()))
    assert {f.exception for f in library.fallbacks} == {"RegionTimeoutError"}
    monkeypatch.setenv("BYOC_WAIT_SECONDS", "soon")
    with pytest.raises(UserError, match="BYOC_WAIT_SECONDS is a number of seconds"):
        byoc.compile(model(), [NAME, "c"]).run({"x": X})


def test_the_limit_is_saved_and_a_wrong_one_is_refused(faults, tmp_path):
    library = byoc.compile(model(), [NAME, "c"], region_timeout=2.5)
    loaded = load(library.save(tmp_path / "m.byoc"))
    assert [region.seconds for region in loaded.module.regions.values()] == [2.5, 2.5]
    shown = json.loads(json.dumps(next(iter(library.module.regions.values())).to_json()))
    kind = type(next(iter(library.module.regions.values())))
    for wrong in (0, -1, "2", True):
        with pytest.raises(ArtifactError, match="seconds"):
            kind.from_json({**shown, "seconds": wrong})
    with pytest.raises(ArtifactError):
        Fallback.from_json({"subgraph": "f"}, "fallbacks.json[0]")


def test_the_command_lists_what_the_host_computes(faults, tmp_path, capsys):
    faults.errors["compile"] = RuntimeError("no tanh today")
    file = tmp_path / "m.onnx"
    file.write_bytes(onnx_model())
    limits = ["--compile-timeout", "60", "--region-timeout", "60"]
    assert main(["compile", str(file), "-t", f"{NAME},c", "--fallback", *limits, "-o", str(tmp_path / "m.byoc")]) == 0
    shown = capsys.readouterr().out
    assert "regions that the host computes, since their backends failed:" in shown and "no tanh today" in shown
    assert main(["run", str(tmp_path / "m.byoc"), "--random"]) == 0
    assert "failed at build: " in capsys.readouterr().out
