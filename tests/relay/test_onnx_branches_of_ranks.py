"""``If`` between tensors of different ranks, as PyTorch's exporter writes ``x.squeeze(2)`` over a free size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc.errors import ImportModelError
from byoc.runtime import load
from byoc.runtime.core.errors import InputError

ONE = numpy_helper.from_array(np.array([1], "int64"), "one")
LAST = numpy_helper.from_array(np.array([-1], "int64"), "last")
WEIGHT = numpy_helper.from_array(np.arange(12, dtype="float32").reshape(3, 4) / 8, "weight")


def squeezed(name: str, source: str) -> list[onnx.NodeProto]:
    """*source*, ``[n, 3, m]``, without its last axis where that has one element, as *name*."""
    then = helper.make_graph(
        [helper.make_node("Squeeze", [source, "last"], [f"{name}_t"])], "then", [], [_any(f"{name}_t")]
    )
    other = helper.make_graph([helper.make_node("Identity", [source], [f"{name}_e"])], "else", [], [_any(f"{name}_e")])
    return [
        helper.make_node("Shape", [source], [f"{name}_shape"]),
        helper.make_node("Gather", [f"{name}_shape", "last"], [f"{name}_size"]),
        helper.make_node("Equal", [f"{name}_size", "one"], [f"{name}_is_one"]),
        helper.make_node("If", [f"{name}_is_one"], [name], f"{name}_if", then_branch=then, else_branch=other),
    ]


def _any(name: str) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name)


def model(nodes: list[onnx.NodeProto], rank: int = 2) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "m"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)
    graph = helper.make_graph(nodes, "g", [x], [y], [ONE, LAST, WEIGHT])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def wanted(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]


GEMM = helper.make_node("Gemm", ["s", "weight"], ["y"], "gemm")  # takes matrices alone


@pytest.mark.needs_cc
def test_what_computes_from_one_branch_alone_goes_on_from_it(tmp_path: Path) -> None:
    proto = model([*squeezed("s", "x"), GEMM])
    library = byoc.compile(proto)
    library.save(tmp_path / "m.byoc")
    for used in (library, load(tmp_path / "m.byoc")):
        for n in (1, 4):
            x = np.arange(n * 3, dtype="float32").reshape(n, 3, 1)
            np.testing.assert_allclose(used.run({"x": x})[0], wanted(proto, x), rtol=1e-6)
        with pytest.raises(
            InputError, match=r"node s_if \(If\): the condition, of which what follows needs that it is True"
        ):
            used.run({"x": np.ones((2, 3, 2), "float32")})
        assert used.run({"x": np.ones((1, 3, 1), "float32")})[0].shape == (1, 4)


@pytest.mark.needs_cc
def test_several_decisions_and_one_inside_another() -> None:
    around = helper.make_graph(
        [*squeezed("s", "x"), helper.make_node("Gemm", ["s", "weight"], ["inside"])], "then", [], [_any("inside")]
    )
    other = helper.make_graph(
        [
            *squeezed("u", "x"),
            helper.make_node("Gemm", ["u", "weight"], ["t"]),
            helper.make_node("Neg", ["t"], ["left"]),
        ],
        "else",
        [],
        [_any("left")],
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["sum"], ["is_taken"], to=TensorProto.BOOL),
        helper.make_node("If", ["is_taken"], ["either"], "outer", then_branch=around, else_branch=other),
        *squeezed("again", "x"),
        helper.make_node("Gemm", ["again", "weight"], ["more"]),
        helper.make_node("Add", ["either", "more"], ["y"]),
    ]
    proto = model(nodes)
    library = byoc.compile(proto)
    for x in (np.ones((2, 3, 1), "float32"), np.array([1, -2, 1], "float32").reshape(1, 3, 1)):
        np.testing.assert_allclose(library.run({"x": x})[0], wanted(proto, x), rtol=1e-6)


@pytest.mark.needs_cc
def test_what_computes_from_either_has_the_rank_of_the_run() -> None:
    proto = model([*squeezed("s", "x"), helper.make_node("Neg", ["s"], ["y"])])
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    library = byoc.compile(proto)
    for shape in ((2, 3, 1), (2, 3, 4), (0, 3, 1)):
        x = np.random.default_rng(0).random(shape, "float32")
        np.testing.assert_array_equal(library.run({"x": x})[0], wanted(proto, x), strict=True)


def test_what_computes_from_neither_is_refused_by_the_decision() -> None:
    proto = model([*squeezed("s", "x"), helper.make_node("Gemm", ["s", "last"], ["y"])])
    with pytest.raises(ImportModelError, match=r"node s_if \(If\): the branches give"):
        byoc.compile(proto)


@pytest.mark.needs_cc
def test_one_element_has_the_dimensions_of_the_branch_with_more() -> None:
    then = helper.make_graph([helper.make_node("ReduceSum", ["x"], ["t"], keepdims=0)], "then", [], [_any("t")])
    other = helper.make_graph(
        [helper.make_node("ReduceMax", ["x"], ["u"], keepdims=0), helper.make_node("Reshape", ["u", "one"], ["e"])],
        "else",
        [],
        [_any("e")],
    )
    nodes = [
        helper.make_node("ReduceMin", ["x"], ["least"], keepdims=0),
        helper.make_node("Cast", ["least"], ["is_taken"], to=TensorProto.BOOL),
        helper.make_node("If", ["is_taken"], ["either"], then_branch=then, else_branch=other),
        helper.make_node("Mul", ["x", "either"], ["y"]),
    ]
    proto = model(nodes, 3)
    library = byoc.compile(proto)
    for least in (0, 1):
        x = np.arange(least, 12 + least, dtype="float32").reshape(2, 3, 2)
        np.testing.assert_allclose(library.run({"x": x})[0], wanted(proto, x), rtol=1e-6)
