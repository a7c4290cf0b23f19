"""Random graphs under random support: the cut is lawful, computes the same numbers, and does not depend on chance."""

import os
import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest

from byoc import relay
from byoc.contract import get_backend
from byoc.relay import op
from byoc.relay.analysis.regions.region_checks import check_regions
from byoc.relay.analysis.regions.region_graph import open_children
from byoc.relay.expr import Call, Function, Tuple, TupleGetItem
from byoc.relay.interpreter import evaluate
from byoc.relay.transform import PartitionGraph
from byoc.relay.transform.cut.annotate_target import annotate_function
from byoc.relay.transform.cut.merge_compiler_regions import _Merger, merge_regions

UNARY = (op.abs, op.negative, op.tanh, op.sigmoid)
BINARY = (op.add, op.subtract, op.maximum)


def random_function(rng: random.Random, size: int) -> Function:
    """A function of two inputs whose result is a tuple of all that nothing else uses."""
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    values, used = [x, y], set()

    def pick():
        value = rng.choice(values[-rng.choice((2, 4, 50)) :])
        used.add(value)
        return value

    for _ in range(size):
        kind = rng.random()
        if kind < 0.4:
            made = rng.choice(UNARY)(pick())
        elif kind < 0.85:
            made = rng.choice(BINARY)(pick(), pick())
        elif kind < 0.95:
            made = TupleGetItem(Tuple([pick(), pick()]), rng.randrange(2))
        else:
            made = op.add(pick(), relay.const(np.full((2, 3), rng.random(), "float32")))
        values.append(made)
    return relay.Function([x, y], Tuple([v for v in values[2:] if v not in used] or [values[-1]]))


def annotated(rng: random.Random, size: int):
    mod = relay.transform.InferType()(relay.IRModule.from_expr(random_function(rng, size)))
    choice = {}
    bias = rng.random()

    def choose(call: Call) -> str | None:
        return choice.setdefault(call, None if rng.random() < 0.2 else ("A" if rng.random() < bias else "B"))

    return mod, annotate_function(mod["main"], choose)


def paths_leave_and_return(func: Function) -> bool:
    """An independent check by sets of descendants: does any region reach itself through something outside?"""
    graph = check_regions(func, "test")
    below = {node: set() for node in graph.nodes}
    for node in reversed(graph.nodes):
        for child in open_children(node):
            below[child] |= below[node] | {node}
    for region in graph.regions:
        inside = set(region.nodes)
        outside_after = set().union(*(below[n] for n in inside)) - inside
        if any(below[n] & inside for n in outside_after):
            return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_a_random_cut_is_convex_and_computes_the_same_numbers(seed: int) -> None:
    rng = random.Random(seed)
    mod, marked = annotated(rng, rng.randrange(3, 60))
    merged = merge_regions(marked)
    assert not paths_leave_and_return(merged)
    cut = mod.shallow_copy()
    cut["main"] = merged
    cut = PartitionGraph()(cut)
    inputs = [np.random.default_rng(seed + k).standard_normal((2, 3)).astype("float32") for k in range(2)]
    want, got = evaluate(mod, inputs), evaluate(cut, inputs)
    assert len(want) == len(got)
    for a, b in zip(want, got, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("seed", range(40))
def test_no_two_neighbouring_regions_of_a_target_could_still_be_merged(seed: int) -> None:
    rng = random.Random(1000 + seed)
    _, marked = annotated(rng, 30)
    again = merge_regions(merge_regions(marked))
    assert len(check_regions(again, "test").regions) == len(check_regions(merge_regions(marked), "test").regions)


def test_the_same_cut_comes_out_under_two_hash_seeds() -> None:
    program = (
        "import random, sys; sys.path.insert(0, sys.argv[1]); import test_random_graphs as t\n"
        "from byoc.relay.transform import PartitionGraph\n"
        "mod, marked = t.annotated(random.Random(7), 60)\n"
        "mod['main'] = t.merge_regions(marked)\n"
        "print(PartitionGraph()(mod))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program, str(pathlib.Path(__file__).parent)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert "tvmgen_default_A_main" in outputs[0]
    assert outputs[0] == outputs[1]


@pytest.mark.slow
def test_a_hundred_thousand_calls_in_alternate_runs_are_cut() -> None:
    expr = x = relay.var("x", shape=(2,))
    for run in range(1000):
        for _ in range(100):
            expr = (op.abs if run % 2 else op.negative)(expr)
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], expr)))
    marked = annotate_function(mod["main"], lambda call: "A" if call.op.name == "abs" else "B")
    mod["main"] = merge_regions(marked)
    cut = PartitionGraph()(mod)
    regions = [f for f in cut.functions.values() if "Compiler" in f.attrs]
    assert [f.attrs["Compiler"] for f in regions] == ["B", "A"] * 500


def test_a_region_with_many_parents_looks_at_each_edge_a_few_times(monkeypatch):
    """Ten times the branches into one tuple take about ten times the steps, not a hundred."""

    def steps(branches):
        count = 0
        find = _Merger.find

        def counted(self, unit):
            nonlocal count
            count += 1
            return find(self, unit)

        x = relay.var("x", shape=(2,))
        fields = [relay.negative(relay.add(x, relay.const(float(k)))) for k in range(branches)]
        mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], relay.Tuple(fields))))
        get_backend("json")
        annotated = relay.transform.AnnotateTarget(["json"])(mod)
        with monkeypatch.context() as patch:
            patch.setattr(_Merger, "find", counted)
            relay.transform.MergeCompilerRegions()(annotated)
        return count

    assert steps(1000) < 15 * steps(100)
