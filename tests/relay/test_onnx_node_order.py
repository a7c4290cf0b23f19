"""Nodes that stand before what they read, and graphs without nodes: what ONNX Runtime takes."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper

import byoc
from byoc.ir.span import span_names
from fuzz.judge.onnx_runtime import session

pytestmark = pytest.mark.needs_cc
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def agree(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    found, wanted = byoc.compile(model).run(feeds), session(model).run(None, feeds)
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, strict=True)


TEXTS = {
    "a chain": "g (float[N] x) => (float[N] y) { a = Exp (x) b = Neg (a) y = Sin (b) }",
    "a branch that reads what is made around it": (
        "g (float[N] x, bool b) => (float[N] y) { a = Exp (x) y = If (b) <then_branch = t () => (u) { u = Neg (a) }, "
        "else_branch = e () => (v) { w = Sin (a) v = Neg (w) }> }"
    ),
    "a value that a branch gives": (
        "g (float[N] x, bool b) => (float[N] y) { a = Exp (x) y = If (b) <then_branch = t () => (u) "
        "{ u = Identity (a) }, else_branch = e () => (v) { v = Neg (a) }> }"
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_nodes_in_reverse_compute_the_same(name: str) -> None:
    model = onnx.parser.parse_model(HEAD + TEXTS[name])
    inner = [a.g for node in model.graph.node for a in node.attribute if a.HasField("g")]
    for graph in (model.graph, *inner):
        nodes = list(graph.node)[::-1]
        del graph.node[:]
        graph.node.extend(nodes)
    x = np.linspace(-1, 1, 5, dtype="float32")
    for condition in (True, False):
        feeds = {"x": x, "b": np.array(condition)}
        agree(model, {i.name: feeds[i.name] for i in model.graph.input})


def test_names_of_nodes_follow_them() -> None:
    text = 'g (float[N] x) => (float[N] y) { ["first"] y = Sin (a) ["second"] a = Exp (x) }'
    model = onnx.parser.parse_model(HEAD + text)
    main = byoc.import_onnx(model)["main"]
    assert (main.body.op.name, *span_names(main.body.span)) == ("sin", "first")


def test_what_the_float16_converter_writes_is_imported() -> None:
    convert = pytest.importorskip("onnxruntime.transformers.float16").convert_float_to_float16
    model = onnx.parser.parse_model(HEAD + "g (float[N, 4] x) => (float[N, 4] y) { a = Relu (x) y = Add (a, x) }")
    made = convert(model, keep_io_types=True)
    feeds = {"x": np.random.default_rng(0).standard_normal((3, 4)).astype("float32")}
    found, wanted = byoc.compile(made).run(feeds), session(made).run(None, feeds)
    np.testing.assert_allclose(found[0], wanted[0], rtol=2**-10, strict=True)  # ONNX Runtime leaves some roundings out


@pytest.mark.parametrize("outputs", [["x"], ["w"], ["w", "x"]], ids="-".join)
@pytest.mark.parametrize("size", [0, 2])
def test_a_graph_without_nodes_gives_its_inputs_and_constants(outputs: list[str], size: int) -> None:
    types = {n: helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in (("x", ["N"]), ("w", [2]))}
    weight = onnx.numpy_helper.from_array(np.array([3, 4], "float32"), "w")
    graph = helper.make_graph([], "g", [types["x"]], [types[n] for n in outputs], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    agree(model, {"x": np.arange(size, dtype="float32")})


SHAPES = ["N,S,H,W", "N,N,H,H", "N,S,3,W", "N,0,H,W", "2,S,3,W"]


@pytest.mark.parametrize(
    "shape, axis",
    [
        pytest.param(shape, axis, marks=[pytest.mark.slow] if place and (place + axis) % 2 else [])
        for place, shape in enumerate(SHAPES)
        for axis in range(5)
    ],
)
def test_free_sizes_are_flattened_at_any_axis(shape: str, axis: int) -> None:
    text = f"g (float[{shape}] x) => (float[] y, float[] z) {{ y = Flatten <axis = {axis}> (x) z = Exp (y) }}"
    model = onnx.parser.parse_model(HEAD + text)
    library, judge = byoc.compile(model), session(model)
    for sizes in ({"N": 2, "S": 3, "H": 4, "W": 1}, {"N": 0, "S": 3, "H": 4, "W": 1}, {"N": 1, "S": 0, "H": 0, "W": 1}):
        x = np.random.default_rng(0).random([int(sizes.get(d, d)) for d in shape.split(",")]).astype("float32")
        for got, want in zip(library.run({"x": x}), judge.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, strict=True)
