"""Loops whose carried values grow, or begin with another rank than the one that every run gives.

Decoders of tables and of text are exported like that: what they have found so far is joined along an axis, and begins
with an empty tensor. Held to ONNX Runtime in process and from the artefact in a process of its own.
"""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import byoc
from byoc.errors import ImportModelError, InputError
from fuzz.judge.onnx_runtime import session

pytestmark = pytest.mark.needs_cc
F, BOOL, LONG = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


def value(name, dtype=F, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def looped(nodes, begin, step, scans=()):
    """A loop of *n* runs whose body makes ``next`` of ``s``, the step ``x`` and the number ``i``."""
    nodes = [helper.make_node("Identity", ["c"], ["going"]), *nodes]
    outputs = [value("going", BOOL, []), value("next"), *map(value, scans)]
    body = helper.make_graph(nodes, "body", [value("i", LONG, []), value("c", BOOL, []), value("s")], outputs)
    loop = helper.make_node("Loop", ["n", "", "s0"], ["y", *(f"all_{s}" for s in scans)], body=body, name="decode")
    zero = helper.make_node("Constant", [], ["zero"], value=helper.make_tensor("z", LONG, [], [0]))
    inputs = [value("n", LONG, []), value("s0", F, begin), value("x", F, step)]
    graph = helper.make_graph([zero, loop], "g", inputs, [value("y"), *(value(f"all_{s}") for s in scans)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def joined():
    return [helper.make_node("Concat", ["s", "x"], ["next"], axis=1)]


def first_or_joined():
    """What PaddlePaddle's converter writes: the first run takes the step, the others join it."""
    then = helper.make_graph([helper.make_node("Identity", ["x"], ["t"])], "then", [], [value("t")])
    other = helper.make_graph([helper.make_node("Concat", ["s", "x"], ["e"], axis=1)], "else", [], [value("e")])
    first = helper.make_node("Equal", ["i", "zero"], ["first"])
    return [first, helper.make_node("If", ["first"], ["next"], then_branch=then, else_branch=other)]


def summed():
    return [helper.make_node("Add", ["s", "x"], ["next"]), helper.make_node("ReduceSum", ["next"], ["total"])]


def feed(n, begin, step):
    rng = np.random.default_rng(n)
    return {"n": np.array(n), "s0": np.zeros(begin, "f4"), "x": rng.standard_normal(step).astype("f4")}


def check(model, given, tmp_path, artifact_runner):
    library = byoc.compile(model)
    library.save(tmp_path / "model.byoc")
    wanted = [session(model).run(None, each) for each in given]
    for found in ([library.run(each) for each in given], artifact_runner.run(tmp_path / "model.byoc", given)):
        for one, want in zip(found, wanted, strict=True):
            for got, right in zip(one, want, strict=True):
                np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5, strict=True)


@pytest.mark.parametrize(
    "begin, empty", [(["B", 0, 3], (2, 0, 3)), ([1, 0, 3], (1, 0, 3)), (["P", "Q", 3], (0, 0, 3)), ([0] * 3, (0,) * 3)]
)
def test_a_value_grows_from_an_empty_one(begin, empty, tmp_path, artifact_runner):
    """Its other sizes need not be those of what is joined to it."""
    given = [feed(4, empty, (2, 1, 3)), feed(1, empty, (2, 1, 3))]
    check(looped(joined(), begin, ["B", 1, 3]), given, tmp_path, artifact_runner)


def test_the_first_run_may_give_another_rank(tmp_path, artifact_runner):
    given = [feed(n, (0,), (b, 1, 3)) for n, b in ((4, 2), (1, 5))]
    check(looped(first_or_joined(), [0], ["B", 1, 3]), given, tmp_path, artifact_runner)


def test_a_number_that_becomes_a_matrix_and_what_runs_collect(tmp_path, artifact_runner):
    given = [feed(n, (), (2, 3)) for n in (3, 1)]
    check(looped(summed(), [], [2, 3], ["total"]), given, tmp_path, artifact_runner)
    given = [feed(n, (), (b, 3)) for n, b in ((3, 2), (1, 4))]
    check(looped(summed(), [], ["B", 3], ["total"]), given, tmp_path, artifact_runner)


def test_no_run_at_all_of_such_a_loop_is_an_error():
    library = byoc.compile(looped(summed(), [], [2, 3]))
    with pytest.raises(InputError, match=r"node decode \(Loop\): whether its body runs, .* has another rank"):
        library.run(feed(0, (), (2, 3)))


def test_a_rank_that_changes_in_every_run_is_refused():
    nodes = [helper.make_node("Unsqueeze", ["s", "axes"], ["next"])]
    model = looped(nodes, [2], [2])
    model.graph.node.insert(
        0, helper.make_node("Constant", [], ["axes"], value=helper.make_tensor("a", LONG, [1], [0]))
    )
    with pytest.raises(ImportModelError, match=r"node decode \(Loop\): .* keeps its dtype and its rank"):
        byoc.compile(model)
