"""Profiles: by a clock that counts, so that each time is known before."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from started_module import Late, StartedModule, apply, graph_of, tree

import byoc
from byoc import relay
from byoc.kernels import kernel
from byoc.runtime import MetadataModule, Module, UserError
from byoc.runtime.core.device_event import DeviceEvent, EventFacts
from byoc.runtime.core.function_work import FunctionWork, OperatorWork
from byoc.runtime.devices.peak import Peak
from byoc.runtime.executors.graph_executor import GraphExecutor
from byoc.runtime.graph.graph import Graph
from byoc.runtime.profile.graph_profile import Runs, profile_graph
from byoc.runtime.profile.record import FunctionRecord, PartRecord
from byoc.runtime.profile.rows import LEVELS
from byoc.runtime.profile.run_profile import RunProfile
from byoc.runtime.region.record import Region

X = {"x0": np.linspace(0, 1, 4, dtype="float32")}


def clock():
    """Each question takes a second."""
    return Runs(2, 1, itertools.count().__next__)


def test_each_step_of_each_run_is_timed_and_the_warm_up_is_not():
    nodes = [("exp", [0]), ("tanh", [1]), ("exp", [2])]
    root = tree({}, nodes, [])
    executor = GraphExecutor(Graph(graph_of(1, nodes, [3])), root)
    found = profile_graph("m", root, (executor, None), X, clock(), {})
    exp, tanh = found.functions
    assert (exp.symbol, tanh.symbol) == ("exp", "tanh")
    assert exp.runs == (((1, 2), (5, 6)),) * 2 and tanh.runs == (((3, 4),),) * 2
    assert found.seconds == (7, 7) and found.warmup == 1 and found.whole == ()
    assert [(r.name, r.calls, r.median) for r in found.rows("kernel")] == [("exp", 2, 2), ("tanh", 1, 1)]
    assert found.rest() == 4 and found.first == 1
    assert executor.wrap is None
    np.testing.assert_array_equal(executor.get_output().numpy(), np.exp(np.tanh(np.exp(X["x0"]))))


def test_a_region_that_is_started_is_at_work_until_it_was_waited_for():
    nodes = [("left.exp", [0]), ("tanh", [0]), ("add", [1, 2])]
    log = []
    root = tree({"left": late(log)}, nodes, log)
    executor = GraphExecutor(Graph(graph_of(1, nodes, [3])), root)
    found = profile_graph("m", root, (executor, None), X, clock(), {})
    region, tanh, _ = found.functions
    (span,), (inner,) = region.runs[0], tanh.runs[0]
    assert region.is_region and region.backend == "left" and region.nodes == ("node_left.exp",)
    assert span[0] < inner[0] < inner[1] < span[1]
    assert any("started" in note for note in found.notes)


def late(log):
    return lambda name, arrays, after: Late(name, arrays, after, log)


class Telling(Module):
    """A module of one function that reports what it did."""

    type_key = "telling"
    symbols = ("exp",)
    events = None

    def get_function(self, name, query_imports=False):
        return self._run if name in self.symbols else None

    def _run(self, *arrays):
        apply("exp", [np.asarray(a.numpy()) for a in arrays])
        if self.events is not None:
            self.events += [DeviceEvent("exp", "load", 0.25, 0.5), DeviceEvent("exp", "compute", 0.5, 1.0)]

    def profile(self, on):
        shown, self.events = self.events or [], [] if on else None
        return shown


def test_what_a_module_reports_stands_in_place_of_the_call():
    module = Telling()
    root = MetadataModule({}, {}, {"exp": Region("telling", ("n",))})
    root.import_module(module)
    executor = GraphExecutor(Graph(graph_of(1, [("exp", [0])], [1])), root)
    found = profile_graph("m", root, (executor, None), X, clock(), {})
    assert module.events is None  # it was notified that the profile is over
    assert [p.name for p in found.functions[0].parts] == ["load", "compute"]
    rows = {r.name: r.median for r in found.rows("kernel")}
    assert rows == {"exp: load": 0.25, "exp: compute": 0.5, "exp: around its parts": 0.25}
    assert [(r.name, r.backend, r.median) for r in found.rows("region")] == [("exp", "telling", 1)]


def test_a_module_that_fails_is_notified_that_the_profile_is_over():
    class Failing(Telling):
        def _run(self, *arrays):
            raise RuntimeError("no")

    module, root = Failing(), MetadataModule({}, {})
    root.import_module(module)
    executor = GraphExecutor(Graph(graph_of(1, [("exp", [0])], [1])), root)
    with pytest.raises(RuntimeError):
        profile_graph("m", root, (executor, None), X, clock(), {})
    assert module.events is None and executor.wrap is None


CONV = OperatorWork("nn.conv2d", ("Conv_0",), "float32", 30, 600, 200)
RELU = OperatorWork("nn.relu", ("Relu_1",), "float32", 10, 20, 80)
KERNEL = FunctionRecord("tvmgen_default_fused_conv_relu", "c", (((0, 4),), ((0, 8),)), False, (CONV, RELU), (), 100, 64)
REGION = FunctionRecord(
    "tvmgen_default_acme_0",
    "acme",
    (((4, 5),), ((8, 9),)),
    True,
    (RELU,),
    ("Relu_1",),
    parts=(PartRecord("nn.relu", (((4, 4.5),), ((8, 8.5),))),),
)
PROFILE = RunProfile("m", "graph executor", (6.0, 10.0), (KERNEL, REGION), (3.0,), 2, 1, {"constants": 8})


def test_a_kernel_is_divided_among_its_operators_by_weight_and_says_so():
    conv, relu, shown = PROFILE.rows("operator")
    assert (conv.name, conv.seconds, conv.operations, conv.is_divided) == ("nn.conv2d", [3, 6], 600, True)
    assert (relu.name, relu.seconds, relu.is_divided) == ("nn.relu", [1, 2], True)
    assert (shown.backend, shown.seconds, shown.is_divided) == ("acme", [0.5, 0.5], False)  # its module measured it
    assert [r.name for r in PROFILE.rows("node")] == ["Conv_0", "Relu_1", "Relu_1"]


DEVICE = FunctionRecord(
    "tvmgen_default_dev_0",
    "dev",
    (((0, 10),), ((0, 20),)),
    True,
    (CONV, RELU, OperatorWork("tanh", ("Tanh_2",), "float32", 5)),
    parts=(
        PartRecord("copy in", (((0, 1),), ((0, 1),))),
        PartRecord("pad", (((1, 2),), ((1, 3),)), ("Conv_0", "Relu_1"), (256, 64)),
        PartRecord("conv", (((2, 5),), ((3, 9),)), ("Conv_0", "Relu_1"), (1024, 64)),
        PartRecord("tanh", (((5, 6),), ((9, 10),)), ("Tanh_2",), (128, 32)),
    ),
)


def test_the_kernels_of_a_device_are_the_times_of_the_nodes_that_they_come_from():
    profile = RunProfile("m", "graph executor", (10.0, 20.0), (DEVICE,))
    rows = {row.name: row for row in profile.rows("node")}
    assert {name: (row.seconds, row.is_divided) for name, row in rows.items()} == {
        "Conv_0": ([3, 6], True),
        "Relu_1": ([1, 2], True),
        "Tanh_2": ([1, 1], False),
    }
    kernel = next(row for row in profile.rows("kernel") if row.name.endswith(": conv"))
    assert (kernel.sizes, list(kernel.nodes)) == ((1024, 64), ["Conv_0", "Relu_1"])
    assert (kernel.to_json()["gws"], kernel.to_json()["lws"]) == (1024, 64)
    assert "gws/lws" in profile.table("kernel") and "1024/64" in profile.table("kernel")
    assert "gws/lws" not in profile.table("node")
    assert RunProfile.from_json(json.dumps(profile.to_json())) == profile


def declared(kernel, seconds, operator):
    return PartRecord(kernel, (((0, seconds),), ((0, 2 * seconds),)), facts=EventFacts(operators=(operator,)))


def test_the_time_of_a_declared_kernel_is_its_operators_whatever_that_was_estimated_to_take():
    """An estimate says that the convolution takes nearly all; the parts say that it is the addition."""
    conv, add = replace(CONV, weight=1000), OperatorWork("add", ("Add_1",), "float32", 1)
    tanh, exp = OperatorWork("tanh", ("Tanh_2",), "float32", 1), OperatorWork("exp", ("Exp_3",), "float32", 3)
    parts = (declared("nn.conv2d:def@acme/float/any", 1, "nn.conv2d"), declared("add:def@acme/float/any", 6, "add"))
    fused = declared("acme.tanh_exp:def@acme/float/any", 2, "acme.tanh_exp")
    one = FunctionRecord("one", "acme", (((0, 8),), ((0, 16),)), True, (conv, add), parts=parts)
    two = FunctionRecord("two", "acme", (((0, 10),), ((0, 20),)), True, (conv, add, tanh, exp), parts=(*parts, fused))
    for function, inside in ((one, {}), (two, {"tanh": ([0.5, 1], True), "exp": ([1.5, 3], True)})):
        profile = RunProfile("m", "graph executor", (10.0, 20.0), (function,))
        rows = {row.name: (row.seconds, row.is_divided) for row in profile.rows("operator")}
        assert rows == {"nn.conv2d": ([1, 2], False), "add": ([6, 12], False), **inside}
        rows = {row.name: row.seconds for row in profile.rows("node")}
        assert rows["Conv_0"] == [1, 2] and rows["Add_1"] == [6, 12]


def test_an_engine_says_which_operator_a_declared_kernel_is(of_this_test):
    kernel("exp", "arm/float/any")(np.exp)
    kernel("tanh", "arm/float/any")(np.tanh)
    x = relay.var("x", shape=(2, 3))
    model = byoc.IRModule.from_expr(relay.Function([x], relay.exp(relay.tanh(x))))
    profile = byoc.compile(model, targets=["arm", "c"]).profile({"x": np.ones((2, 3), "float32")}, repeat=2)
    assert {row.name: row.is_divided for row in profile.rows("operator")} == {"exp": False, "tanh": False}
    assert [list(row.operators) for row in profile.rows("kernel") if "exp" in row.name] == [["exp"]]


def test_every_level_but_that_of_reported_operators_divides_all_the_time():
    for level in ("region", "kernel", "operator", "node"):
        rows = PROFILE.rows(level)
        total = [sum(row.seconds[run] for row in rows) for run in (0, 1)]
        assert total == ([4.5, 8.5] if level in ("operator", "node") else [5, 9]), level


def test_rates_and_the_share_of_peak_follow_from_medians():
    peaks = {"c": Peak({"*": 1000.0, "float32": 310.0}, 1000.0, "calibrated")}
    profile = RunProfile("m", "graph executor", (6.0,), (KERNEL,), peaks=peaks)
    (row,) = profile.rows("kernel")
    assert (row.name, row.median, row.operations, row.bytes) == ("conv_relu", 6, 620, 100)
    assert row.rate == pytest.approx(620 / 6) and row.bandwidth == pytest.approx(100 / 6)
    assert row.of_peak == pytest.approx(2 / 6)
    assert RunProfile("m", "graph executor", (6.0,), (KERNEL,)).rows("kernel")[0].of_peak is None


def test_free_dimensions_are_multiplied_in_when_a_run_gives_their_sizes():
    work = OperatorWork("f", (), "float32", 1, 10, 8, ("n", "n"), ((4, ("n",)),))
    assert (work.bound({"n": 3}).operations, work.bound({"n": 3}).bytes) == (90, 20)
    assert (work.bound({}).operations, work.bound({}).bytes) == (None, None)
    assert OperatorWork.from_json(json.loads(json.dumps(work.to_json()))) == work
    shown = FunctionWork("c", (work,))
    assert FunctionWork.from_json(shown.to_json()) == shown


def test_a_profile_is_read_as_it_was_written():
    text = json.dumps(PROFILE.to_json())
    again = RunProfile.from_json(text)
    assert again == PROFILE and isinstance(again, RunProfile)
    for level in LEVELS:
        assert again.table(level) == PROFILE.table(level)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(schema="other/1"), "its schema is 'other/1'"),
        (lambda d: d.update(seconds=["1"]), "expected a number"),
        (lambda d: d.update(seconds=[float("nan")]), "expected a number"),
        (lambda d: d.pop("functions"), "functions"),
        (lambda d: d["functions"][0].update(runs=[[1]]), "expected a list"),
        (lambda d: d.update(peaks={"c": {"operations": {}, "bandwidth": 1.0, "source": ""}}), "rates above 0"),
    ],
)
def test_another_file_is_refused_in_a_sentence(change, words):
    data = json.loads(json.dumps(PROFILE.to_json()))
    change(data)
    with pytest.raises(UserError, match="this is no profile of byoc") as error:
        RunProfile.from_json(data, "p.json")
    assert words in str(error.value) and str(error.value).startswith("p.json")


def test_two_profiles_are_compared_by_name():
    faster = RunProfile("m", "graph executor", (3.0,), (FunctionRecord(KERNEL.symbol, "c", (((0, 2),),)),))
    lines = faster.compare(PROFILE).splitlines()
    assert lines[0] == "m by kernel, median: 8000 ms before, 3000 ms now"
    assert lines[3].split() == ["conv_relu", "6000", "2000", "-4000"]
    assert any(line.split()[-2:] == ["-", "-500"] for line in lines[3:])  # what is in one of them alone
    with pytest.raises(UserError, match="compare takes another profile, got dict"):
        PROFILE.compare({})


def test_the_table_says_what_is_measured_and_what_is_divided():
    text = PROFILE.table("operator")
    assert "median of 2 runs after 1 of warm-up; the whole program at once, on 2 threads: 3000 ms" in text
    assert "~nn.conv2d" in text and "divided by what each is estimated to take" in text
    assert "and 2 more, 2000 ms together" in PROFILE.table("operator", most=1)
    with pytest.raises(UserError, match="a profile is by region, kernel, operator, node, got 'layer'"):
        PROFILE.table("layer")


@pytest.mark.parametrize(("runs", "words"), [(Runs(0), "repeat is a whole number from 1"), (Runs(1, -1), "warmup")])
def test_counts_of_runs_are_checked(runs, words):
    with pytest.raises(UserError, match=words):
        runs.check()


def test_the_trace_has_the_documented_form():
    """Complete events with times in microseconds, metadata that names each thread, nothing behind its run's end."""
    data = json.loads(json.dumps(PROFILE.trace()))
    events = data["traceEvents"]
    assert data["displayTimeUnit"] in ("ms", "ns")
    named = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert list(named.values()) == ["runs", "host", "acme", "acme: parts"]
    complete = [e for e in events if e["ph"] == "X"]
    assert {e["ph"] for e in events} == {"M", "X"}
    for event in complete:
        assert isinstance(event["name"], str) and isinstance(event["args"], dict)
        assert event["ts"] >= 0 and event["dur"] >= 0 and event["pid"] == 1 and event["tid"] in named
    runs = [e for e in complete if named[e["tid"]] == "runs"]
    assert [(e["ts"], e["dur"]) for e in runs] == [(0, 6e6), (pytest.approx(6.6e6), 10e6)]
    first = [e for e in complete if e["ts"] < 6e6 and e not in runs]
    assert [(e["name"], named[e["tid"]], e["ts"], e["dur"]) for e in first] == [
        ("conv_relu", "host", 0, 4e6),
        ("acme_0", "acme", 4e6, 1e6),
        ("nn.relu", "acme: parts", 4e6, 0.5e6),
    ]


def test_modules_that_report_nothing_give_no_events():
    assert StartedModule([], None, []).profile(True) == ()
