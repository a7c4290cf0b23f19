"""The logic of the benchmark of plans: prices, noise, bars, and the stand-in for an NPU, by clocks that tests move."""

import importlib
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc.contract import BACKENDS, register_backend
from byoc.driver.pipeline import optimize
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.partition.costs import cost_model
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def bench(monkeypatch):
    """``bench("plan.results")`` is the module of that name in the package of benchmarks."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


@pytest.fixture
def npu(bench):
    """The stand-in, registered for one test; the module that it is in."""
    module = bench("plan.npu")
    register_backend(module.NpuBackend)
    yield module
    for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
        registry.unregister(module.NAME)
    GLOBAL_FUNCTIONS.unregister(f"relay.ext.{module.NAME}")


def network(groups=1):
    """``x`` f32[1, 8, 12, 12] through a convolution of 3x3 with bias and relu, a softmax and a product 8 x 8."""

    def weight(name, *shape):
        return numpy_helper.from_array(np.random.default_rng(0).standard_normal(shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1], group=groups),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Softmax", ["r"], ["s"], "soft", axis=-1),
        helper.make_node("GlobalAveragePool", ["s"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "v"], ["out"], "gemm", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 12, 12])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 8])],
        [weight("w", 8, 8 // groups, 3, 3), weight("b", 8), weight("v", 8, 8)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def costs_of(npu):
    return cost_model({"npu": npu.TABLE_FILE, "c": "typical"}, ["npu"])


def test_the_price_of_a_cut_by_cost_is_what_its_plan_says(bench, npu):
    mod = optimize(byoc.import_onnx(network()))
    costs = costs_of(npu)
    plan = byoc.plan(mod, ["npu", "c"], policy="cost", costs=costs)
    assert bench("plan.price").price(plan, mod, costs) == pytest.approx(plan.total.seconds)


def test_the_price_counts_what_goes_up_and_down_around_each_region(bench, npu):
    mod = optimize(byoc.import_onnx(network()))
    costs = costs_of(npu)
    plan = byoc.plan(mod, ["npu", "c"])
    assert [r.target for r in plan.regions] == ["npu", "npu"]  # the softmax stays between them
    work = sum(e.seconds for d in plan.decisions for e in d.alternatives if d.target == "npu")
    sizes = [size for r in plan.regions for size in (r.input_bytes, r.output_bytes)]
    around = 2 * 5e-5 + sum(1e-5 + size / 4e9 for size in sizes)
    found = bench("plan.price").price(plan, mod, costs)
    assert found >= around + work
    whole = sum(b.bytes for r in plan.regions for b in (*r.inputs, *r.outputs))
    assert around == pytest.approx(1.4e-4 + whole / 4e9)


def test_the_npu_refuses_depthwise_convolutions_also_inside_of_its_pattern(npu):
    plan = byoc.plan(network(groups=8), ["npu", "c"])
    shown = str(plan.explain("conv"))
    assert "convolutions of one group, got 8 groups" in shown and "[groups]" in shown


def test_the_npu_computes_once_and_then_gives_its_results_after_the_tables_seconds(bench, npu):
    class Inner:
        symbols, calls = ("f",), 0

        def __getitem__(self, name):
            def run(given, result):
                self.calls += 1
                np.copyto(result.numpy(), 2 * given.numpy())

            return run

    now = iter([0.0, 10.0, 10.25, 10.5, 11.0])
    inner, array = Inner(), byoc.runtime.NDArray
    module = npu.NpuModule(inner, "f", 1, 0.75, lambda: next(now))
    given = array(np.array([1.0, 3.0], np.float32))
    for _ in range(2):
        result = array(np.zeros(2, np.float32))
        module.get_function("f")(given, result)
        np.testing.assert_array_equal(result.numpy(), [2.0, 6.0])
    assert inner.calls == 1 and next(now, None) is None  # began at 10, waited until 10.75 was past


def found_of(bench, name, turns, cut=None, gap=0.0, planning=1.0):
    results = bench("plan.results")
    way = results.Way(name, name.split()[0], ("npu",))
    found = results.Found(way, planning, 1, 1, 2, 1e-3, cut or name, 1e-3, 1e-3, gap)
    found.measured = turns and bench("rounds").timing(turns)
    return found


def test_cost_is_slower_only_beyond_its_own_noise(bench):
    results, timing = bench("plan.results"), bench("rounds").timing
    mine, again = [1.0, 1.02, 0.98, 1.0, 1.01], [1.0, 1.0, 1.0, 1.0, 1.0]
    noise = results.noise_of(timing(mine), timing(again))
    assert noise == pytest.approx(0.02)
    group = results.Group("net", ("npu",), noise=noise)
    order, host = found_of(bench, "order", [0.99] * 5), found_of(bench, "host", [0.5] * 5)
    group.found = [found_of(bench, "cost", mine), order, host]
    assert group.slower_than() == {"host": pytest.approx(2.0)}
    assert "SLOWER" in results.group_lines(group)[-1]
    group.found[2].cut = "cost"  # the same cut is no other
    assert group.slower_than() == {}
    group.found[0].measured = None
    assert group.slower_than() is None


def test_the_bars_show_where_they_are_missed(bench):
    results = bench("plan.results")
    order = found_of(bench, "order", [2.0, 2.0])
    good = results.Group("good", ("npu",), [found_of(bench, "cost", [1.0, 1.0]), order], 0.01)
    proven, fast = results.zoo_bars([good])
    assert proven.held and fast.held
    bad = results.Group("bad", ("npu",), [found_of(bench, "cost", [3.0, 3.0], gap=None), order], 0.01)
    late = results.Group("late", ("npu",), [found_of(bench, "cost", None, planning=11.0)])
    proven, fast = results.zoo_bars([good, bad, late])
    assert "bad over npu (gap unknown" in str(proven) and "late over npu (gap 0, 11.0 s)" in str(proven)
    assert str(fast).startswith("MISSED") and "bad over npu than order" in str(fast) and "good" not in str(fast)
    assert [bar.held for bar in results.zoo_bars([])] == [None, None]


def test_a_large_graph_without_a_gap_misses_its_bar(bench):
    results = bench("plan.results")

    def large(operators, seconds, gap):
        planning, regions = {"order": 1.0, "cost": seconds}, {"order": 1, "cost": 1}
        return results.Large("chain", operators, 1.0, planning, planning, regions, "heuristic", gap)

    assert results.large_bar([large(100, 99.0, None)]).held is None
    assert results.large_bar([large(100_000, 29.0, 0.5)]).held
    assert not results.large_bar([large(100_000, 29.0, None)]).held
    assert not results.large_bar([large(100_000, 31.0, 0.0)]).held


@pytest.mark.needs_cc
@pytest.mark.slow
def test_the_benchmark_plans_and_times_a_tiny_zoo(tmp_path):
    pytest.importorskip("onnxruntime", reason="the benchmark's reference: byoc-compiler[bench]")
    pytest.importorskip("scipy", reason="plans by cost are proven by its solver: byoc-compiler[solve]")
    onnx.save(network(), tmp_path / "tiny.onnx")
    command = [
        sys.executable,
        "-m",
        "benchmarks.plan",
        "--zoo",
        tmp_path,
        "--over",
        "npu",
        "--costs",
        "typical",
        "--rounds",
        "2",
        "--turn-seconds",
        "0.001",
        "--sizes",
        "200",
        "--families",
        "chain",
        "--json",
        tmp_path / "out.json",
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    (group,) = found["groups"]
    ways = {way["way"]: way for way in group["ways"]}
    assert set(ways) == {"cost", "order", "score", "host alone"}
    assert all(way["measured"]["median"] > 0 and way["difference"] <= 1e-4 for way in ways.values())
    assert ways["order"]["measured"]["median"] >= 1.4e-4  # two launches and four transfers that the table waits for
    assert ways["cost"]["gap"] == 0 and found["large"][0]["operators"] == 200
