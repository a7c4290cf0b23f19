"""Models that choose and scatter between products run as one program of generated code, with free sizes too.

Held to ONNX Runtime in process, from the artefact in a process of its own, and as the command line compiles them.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import byoc
from byoc.cli.main import main
from byoc.runtime.errors import IndexOutsideError
from fuzz.judge.onnx_runtime import session

pytestmark = pytest.mark.needs_cc
RNG = np.random.default_rng(16)


def value(name, dtype, shape=None):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def model(nodes, inputs, outputs, **constants):
    initializers = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, [value(*o) for o in outputs], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def detector(batch):
    """Scores by a convolution, the best places, and what a product makes of them."""
    nodes = [
        helper.make_node("Conv", ["image", "kernel"], ["maps"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Flatten", ["maps"], ["scores"]),
        helper.make_node("TopK", ["scores", "k"], ["best", "places"], name="best"),
        helper.make_node("MatMul", ["best", "weight"], ["out"], name="out"),
        helper.make_node("TopK", ["out", "two"], ["least", "order"], name="least", largest=0),
    ]
    return model(
        nodes,
        [value("image", "f4", [batch, 3, 8, 8])],
        [("out", "f4"), ("places", "i8"), ("order", "i8"), ("least", "f4")],
        kernel=RNG.standard_normal((2, 3, 3, 3)).astype("f4"),
        weight=RNG.standard_normal((20, 6)).astype("f4"),
        k=[20],
        two=[2],
    )


def scattered(rows):
    """A product whose rows are written where the model says, then single elements added, before another product."""
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["hidden"]),
        helper.make_node("ScatterND", ["memory", "slots", "hidden"], ["kept"], name="write"),
        helper.make_node(
            "ScatterElements", ["kept", "columns", "hidden"], ["sums"], axis=1, reduction="add", name="add"
        ),
        helper.make_node("Relu", ["sums"], ["out"]),
    ]
    return model(
        nodes,
        [
            value("x", "f4", [rows, 4]),
            value("memory", "f4", [rows, 5]),
            value("slots", "i8", [rows, 1]),
            value("columns", "i8", [rows, 5]),
        ],
        [("out", "f4")],
        weight=RNG.standard_normal((4, 5)).astype("f4"),
    )


def images(batch):
    return {"image": RNG.standard_normal((batch, 3, 8, 8)).astype("f4")}


def writes(rows):
    return {
        "x": RNG.standard_normal((rows, 4)).astype("f4"),
        "memory": RNG.standard_normal((rows, 5)).astype("f4"),
        "slots": RNG.permutation(rows)[:, None] - rows // 2,
        "columns": RNG.integers(-5, 5, (rows, 5)),
    }


MODELS = {"detector": (detector, images), "scattered": (scattered, writes)}


def agree(found, wanted):
    for got, want in zip(found, wanted, strict=True):
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(got, want)


def one_program(library):
    """Whether all of *library* is one native function that calls nothing back."""
    (native,) = [m for m in library.module.imports if m.type_key == "c"]
    return native.whole is not None and native.whole.externals == () and library.report["host_fallbacks"] == {}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("name", MODELS)
def test_what_stands_around_them_and_they_are_one_program(name, free, threads, tmp_path, artifact_runner):
    make, feeds = MODELS[name]
    proto = make("N" if free else 3)
    library = byoc.compile(proto)
    assert one_program(library)
    library.save(tmp_path / "model.byoc")
    given = [feeds(n) for n in ((3, 1, 7) if free else (3, 3))]
    wanted = [session(proto).run(None, each) for each in given]
    library.threads = threads
    for each, want in zip(given, wanted, strict=True):
        agree(library.run(each), want)
    for found, want in zip(artifact_runner.run(tmp_path / "model.byoc", given, threads), wanted, strict=True):
        agree(found, want)


def test_the_command_line_reports_nothing_on_numpy_kernels(tmp_path, capsys, artifact_runner):
    proto = detector("N")
    onnx.save(proto, tmp_path / "model.onnx")
    assert main(["compile", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "model.byoc")]) == 0
    assert "numpy" not in capsys.readouterr().out
    given = images(2)
    ((found),) = artifact_runner.run(tmp_path / "model.byoc", [given])
    agree(found, session(proto).run(None, given))


def test_an_index_that_is_outside_is_an_error_with_the_node_and_the_operator():
    library, given = byoc.compile(scattered("N")), writes(4)
    with pytest.raises(
        IndexOutsideError, match=r"write \(ScatterND\) along axis 0: index 4 is outside a dimension of 4"
    ):
        library.run({**given, "slots": np.array([[0], [4], [1], [2]])})
    given["columns"][2, 3] = -6
    with pytest.raises(IndexOutsideError, match=r"add \(ScatterElements\) along axis 1: index -6 is outside"):
        library.run(given)


def test_fewer_elements_than_are_asked_for_are_an_error_with_the_node_and_the_operator():
    """Of two nodes that ask the same, the one is named that it is about."""
    nodes = [
        helper.make_node("TopK", ["a", "k"], ["v", "i"], name="one"),
        helper.make_node("TopK", ["b", "k"], ["w", "j"], name="other"),
    ]
    inputs = [value("a", "f4", [2, "n"]), value("b", "f4", [2, "m"])]
    library = byoc.compile(model(nodes, inputs, [("v", "f4"), ("j", "i8")], k=[3]))
    assert one_program(library)
    few, more = np.zeros((2, 2), "f4"), np.zeros((2, 5), "f4")
    agree(library.run({"a": more, "b": more}), [more[:, :3], np.array([[0, 1, 2]] * 2)])
    for name, given in (("one", {"a": few, "b": more}), ("other", {"a": more, "b": few})):
        with pytest.raises(IndexOutsideError, match=rf"node {name} \(topk\): k, .*: 3 is outside a dimension of 2"):
            library.run(given)
