"""Products round before what adds them, as ONNX's operators do one by one; only sums of products are contracted."""

import numpy as np
import onnx
import onnx.parser
import pytest

import byoc

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_opencl, pytest.mark.optimized]
TARGETS = (["c"], ["opencl", "c"], ["json", "c"])
HEADER = '<ir_version: 9, opset_import: ["" : 17]> g '
RNG = np.random.default_rng(0)
COLUMN = {"x": RNG.standard_normal((64, 1)).astype("float32"), "w": np.float32([0.7])}
WIDE = {"x": RNG.standard_normal((4, 40)).astype("float32"), "w": np.float32([0.7])}
DIFFERENCES = {
    "log of a softmax over one element": (
        "(float[64,1] x, float[1] w) => (float[64,1] y) { a = Mul (x, w) y = LogSoftmax <axis: int = 1> (a) }",
        COLUMN,
    ),
    "norm of one element": (
        """(float[64,1] x, float[1] w) => (float[64,1] y) <float[1] s = {1}> {
            a = Mul (x, w) y = LayerNormalization <axis: int = 1> (a, s) }""",
        COLUMN,
    ),
    "difference from the rounded product": (
        "(float[4,40] x, float[1] w, float[4,40] b) => (float[4,40] y) { a = Mul (x, w) y = Sub (a, b) }",
        {**WIDE, "b": WIDE["x"] * WIDE["w"]},
    ),
    "difference of float64": (
        "(double[4,40] x, double[1] w, double[4,40] b) => (double[4,40] y) { a = Mul (x, w) y = Sub (b, a) }",
        {"x": WIDE["x"].astype("float64"), "w": np.float64([0.7]), "b": WIDE["x"].astype("float64") * 0.7},
    ),
}


@pytest.mark.parametrize("targets", TARGETS, ids=lambda t: t[0])
@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_is_taken_from_its_equal_leaves_nothing(name, targets):
    text, feeds = DIFFERENCES[name]
    (got,) = byoc.compile(onnx.parser.parse_model(HEADER + text), targets).run(feeds)
    np.testing.assert_array_equal(got, np.zeros_like(got))


@pytest.mark.parametrize("targets", TARGETS, ids=lambda t: t[0])
def test_a_length_divided_by_itself_is_one(targets):
    model = onnx.parser.parse_model(
        HEADER
        + """(float[64,3] x) => (float[64,1] y) {
        n = ReduceL2 <axes: ints = [1]> (x) y = Div (n, n) }"""
    )
    (got,) = byoc.compile(model, targets).run({"x": RNG.standard_normal((64, 3)).astype("float32")})
    np.testing.assert_array_equal(got, np.ones_like(got))
