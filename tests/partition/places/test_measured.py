"""Blocks A4, A9, A10 and A12: kernels chosen by time, alone or with the casts between them, and times that are kept."""

import itertools
import json
import random
from dataclasses import replace

import pytest
from place_graphs import chain, random_graph, unary

from byoc.errors import PartitionError
from byoc.partition.places.cast_rules import DEFAULT_RULES, CastRules
from byoc.partition.places.choose import choose_kernels
from byoc.partition.places.graph import Graph, Operator, Tensor
from byoc.partition.places.infer import insert_casts
from byoc.partition.places.kernel import KernelRegistry, register_kernel
from byoc.partition.places.measured import pick_measured
from byoc.partition.places.place import Place
from byoc.partition.places.tensor_type import TensorTy
from byoc.partition.places.timings import Timings, timing_key


def times_of(table):
    return lambda kernel, operator, graph: table[kernel.op, kernel.place.target]


def without_kernels(graph):
    return graph.with_operators(tuple(replace(o, kernel=None) for o in graph.operators))


def two_targets():
    """Operators a and c on both targets, b on the host alone."""
    registry = KernelRegistry()
    made = {(op, t): unary(registry, op, t) for op in "ac" for t in ("opencl", "host")}
    made["b", "host"] = unary(registry, "b", "host")
    return registry, made


def targets(picked):
    return [o.place.target for o in picked.graph.operators]


def test_A4_both_ways_to_pick_are_there_and_may_differ():
    registry, made = two_targets()
    graph = without_kernels(chain([made["a", "host"]]))
    places = ["opencl", "host"]
    by_rule = choose_kernels(graph, places, "rule", registry)
    slow = times_of({("a", "opencl"): 3.0, ("a", "host"): 1.0})
    by_time = choose_kernels(graph, places, "measure", registry, time=slow, cast_time=lambda step, size: 0.0)
    assert targets(by_rule) == ["opencl"] and targets(by_time) == ["host"]
    assert [[t for _, t in row] for row in by_time.times] == [[3.0, 1.0]]
    with pytest.raises(PartitionError, match="known: rule, measure"):
        choose_kernels(graph, places, "guess", registry)
    with pytest.raises(PartitionError, match="needs time and cast_time"):
        choose_kernels(graph, places, "measure", registry, time=slow)


def test_A12_the_locally_fastest_kernel_loses_to_its_copies_in_joint_mode():
    registry, made = two_targets()
    graph = without_kernels(chain([made["a", "host"], made["b", "host"], made["c", "host"]]))
    table = {("a", "opencl"): 1.0, ("a", "host"): 2.0, ("b", "host"): 1.0, ("c", "opencl"): 1.0, ("c", "host"): 2.0}
    found = {}
    for mode in ("local", "joint"):
        picked = pick_measured(graph, ["opencl", "host"], times_of(table), lambda step, size: 5.0, registry, mode)
        found[mode] = (targets(picked), picked.seconds)
    assert found == {"local": (["opencl", "host", "opencl"], 1 + 1 + 1 + 4 * 5.0), "joint": (["host"] * 3, 5.0)}


def test_A10_the_chain_leaves_opencl_only_where_the_gain_pays_for_the_copies():
    registry, made = two_targets()
    graph = without_kernels(chain([made["a", "host"], made["b", "host"], made["c", "host"]]))
    table = {("a", "opencl"): 1.0, ("a", "host"): 9.0, ("b", "host"): 1.0, ("c", "opencl"): 1.0, ("c", "host"): 9.0}
    for copy, expected in ((1.0, ["opencl", "host", "opencl"]), (5.0, ["host"] * 3)):
        picked = pick_measured(graph, ["opencl", "host"], times_of(table), lambda s, b: copy, registry)  # noqa: B023
        assert targets(picked) == expected
    assert insert_casts(picked.graph).report().count("target") == 0


def test_A12_joint_mode_equals_brute_force_and_is_never_above_any_single_choice():
    rng = random.Random(12)
    improved = 0
    for _ in range(60):
        registry = KernelRegistry()
        ops = [f"op{n}" for n in range(3)]
        kernels = {(op, t): unary(registry, op, t) for op in ops for t in ("opencl", "host")}
        table = {key: rng.uniform(0.5, 3.0) for key in kernels}
        graph = random_graph(rng, list(kernels.values()), rng.randint(1, 5))
        graph = graph.with_operators(
            tuple(
                replace(o, inputs=(("X", o.inputs[0][1]), *((f"Y{n}", t) for n, (_, t) in enumerate(o.inputs[1:]))))
                for o in graph.operators
            )
        )
        copy = rng.uniform(0.1, 2.0)
        picked = pick_measured(graph, ["opencl", "host"], times_of(table), lambda s, b: copy, registry)  # noqa: B023

        def seconds(operators):
            casting = insert_casts(graph.with_operators(operators))  # noqa: B023
            work = sum(table[o.op, o.kernel.place.target] for o in operators)  # noqa: B023
            return work + copy * casting.report().count()  # noqa: B023

        every = [
            tuple(replace(o, kernel=kernels[o.op, t], place=Place(t)) for o, t in zip(graph.operators, ts, strict=True))
            for ts in itertools.product(("opencl", "host"), repeat=len(graph.operators))
        ]
        best = min(map(seconds, every))
        assert picked.exact and picked.seconds == pytest.approx(best) == pytest.approx(seconds(picked.graph.operators))
        uniform = [seconds(operators) for operators in (every[0], every[-1])]
        assert picked.seconds <= min(uniform) + 1e-9
        improved += picked.seconds < min(uniform) - 1e-9
    assert improved > 5


def test_A12_a_search_that_dropped_ways_says_so():
    registry, made = two_targets()
    graph = without_kernels(chain([made["a", "host"], made["c", "host"], made["a", "host"]]))
    table = {key: 1.0 for key in made}
    picked = pick_measured(graph, ["opencl", "host"], times_of(table), lambda s, b: 1.0, registry, most=1)
    assert not picked.exact and len(targets(picked)) == 3


def test_A12_results_constants_and_opaque_operators_are_counted_right():
    registry, _made = two_targets()
    scale = register_kernel("scale", "opencl", registry=registry).bind_input("X").bind_input("W").finalize()
    tensors = (Tensor("x"), Tensor("w", constant=True), Tensor("y"))
    graph = Graph(tensors, (Operator("scale", (("X", 0), ("W", 1)), (("Out", 2),)),), {}, ((2, TensorTy("host")),))
    picked = pick_measured(graph, ["opencl"], lambda k, o, g: 10.0, lambda s, b: 1.0, registry)
    assert picked.seconds == 12.0  # x there and y back; w when building
    fixed = replace(graph.operators[0], op="subgraph", kernel=scale, opaque=True)
    picked = pick_measured(graph.with_operators((fixed,)), ["host"], lambda k, o, g: 1.0, lambda s, b: 0.0, registry)
    assert picked.graph.operators[0] is fixed


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), None, "1", True])
def test_A12_a_time_that_is_none_is_refused(seconds):
    registry, made = two_targets()
    graph = without_kernels(chain([made["b", "host"]]))
    with pytest.raises(PartitionError, match=r"kernel b:def@host/float/NCHW of b \(op0\) takes"):
        pick_measured(graph, ["host"], lambda k, o, g: seconds, lambda s, b: 0.0, registry)


def test_A12_bad_questions_are_refused():
    registry, made = two_targets()
    graph = without_kernels(chain([made["b", "host"]]))
    with pytest.raises(PartitionError, match="joint, local"):
        pick_measured(graph, ["host"], lambda k, o, g: 1.0, lambda s, b: 0.0, registry, "global")
    with pytest.raises(PartitionError, match=r"no kernel for b .op0. at any of the places opencl"):
        pick_measured(graph, ["opencl"], lambda k, o, g: 1.0, lambda s, b: 0.0, registry)
    on_opencl = without_kernels(chain([made["a", "opencl"]], results=False))
    with pytest.raises(PartitionError, match="can be reached by casts"):
        pick_measured(
            on_opencl, ["opencl"], lambda k, o, g: 1.0, lambda s, b: 0.0, registry, rules=CastRules(DEFAULT_RULES[2:])
        )


class Clock:
    """A clock that each run of a kernel moves by what is next in *steps*."""

    def __init__(self, steps):
        self.now, self.steps, self.runs = 0.0, itertools.cycle(steps), 0

    def prepare(self, kernel, operator, graph):
        def run():
            self.runs += 1
            self.now += next(self.steps)

        return run

    def __call__(self):
        return self.now


def test_A12_a_time_is_the_median_of_three_after_a_warm_run_and_is_kept_for_the_next_process(tmp_path):
    registry, made = two_targets()
    graph = without_kernels(chain([made["a", "host"], made["c", "host"], made["a", "host"]]))
    clock = Clock([100.0, 3.0, 1.0, 2.0])
    first = Timings(clock.prepare, tmp_path / "times.jsonl", clock=clock)
    places, copies = ["opencl", "host"], lambda step, size: 0.5
    one = pick_measured(graph, places, first, copies, registry)
    assert all(t == 2.0 for row in one.times for _, t in row)
    assert first.trials == clock.runs == 4 * 4  # a and c at two places; the third operator is the first again
    second = Timings(clock.prepare, tmp_path / "times.jsonl", clock=clock)
    two = pick_measured(graph, places, second, copies, registry)
    assert second.trials == 0 and two.graph == one.graph and two.times == one.times
    other = Timings(clock.prepare, tmp_path / "times.jsonl", version="2", clock=clock)
    pick_measured(graph, places, other, copies, registry)
    assert other.trials == 16


def test_A12_damaged_lines_are_passed_over_and_few_repeats_refused(tmp_path):
    path = tmp_path / "times.jsonl"
    good = json.dumps({"key": "k version 1", "seconds": 1.0})
    path.write_text(f"nonsense\n[]\n{{}}\n{good}\n", encoding="utf-8")
    assert Timings(lambda k, o, g: lambda: None, path)._seconds == {"k version 1": 1.0}
    for repeats in (1, 2, 4):
        with pytest.raises(PartitionError, match="odd number"):
            Timings(lambda k, o, g: lambda: None, repeats=repeats)


def test_A9_A12_the_key_of_a_time_has_layout_device_shape_dtype_attributes_and_version():
    registry = KernelRegistry()
    tensors = (Tensor("x", shape=(1, 2, 3, 4)), Tensor("y"))
    graph = Graph(tensors, (), {})
    operator = Operator("conv", (("X", 0),), (("Out", 1),), attrs="strides=2")
    nchw, nhwc = (unary(registry, "conv", f"opencl/float/{y}") for y in ("NCHW", "NHWC"))
    wide = replace(graph, tensors=(Tensor("x", shape=(1, 2, 3, 8)), Tensor("y")))
    half = replace(graph, tensors=(Tensor("x", "fp16", (1, 2, 3, 4)), Tensor("y")))
    keys = [
        timing_key(nchw, operator, graph, "1"),
        timing_key(nhwc, operator, graph, "1"),
        timing_key(nchw, replace(operator, place=Place("opencl", device=1)), graph, "1"),
        timing_key(nchw, operator, wide, "1"),
        timing_key(nchw, operator, half, "1"),
        timing_key(nchw, replace(operator, attrs="strides=1"), graph, "1"),
        timing_key(nchw, operator, graph, "2"),
    ]
    assert len(set(keys)) == len(keys)
    assert timing_key(nchw, replace(operator, name="other"), graph, "1") == keys[0]
