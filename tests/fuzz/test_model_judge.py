"""What the judge of random models knows beyond ONNX Runtime's answer, and that the reducer stays on the given path."""

import numpy as np
import onnx
import onnx.parser
import pytest

from fuzz.case import Case
from fuzz.judge.compare import Judge
from fuzz.judge.oracle import wanted
from fuzz.judge.reference_errors import reference_error
from fuzz.judge.undefined import undefined
from fuzz.shrink import bypass

MEAN = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18, "nowhere" : 1]>
mean (float[1,1,20000] x, int64[1] axes) => (float[] other, float[] mean) {
   other = nowhere.Unknown (x)
   mean = ReduceMean <keepdims: int = 0> (x, axes)
}""")


def test_an_output_has_its_float64_beside_a_node_that_the_reference_cannot_compute():
    feeds = {"x": np.full((1, 1, 20000), 0.2167724072933197, "float32"), "axes": np.array([2], "int64")}
    judge = Judge(MEAN, feeds, [])
    assert judge.in_float64(0) is None
    np.testing.assert_allclose(judge.in_float64(1), feeds["x"].astype("float64").mean(2), rtol=1e-12)


def test_the_range_of_no_element_is_undefined():
    node = onnx.helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])
    assert undefined(node, {"x": np.zeros((0, 1), "float32")}) is not None
    assert undefined(node, {"x": np.zeros((2, 1), "float32")}) is None


@pytest.mark.parametrize("values", [[0, 0], [-0.0, 0], [3e38, -3e38], [1e-39, -1e-39], [5]])
def test_the_scale_of_finite_numbers_is_defined(values):
    node = onnx.helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])
    assert undefined(node, {"x": np.array(values, "float32")}) is None


@pytest.mark.parametrize("values", [[np.inf, 1], [1, -np.inf], [np.nan, 1], [1e-45, 0], [-1e-45]])
def test_a_quotient_of_infinities_or_by_nothing_is_undefined(values):
    node = onnx.helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])
    assert undefined(node, {"x": np.array(values, "float32")}) is not None


def test_a_neighbour_that_is_nan_and_has_the_weight_0_is_undefined():
    linear, nearest = (onnx.helper.make_node("Resize", ["x", "", "s"], ["y"], mode=m) for m in ("linear", "nearest"))
    values = {"x": np.array([1, np.nan], "float32"), "s": np.array([2], "float32")}
    assert undefined(linear, values) is not None
    assert undefined(nearest, values) is None
    assert undefined(linear, {**values, "x": np.array([1, 2], "float32")}) is None


def test_a_node_is_not_bypassed_whose_second_output_is_the_models():
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
quantized (float[4] x) => (float[] scale, uint8[] z) {
   y, scale, zero = DynamicQuantizeLinear (x)
   z = Max (y, zero)
}""")
    feeds = [{"x": np.arange(4, dtype="float32")}]
    case = Case("quantized", model, feeds, wanted(model, feeds))
    assert all("scale" in {o for n in small.model.graph.node for o in n.output} for small in bypass(case))


def test_the_reference_is_no_oracle_where_it_is_known_to_be_wrong():
    pool = onnx.helper.make_node("LpPool", ["x"], ["y"], kernel_shape=[2])
    assert reference_error(pool, {"x": np.array([[[1.0, np.nan]]])}) is not None
    assert reference_error(pool, {"x": np.array([[[1.0, 2.0]]])}) is None
    dilated = onnx.helper.make_node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", dilations=[2])
    assert reference_error(dilated, {"x": np.zeros((1, 1, 4)), "w": np.zeros((1, 1, 2))}) is not None
    gelu = onnx.helper.make_node("Gelu", ["x"], ["y"])
    assert reference_error(gelu, {"x": np.ones(1)}) is not None
    assert reference_error(gelu, {"x": np.ones(1, "float32")}) is None


def test_padding_that_meets_an_infinite_weight_is_undefined_and_no_other_padding_is():
    padded = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1])
    plain = onnx.helper.make_node("Conv", ["x", "w"], ["y"])
    x, finite = np.ones((1, 1, 4), "float32"), np.ones((1, 1, 3), "float32")
    infinite = np.full((1, 1, 3), np.inf, "float32")
    assert undefined(padded, {"x": x, "w": infinite}) is not None
    assert undefined(padded, {"x": x, "w": finite}) is None and undefined(plain, {"x": x, "w": infinite}) is None


def test_a_window_beyond_the_image_is_undefined():
    pool = onnx.helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3], strides=[2])
    assert undefined(pool, {"x": np.ones((1, 1, 2), "float32")}) is not None
    assert undefined(pool, {"x": np.ones((1, 1, 3), "float32")}) is None
