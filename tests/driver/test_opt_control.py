"""``byoc opt`` writes control flow, recurrent layers, integer products and positions, held to ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import byoc
from byoc.errors import CompileError

ort = pytest.importorskip("onnxruntime")
HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\n'
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def parsed(text: str) -> ModelProto:
    return onnx.parser.parse_model(HEAD + text)


def operators(graph: onnx.GraphProto) -> list[str]:
    found: list[str] = []
    for node in graph.node:
        found.append(node.op_type)
        for attribute in node.attribute:
            found += operators(attribute.g) if attribute.HasField("g") else []
    return found


def written(source: ModelProto, *feeds: dict[str, np.ndarray], exact: bool = False) -> list[str]:
    """The operators of what is written of *source*, which gives on *feeds* what *source* gives."""
    made = byoc.opt(source, check=False).model
    onnx.checker.check_model(made, full_check=True)
    first, second = (ort.InferenceSession(m.SerializeToString()) for m in (source, made))
    assert feeds
    for feed in feeds:
        for found, wanted in zip(second.run(None, feed), first.run(None, feed), strict=True):
            assert found.shape == wanted.shape and found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-6)
    return operators(made.graph)


LOOP = """g (float[N, S] x, int64 n, bool on) => (float[N, S] y, float[K, N, S] z) {
    y, z = Loop (n, on, x) <body = b (int64 i, bool c, float[N, S] v) => (bool d, float[N, S] w, float[N, S] s) {
        d = Identity (c)
        f = Cast <to: int = 1> (i)
        w0 = Sin (v)
        w = Add (w0, f)
        s = Sub (x, v)
    }>
}"""
WHILE = """g (float[N] x) => (float[N] y, int64 steps)
    <bool going = {1}, int64 zero = {0}, int64 one = {1}, float top = {9}> {
    y, steps = Loop (, going, x, zero) <body = b (int64 i, bool c, float[N] v, int64 k)
        => (bool d, float[N] w, int64 l) {
        w = Add (v, v)
        l = Add (k, one)
        m = ReduceMax <keepdims: int = 0> (w)
        d = Less (m, top)
    }>
}"""
GROWING = """g (float[N] x, int64 n) => (float[M] y) <bool going = {1}> {
    y = Loop (n, going, x) <body = b (int64 i, bool c, float[M] v) => (bool d, float[L] w) {
        d = Identity (c)
        w = Concat <axis: int = 0> (v, x)
    }>
}"""
SCAN = """g (float[S, N] x, float[N] h) => (float[N] last, float[S, N] all) {
    last, all = Scan <num_scan_inputs: int = 1, scan_input_directions: ints = [1], scan_output_directions: ints = [1],
        body = b (float[N] a, float[N] t) => (float[N] c, float[N] o) {
        c = Add (a, t)
        o = Tanh (c)
    }> (h, x)
}"""
SCAN_AXES = """g (float[N, S, 3] x, float[N, 3] h) => (float[N, 3] last, float[N, 3, S] all) {
    last, all = Scan <num_scan_inputs: int = 1, scan_input_axes: ints = [1], scan_output_axes: ints = [2],
        body = b (float[N, 3] a, float[N, 3] t) => (float[N, 3] c, float[N, 3] o) {
        c = Add (a, t)
        o = Tanh (c)
    }> (h, x)
}"""
BRANCHES = """g (float[N, S] x, bool b, bool c) => (float[N, S] y, float[] r) {
    before = Exp (x)
    y = If (b) <
        then_branch = t () => (a) {
            p = Softmax (before)
            a = If (c) < then_branch = t2 () => (u) { u = Sin (p) }, else_branch = e2 () => (v) { v = Neg (p) } >
        },
        else_branch = e () => (d) { d = Mul (before, x) }
    >
    either = If (c) <
        then_branch = t3 () => (k) { k = ReduceSum <keepdims: int = 0> (before) },
        else_branch = e3 () => (l) { l = Identity (before) }
    >
    positive = Abs (either)
    r = ReduceMax <keepdims: int = 0> (positive)
}"""
RANKS = """g (float[N, S] x, bool b) => (float[N, S] y) {
    y = If (b) <
        then_branch = t () => (k) { k = ReduceSum <keepdims: int = 0> (x) },
        else_branch = e () => (l) { l = Identity (x) }
    >
}"""
LOOP_IN_BRANCH = """g (float[N] x, bool b, int64 n) => (float[N] y) <bool going = {1}> {
    y = If (b) <
        then_branch = t () => (a) {
            a = Loop (n, going, x) <body = q (int64 i, bool c, float[N] v) => (bool d, float[N] w) {
                d = Identity (c)
                w = If (b) < then_branch = t2 () => (u) { s = Softmax (v) u = Add (s, x) },
                    else_branch = e2 () => (o) { o = Neg (v) } >
            }>
        },
        else_branch = e () => (z) { z = Abs (x) }
    >
}"""


def _flags(*names: str) -> list[dict[str, np.ndarray]]:
    return [{name: np.array(bool(k >> place & 1)) for place, name in enumerate(names)} for k in range(1 << len(names))]


@pytest.mark.parametrize(
    "text, feeds, kinds",
    [
        (
            LOOP,
            [{"x": normal(2, 3), "n": np.array(n), "on": np.array(o)} for n in (0, 1, 4) for o in (True, False)],
            {"Loop"},
        ),
        (WHILE, [{"x": np.array([0.5, k], "float32")} for k in (0.25, 3.0)], {"Loop"}),
        (GROWING, [{"x": normal(3), "n": np.array(n)} for n in (0, 3)], {"Loop"}),
        (SCAN, [{"x": normal(s, 2), "h": normal(2)} for s in (1, 4)], {"Loop"}),
        (SCAN_AXES, [{"x": normal(2, s, 3), "h": normal(2, 3)} for s in (1, 4)], {"Loop"}),
        (BRANCHES, [{"x": normal(2, 3), **flags} for flags in _flags("b", "c")], {"If"}),
        (LOOP_IN_BRANCH, [{"x": normal(3), "n": np.array(2), **flags} for flags in _flags("b")], {"If", "Loop"}),
    ],
    ids=["loop", "while", "growing", "scan", "scan of axes", "branches", "a loop in a branch"],
)
def test_control_flow_is_written_as_graphs_inside_nodes(text, feeds, kinds):
    found = written(parsed(text), *feeds)
    assert {"If", "Loop"} & set(found) == kinds


def test_an_output_of_any_rank_has_the_shape_that_the_model_declares():
    feeds = [{"x": normal(2, 3), **flags} for flags in _flags("b")]
    assert "If" in written(parsed(RANKS), *feeds)


def test_an_output_of_any_rank_that_the_model_declares_none_of_is_refused():
    source = parsed(RANKS)
    source.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(CompileError, match="'y', whose rank only the run knows: .* declare it in the model"):
        byoc.opt(source, check=False)


LAYERS: dict[str, tuple[int, dict[str, Any], bool]] = {
    "LSTM": (4, {}, False),
    "LSTM in all its forms": (
        4,
        {
            "activations": ["HardSigmoid", "ScaledTanh", "Elu"],
            "activation_alpha": [0.3, 1.2, 0.7],
            "activation_beta": [0.4, 0.6],
            "input_forget": 1,
            "clip": 0.9,
        },
        True,
    ),
    "GRU": (3, {}, False),
    "GRU with the reset behind": (3, {"linear_before_reset": 1, "clip": 0.8}, False),
    "RNN": (1, {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}, False),
}


def layer(name: str, direction: str, lengths: bool) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A recurrent layer of 5 steps, 2 rows, 3 features and 4 hidden numbers."""
    gates, attributes, peepholes = LAYERS[name]
    attributes = {**attributes}
    directions = 2 if direction == "bidirectional" else 1
    for key in ("activations", "activation_alpha", "activation_beta"):
        if key in attributes:
            attributes[key] = attributes[key] * directions
    operator = name.split()[0]
    weights = {
        "w": normal(directions, gates * 4, 3),
        "r": normal(directions, gates * 4, 4),
        "b": normal(directions, 2 * gates * 4),
        **({"p": normal(directions, 12)} if peepholes else {}),
    }
    states = ["h", "c"] if operator == "LSTM" else ["h"]
    feed = {"x": normal(5, 2, 3), **{s: normal(directions, 2, 4) for s in states}}
    if lengths:
        feed["lens"] = np.array([5, 3], "int32")
    inputs = ["x", "w", "r", "b", "lens" if lengths else "", *states, *(["p"] if peepholes else [])]
    outputs = ["y", "y_h", "y_c"][: 1 + len(states)]
    node = helper.make_node(operator, inputs, outputs, hidden_size=4, direction=direction, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(
                n, helper.np_dtype_to_tensor_dtype(a.dtype), ["T", "B", 3] if n == "x" else a.shape
            )
            for n, a in feed.items()
        ],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), feed


@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers_are_written_as_themselves(name, direction, lengths):
    source, feed = layer(name, direction, lengths)
    found = written(source, feed)
    assert found.count(name.split()[0]) == (2 if direction == "bidirectional" else 1)
    assert "MatMul" not in found, "the weight of the inputs is the layer's"


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("activation", ["Affine", "ThresholdedRelu", "ScaledTanh"])
def test_a_left_out_number_of_an_activation_is_written_and_told(name, direction, activation):
    source, feed = layer(name, direction, False)
    node = source.graph.node[0]
    count = {"LSTM": 3, "GRU": 2, "RNN": 1}[name] * (2 if direction == "bidirectional" else 1)
    stated = onnx.ModelProto()
    own = [attribute for attribute in node.attribute if not attribute.name.startswith("activation")]
    del node.attribute[:]
    node.attribute.extend([*own, helper.make_attribute("activations", [activation] * count)])
    stated.CopyFrom(source)
    made = byoc.opt(source)
    assert made.agreement is not None and not made.agreement.problem and made.agreement.difference < 1e-5
    assert f"leaves out activation_alpha of {activation}, for which ONNX Runtime takes 0" in str(made)
    stated.graph.node[0].attribute.append(helper.make_attribute("activation_alpha", [1.0] * count))
    if activation == "ScaledTanh":
        stated.graph.node[0].attribute.append(helper.make_attribute("activation_beta", [1.0] * count))
    first, second = (ort.InferenceSession(m.SerializeToString()) for m in (stated, made.model))
    for found, wanted in zip(second.run(None, feed), first.run(None, feed), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert byoc.opt(stated).agreement.note == ""


def test_a_recurrent_layer_whose_weight_is_an_input_has_an_identity_for_it():
    source, feed = layer("LSTM", "forward", False)
    weight = next(t for t in source.graph.initializer if t.name == "w")
    feed["w"] = numpy_helper.to_array(weight)
    source.graph.initializer.remove(weight)
    source.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [1, 16, 3]))
    assert "LSTM" in written(source, feed)


def whole(dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("second", ["uint8", "int8"])
@pytest.mark.parametrize("zeros", ["", "z", "z, k"])
def test_integer_products_are_written_as_they_came_in(second, zeros):
    text = f"""g (uint8[N, 4] a, {second}[4, 3] b, uint8 z, {second} k) => (int32[N, 3] y) {{
        y = MatMulInteger (a, b{", " if zeros else ""}{zeros})
    }}"""
    feed = {"a": whole("uint8", 5, 4), "b": whole(second, 4, 3), "z": np.uint8(7), "k": np.array(3, second)}
    found = written(parsed(text), {n: np.asarray(v) for n, v in feed.items()}, exact=True)
    assert "MatMulInteger" in found and "Cast" not in found and "Sub" not in found


def test_products_of_constant_bytes_keep_their_bytes():
    source = parsed("""g (uint8[N, 4] a) => (int32[N, 3] y, uint8[N, 3] q)
        <uint8[4, 3] b = {9, 255, 3, 0, 8, 1, 7, 2, 200, 3, 4, 5}, uint8 z = {5}, uint8 k = {100}, float s = {0.03}> {
        y = MatMulInteger (a, b, z, k)
        q = QLinearMatMul (a, s, z, b, s, k, s, z)
    }""")
    found = written(source, {"a": whole("uint8", 5, 4)}, exact=True)
    assert found.count("MatMulInteger") in (1, 2) and "MatMul" not in found


@pytest.mark.parametrize("padded", [0, 1])
def test_integer_convolutions_are_written_as_they_came_in(padded):
    text = f"""g (uint8[N, 2, 5, 5] a, uint8 z) => (int32[N, 3, U, V] y) <uint8[3, 2, 2, 2] w = {{{", ".join("1")}}}> {{
        y = ConvInteger <pads: ints = [{padded}, {padded}, 0, 0]> (a, w, z)
    }}"""
    source = parsed(text.replace(" <uint8[3, 2, 2, 2] w = {1}>", ""))
    source.graph.initializer.append(numpy_helper.from_array(whole("uint8", 3, 2, 2, 2), "w"))
    found = written(source, {"a": whole("uint8", 2, 2, 5, 5), "z": np.array(9, "uint8")}, exact=True)
    assert found == ["ConvInteger"]


def test_a_product_of_whole_numbers_that_are_no_bytes_is_one_of_these():
    source = parsed("g (int32[N, 4] a, int32[4, 3] b) => (int32[N, 3] y) { y = MatMul (a, b) }")
    feed = {"a": RNG.integers(-9999, 9999, (2, 4)).astype("int32"), "b": RNG.integers(-99, 99, (4, 3)).astype("int32")}
    assert "MatMulInteger" not in written(source, feed, exact=True)


def test_positions_are_written_as_onnx_has_them():
    source = parsed("""g (float[3, N, 5] a, int64[M, 2] i, float[M, 5] u, int64[3, 2, 5] e, float[3, 2, 5] v)
        => (float[M, 5] g1, float[3, N, 5] s1, float[3, 2, 5] g2, float[3, N, 5] s2, float[3, N, 2] t, int64[3, N, 2] w)
        <int64[1] two = {2}> {
        g1 = GatherND (a, i)
        s1 = ScatterND <reduction: string = "add"> (a, i, u)
        g2 = GatherElements <axis: int = 1> (a, e)
        s2 = ScatterElements <axis: int = 1> (a, e, v)
        t, w = TopK <largest: int = 0> (a, two)
    }""")
    feed = {
        "a": normal(3, 4, 5),
        "i": np.array([[0, 1], [-1, -4], [2, 3]]),
        "u": normal(3, 5),
        "e": np.stack([np.tile(p, (5, 1)).T for p in ([0, -1], [3, 1], [-4, 2])]),
        "v": normal(3, 2, 5),
    }
    found = written(source, feed)
    assert {"GatherND", "ScatterND", "GatherElements", "ScatterElements", "TopK"} == set(found)


def test_boxes_that_others_suppress_are_left_out():
    source = parsed("""g (float[1, N, 4] boxes, float[1, 2, N] scores) => (int64[K, 3] y)
        <int64 most = {3}, float iou = {0.4}, float least = {0.1}> {
        y = NonMaxSuppression (boxes, scores, most, iou, least)
    }""")
    corners = np.abs(normal(1, 20, 2))
    boxes = np.concatenate([corners, corners + np.abs(normal(1, 20, 2))], -1)
    feeds = [
        {"boxes": boxes, "scores": np.abs(normal(1, 2, 20))},
        {"boxes": boxes, "scores": -np.ones((1, 2, 20), "float32")},
    ]
    assert "NonMaxSuppression" in written(source, *feeds, exact=True)


def test_leave_to_compute_in_fewer_bits_is_no_difference_of_what_is_written():
    """ONNX Runtime rounds the inputs of such a product to 8 bits; the weights as floats are multiplied as they are."""
    node = helper.make_node(
        "MatMulNBits",
        ["x", "w", "s"],
        ["y"],
        domain="com.microsoft",
        K=32,
        N=4,
        bits=4,
        block_size=16,
        accuracy_level=4,
    )
    weights = [
        numpy_helper.from_array(whole("uint8", 4, 2, 8), "w"),
        numpy_helper.from_array(np.ones(8, "float32"), "s"),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, k]) for n, k in (("x", 32), ("y", 4)))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    source = helper.make_model(helper.make_graph([node], "g", [x], [y], weights), opset_imports=opsets, ir_version=8)
    agreement = byoc.opt(source).agreement
    assert agreement is not None and not agreement.problem and agreement.difference < 1e-5
    assert source.graph.node[0].attribute[-1].name and len(source.graph.node[0].attribute) == 5, (
        "the source is as it was"
    )
