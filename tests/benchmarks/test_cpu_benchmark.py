"""The benchmark's own logic, with a clock that the test moves: nothing here depends on how fast the machine is."""

import importlib
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def bench(monkeypatch):
    """``bench("rounds")`` is the module of that name in the package of benchmarks."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


class Machine:
    """A clock, and calls that move it: a call takes its seconds times the slowness of the moment."""

    def __init__(self):
        self.now, self.slowness, self.log = 0.0, 1.0, []

    def clock(self):
        return self.now

    def call(self, name, seconds):
        def run():
            self.log.append(name)
            self.now += seconds * self.slowness

        return run

    def pause(self, seconds):
        self.log.append("pause")
        self.now += seconds


def test_interleaving_gives_the_seconds_of_each_call(bench):
    machine, rounds = Machine(), bench("rounds")
    calls = {"slow": machine.call("slow", 0.5), "fast": machine.call("fast", 0.125)}
    found = rounds.interleave(calls, rounds.Schedule(4, 1.0, 0.25), machine.clock, machine.pause)
    assert {name: t.median for name, t in found.items()} == {"slow": 0.5, "fast": 0.125}
    assert all(len(t.turns) == 4 and t.lower == t.median == t.upper for t in found.values())


def test_every_turn_begins_with_a_pause_and_a_call_that_is_not_counted(bench):
    machine, rounds = Machine(), bench("rounds")
    calls = {"slow": machine.call("slow", 0.5), "fast": machine.call("fast", 0.125)}
    rounds.interleave(calls, rounds.Schedule(2, 1.0, 0.25), machine.clock, machine.pause)
    turns = " ".join(machine.log).split("pause")
    counts = [(turn.split()[0], len(turn.split())) for turn in turns[1:]]
    assert counts == [("slow", 3), ("fast", 9), ("fast", 9), ("slow", 3)]  # the order turns; 1 s in calls, and one


def test_a_slow_while_of_the_machine_leaves_the_ratio_alone(bench):
    machine, rounds = Machine(), bench("rounds")

    def pause(seconds):
        machine.pause(seconds)
        machine.slowness = 3.0 if machine.now > 20 else 1.0

    calls = {"a": machine.call("a", 0.2), "b": machine.call("b", 0.1)}
    found = rounds.interleave(calls, rounds.Schedule(21, 1.0, 0.0), machine.clock, pause)
    ratios = [a / b for a, b in zip(found["a"].turns, found["b"].turns, strict=True)]
    assert sorted(ratios)[10] == pytest.approx(2.0)
    assert found["a"].upper == pytest.approx(0.6)


def test_one_turn_is_its_own_quartiles_and_none_is_an_error(bench):
    rounds = bench("rounds")
    assert rounds.timing([0.5]).upper == rounds.timing([0.5]).lower == 0.5
    assert rounds.timing([4.0, 1.0, 3.0, 2.0, 5.0]).lower == 2.0
    with pytest.raises(ValueError, match="no turn"):
        rounds.timing([])
    assert rounds.interleave({}, rounds.Schedule(3)) == {}


def cell_of(bench, **medians):
    results, timing = bench("cpu.results"), bench("rounds").timing
    cell = results.Cell("net", 1, "f32", 1_000_000, 1e9)
    cell.timings = {name: timing([seconds]) for name, seconds in medians.items()}
    return cell


def test_ratios_are_to_each_peer_and_to_the_faster(bench):
    cell = cell_of(bench, byoc=0.002, onnxruntime=0.003, openvino=0.001)
    assert cell.ratio("onnxruntime") == pytest.approx(1.5)
    assert cell.ratio_to_better == pytest.approx(0.5)
    assert cell.share_of_peak("byoc") == pytest.approx(0.5)
    assert cell.seconds_at_peak == pytest.approx(0.001) and cell.ratio_at_peak == pytest.approx(1.0)
    assert "net 0.50" in bench("cpu.results").means([cell], 1)[0]


def test_a_peer_without_a_figure_is_left_out_of_the_mean(bench):
    results = bench("cpu.results")
    cells = [cell_of(bench, byoc=0.002, onnxruntime=0.004), cell_of(bench, onnxruntime=0.004)]
    cells[1].failures["byoc"] = "it fell over"
    assert "geometric mean 2.000" in results.means(cells, 2)[0] and "1 of 2 models" in results.means(cells, 2)[0]
    engines = ["byoc", "onnxruntime"]
    assert "byoc: it fell over" in results.line(cells[1], engines)
    assert len(results.line(cells[0], engines)) == len(results.header(engines))


@pytest.mark.parametrize(
    "ours, expected, difference",
    [
        ([[1.0, 3.0]], [[1.0, 2.0]], 1.0),
        ([[0.0, 10.0]], [[0.5, 10.0]], 0.5 / 9.5),
        ([[1.0, np.nan]], [[1.0, 2.0]], np.inf),
        ([[1.0, np.inf]], [[1.0, np.inf]], 0.0),
        ([[1.0]], [[1.0], [2.0]], np.inf),
        ([[1.0]], [[1.0, 1.0]], np.inf),
        ([[3.0, 3.0]], [[2.0, 2.0]], 1.0),
    ],
)
def test_differences_are_relative_to_the_range_expected(bench, ours, expected, difference):
    found = bench("engines").relative_difference([np.array(a) for a in ours], [np.array(a) for a in expected])
    assert found == pytest.approx(difference)


def write_model(path, batch=4):
    """``x`` f32[4, 1, 6, 6] through a convolution 1 to 2 of 3x3 without padding, then a product 32 by 5."""

    def weight(name, *shape):
        return numpy_helper.from_array(np.random.default_rng(0).standard_normal(shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Flatten", ["c"], ["f"]),
        helper.make_node("Gemm", ["f", "v"], ["out"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 1, 6, 6])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [batch, 5])],
        [weight("w", 2, 1, 3, 3), weight("v", 5, 32)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def test_multiply_adds_are_counted_from_the_graph(bench, tmp_path):
    write_model(tmp_path / "m.onnx")
    assert bench("cpu.counts").multiply_adds(tmp_path / "m.onnx") == 4 * 2 * 4 * 4 * 9 + 4 * 32 * 5


def test_a_product_of_unknown_size_is_not_counted(bench, tmp_path):
    write_model(tmp_path / "m.onnx", "n")
    with pytest.raises(ValueError, match="unknown"):
        bench("cpu.counts").multiply_adds(tmp_path / "m.onnx")


def run(*arguments):
    command = [sys.executable, "-m", "benchmarks.cpu", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=ROOT)


@pytest.mark.needs_cc
def test_the_benchmark_runs_a_tiny_zoo_and_writes_what_it_found(tmp_path):
    pytest.importorskip("onnxruntime", reason="the benchmark's reference: byoc-compiler[bench]")
    write_model(tmp_path / "tiny.onnx")
    done = run(
        "--zoo",
        tmp_path,
        "--threads",
        1,
        "--engines",
        "byoc,onnxruntime",
        "--rounds",
        1,
        "--quick",
        "--memory",
        "--json",
        tmp_path / "out.json",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    (cell,) = found["cells"]
    assert cell["model"] == "tiny" and set(cell["engines"]) == {"byoc", "onnxruntime"} and cell["failures"] == {}
    assert cell["engines"]["byoc"]["difference"] <= found["tolerance"]
    alone = found["models"]["tiny"]["alone_1"]
    assert all(alone[name]["peak_bytes"] >= alone[name]["anonymous_bytes"] > 0 for name in cell["engines"])


@pytest.mark.needs_cc
def test_a_model_that_we_cannot_compile_is_said_and_the_status_is_1(tmp_path):
    pytest.importorskip("onnxruntime", reason="the benchmark's reference: byoc-compiler[bench]")
    graph = helper.make_graph(
        [helper.make_node("Shrink", ["x"], ["out"]), helper.make_node("Unheard", ["x"], ["y"], domain="acme")],
        "odd",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [2])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "odd.onnx")
    write_model(tmp_path / "tiny.onnx")
    done = run("--zoo", tmp_path, "--threads", 1, "--engines", "byoc", "--rounds", 1, "--quick")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "byoc: byoc.errors.ImportModelError" in done.stdout and "Unheard" in done.stdout
    assert "outputs are not compared" in done.stdout and "\ntiny " in done.stdout


@pytest.mark.needs_cc
def test_groups_say_where_the_time_goes(bench, tmp_path):
    write_model(tmp_path / "m.onnx")
    groups = bench("cpu.groups")
    host, library = groups.by_group(str(tmp_path / "m.onnx"))
    ticks = iter(range(10**6))
    inputs = bench("engines").random_inputs(tmp_path / "m.onnx")
    found = groups.time_groups(host, library, inputs, 3, lambda: float(next(ticks)))
    assert sum(g.operations for g in found) >= 2 * (4 * 2 * 4 * 4 * 9 + 4 * 32 * 5)
    assert [g.seconds for g in found] == [1.0] * len(found) and "GFLOP/s" in groups.table(found)
    assert max(g.bytes for g in found) >= 4 * 4 * 36


@pytest.mark.needs_cc
def test_the_peak_of_two_is_counted_for_both(bench):
    peak = bench("cpu.peak")
    text = peak.source(peak.INSTRUCTIONS["f32"], 32)
    assert text.count("* x + y") == peak.accumulators(32) and "vector_size(32)" in text
    assert peak.peak(1) > 1e8


def test_a_machine_that_slows_down_for_both_changes_no_ratio(bench):
    rounds = bench("rounds")
    ours, theirs = rounds.timing([1.0, 3.0, 1.0, 5.0, 2.0]), rounds.timing([1.5, 4.5, 1.5, 7.5, 3.0])
    assert ours.times_as_fast(theirs) == 1.5
    with pytest.raises(ValueError, match="2 turns are not those of the rounds of 1"):
        rounds.timing([1.0, 2.0]).times_as_fast(rounds.timing([1.0]))
