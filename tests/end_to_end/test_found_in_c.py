"""What is found by elements (places that are not 0, as many of the best as an input says) is found by generated code.

Held to ONNX Runtime in process and from the artefact in a process of its own, with fixed and free sizes.
"""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import byoc
from byoc.runtime.errors import IndexOutsideError
from fuzz.judge.onnx_runtime import session
from tests.end_to_end.test_routines import agree, model, value

pytestmark = pytest.mark.needs_cc
RNG = np.random.default_rng(5)


def chosen(rows):
    """Places of what is above 0, and the rows of a matrix that a condition chooses, before a product."""
    nodes = [
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("NonZero", ["positive"], ["places"], name="places"),
        helper.make_node("Compress", ["x", "keeps"], ["kept"], axis=0, name="kept"),
        helper.make_node("MatMul", ["kept", "weight"], ["out"]),
    ]
    inputs = [value("x", "f4", [rows, 70]), value("keeps", "?", [rows])]
    outputs = [("places", "i8", [2, None]), ("out", "f4", [None, 3])]
    return model(nodes, inputs, outputs, weight=RNG.standard_normal((70, 3)).astype("f4"))


def best(rows):
    """The best by an input, along the first axis and the last."""
    nodes = [
        helper.make_node("Exp", ["x"], ["scores"]),
        helper.make_node("TopK", ["scores", "k"], ["values", "order"], axis=0, name="best"),
        helper.make_node("TopK", ["scores", "k"], ["least", "places"], largest=0, name="least"),
        helper.make_node("Mul", ["values", "values"], ["squares"]),
    ]
    inputs = [value("x", "f4", [rows, 70]), value("k", "i8", [1])]
    outputs = [("squares", "f4"), ("order", "i8"), ("least", "f4"), ("places", "i8")]
    return model(nodes, inputs, outputs)


def choices(rows):
    x = RNG.standard_normal((rows, 70)).astype("f4")
    return {"x": x, "keeps": RNG.integers(0, 2, rows).astype(bool)}


def numbers(rows):
    return {"x": RNG.permutation(rows * 70).reshape(rows, 70).astype("f4") / 999, "k": np.array([rows // 3])}


MODELS = {"chosen": (chosen, choices), "best": (best, numbers)}


def on_numpy_kernels(library):
    """What is no generated code in the parts that the virtual machine calls."""
    (control,) = library.report["control_flow"]
    return {name: why for part in control["parts"].values() for name, why in part["host_fallbacks"].items()}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("name", MODELS)
def test_places_and_orders_are_those_of_onnx_runtime(name, free, threads, tmp_path, artifact_runner):
    make, feeds = MODELS[name]
    proto = make("N" if free else 130)
    library = byoc.compile(proto)
    assert on_numpy_kernels(library) == {}
    library.save(tmp_path / "model.byoc")
    given = [feeds(n) for n in ((130, 1, 7) if free else (130, 130))]
    wanted = [session(proto).run(None, each) for each in given]
    library.threads = threads
    for each, want in zip(given, wanted, strict=True):
        agree(library.run(each), want)
    for found, want in zip(artifact_runner.run(tmp_path / "model.byoc", given, threads), wanted, strict=True):
        agree(found, want)


def test_nothing_that_is_found_is_an_empty_tensor():
    zeros = {"x": -np.ones((5, 70), "f4"), "keeps": np.zeros(5, bool)}
    agree(byoc.compile(chosen("N")).run(zeros), [np.zeros((2, 0), "i8"), np.zeros((0, 3), "f4")])


@pytest.mark.parametrize("k", [-1, 6])
def test_a_number_that_there_is_not_is_an_error_with_the_node(k):
    given = {"x": np.zeros((5, 70), "f4"), "k": np.array([k])}
    with pytest.raises(IndexOutsideError, match=rf"node best .*: k, .*: {k} is outside a dimension of 5"):
        byoc.compile(best("N")).run(given)
