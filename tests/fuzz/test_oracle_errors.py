"""What ONNX Runtime and ONNX's text do not answer, and what they are asked instead."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

from fuzz.judge.compare import BY_REFERENCE, ILL_CONDITIONED, WRONG, Judge
from fuzz.judge.oracle import NotApplicable, run_node, wanted
from fuzz.judge.runtime_errors import with_counted_axes
from fuzz.judge.undefined import undefined


@pytest.mark.parametrize("operator", ["ReduceSumSquare", "ReduceLogSumExp"])
@pytest.mark.parametrize("kept", [0, 1])
def test_negative_axes_of_data_without_an_element_are_reduced(operator, kept):
    node = onnx.helper.make_node(operator, ["x", "axes"], ["y"], keepdims=kept)
    feeds = {"x": np.zeros((3, 0, 3, 1)), "axes": np.array([-2, 3, 1, -4])}
    (found,) = run_node(node, 20, feeds)
    assert found.shape == ((1, 1, 1, 1) if kept else ())
    changed, given = with_counted_axes(node, feeds)
    assert sorted(given[changed.input[1]].tolist()) == [0, 1, 2, 3]


def test_axes_that_are_attributes_are_counted_from_the_front():
    node = onnx.helper.make_node("ReduceMean", ["x"], ["y"], axes=[-1, 0])
    changed, _ = with_counted_axes(node, {"x": np.zeros((2, 0, 3), "float32")})
    assert list(changed.attribute[0].ints) == [2, 0]
    other = onnx.helper.make_node("Softmax", ["x"], ["y"], axis=-1)
    assert with_counted_axes(other, {"x": np.zeros((2, 3), "float32")})[0] is other


def recurrent(weight: float, **attributes: object) -> list[np.ndarray]:
    """What the oracle says of a GRU of one number whose weights and inputs are *weight*."""
    node = onnx.helper.make_node("GRU", ["x", "w", "r", "b"], ["y"], hidden_size=1, linear_before_reset=1, **attributes)
    return run_node(
        node,
        14,
        {
            "x": np.full((3, 1, 1), weight, "float32"),
            "w": np.full((1, 3, 1), weight, "float32"),
            "r": np.full((1, 3, 1), weight, "float32"),
            "b": np.zeros((1, 6), "float32"),
        },
    )


def test_a_recurrent_layer_that_overflows_has_no_oracle():
    with pytest.raises(NotApplicable, match="overflow"):
        recurrent(1e15, activations=["Relu", "Relu"])
    assert recurrent(1.5, activations=["Relu", "Relu"])[0].shape == (3, 1, 1, 1)
    assert recurrent(1e15)[0].shape == (3, 1, 1, 1), "Sigmoid and Tanh are bounded"


def test_the_padding_of_same_is_undefined_where_windows_leave_gaps():
    node = onnx.helper.make_node("AveragePool", ["x"], ["y"], auto_pad="SAME_UPPER", kernel_shape=[1], strides=[3])
    assert "less than none" in undefined(node, {"x": np.zeros((1, 1, 9), "float32")})
    assert undefined(node, {"x": np.zeros((1, 1, 7), "float32")}) is None


def test_a_sigmoid_that_is_flushed_to_0_is_no_oracle():
    node = onnx.helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft")
    with pytest.raises(NotApplicable, match="flushes"):
        run_node(node, 17, {"x": np.array([1.0, -32.0], "float32")})
    assert run_node(node, 17, {"x": np.array([1.0, -3.0], "float32")})[0][1] < 0


@pytest.mark.parametrize(
    ("attributes", "is_undefined"),
    [
        ({"ceil_mode": 1, "dilations": [2], "kernel_shape": [2], "pads": [1, 1], "strides": [1]}, True),
        ({"dilations": [1], "kernel_shape": [2], "pads": [1, 1]}, False),
        ({"dilations": [2], "kernel_shape": [3], "pads": [2, 2]}, False),
        ({"dilations": [4], "kernel_shape": [2], "auto_pad": "SAME_UPPER"}, True),
        ({"kernel_shape": [2], "auto_pad": "SAME_LOWER"}, False),
        ({"kernel_shape": [1], "auto_pad": "VALID"}, False),
    ],
)
def test_a_window_that_holds_padding_alone_is_undefined(attributes, is_undefined):
    node = onnx.helper.make_node("MaxPool", ["x"], ["y"], **attributes)
    assert (undefined(node, {"x": np.ones((1, 1, 1), "float32")}) is not None) is is_undefined


def test_a_mean_of_padding_is_defined_where_padding_counts():
    ways = {"ceil_mode": 1, "dilations": [2], "kernel_shape": [2], "pads": [1, 1]}
    means = [onnx.helper.make_node("AveragePool", ["x"], ["y"], count_include_pad=k, **ways) for k in (0, 1)]
    found = [undefined(node, {"x": np.ones((1, 1, 1), "float32")}) for node in means]
    assert found[0] is not None and found[1] is None


def test_an_infinity_without_a_bound_on_its_side_is_undefined_for_clip():
    clip = onnx.helper.make_node("Clip", ["x", "", "high"], ["y"])
    high = np.array(0.5, "float32")
    for values, is_undefined in (([-np.inf, 1], True), ([np.inf, 1], False), ([np.nan, 1], False)):
        assert (undefined(clip, {"x": np.array(values, "float32"), "high": high}) is not None) is is_undefined
    assert undefined(onnx.helper.make_node("Clip", ["x"], ["y"]), {"x": np.array([np.inf], "float32")}) is not None


def test_float64_is_had_node_by_node_where_the_reference_lacks_one():
    """ONNX Runtime multiplies by the scale before it takes the mean away, and so loses what equal numbers have left."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 13]>
normed (uint8[1, 3, 1] x, float s, uint8 z, float[3] scale, float[3] bias) => (float[1, 1, 1] y) {
   d = DequantizeLinear (x, s, z)
   n = InstanceNormalization <epsilon: float = 0.01> (d, scale, bias)
   y = ReduceMean <axes: ints = [0, 1, 2]> (n)
}""")
    feeds = {
        "x": np.zeros((1, 3, 1), "uint8"),
        "s": np.array(0.1, "float32"),
        "z": np.array(136, "uint8"),
        "scale": np.array([-1.4058111, -1.4573394, -0.8603817], "float32"),
        "bias": np.array([0.0142384, -1.1039015, 1.20046], "float32"),
    }
    judge = Judge(model, feeds, wanted(model, [feeds])[0])
    exact = feeds["bias"].astype("float64").mean()
    np.testing.assert_allclose(judge.in_float64(0), [[[exact]]], rtol=1e-9)
    assert abs(judge.wanted[0].item() - exact) > 1e-6
    assert judge.judge(0, np.full((1, 1, 1), exact, "float32")).verdict == ILL_CONDITIONED
    assert judge.judge(0, np.full((1, 1, 1), exact + 1e-5, "float32")).verdict == WRONG


def test_a_mean_whose_sum_overflows_is_undefined():
    node = onnx.helper.make_node("ReduceMean", ["x"], ["y"])
    for values, dtype, is_undefined in (([9, 2**32 - 2], "uint32", True), ([9, -7], "int8", False)):
        assert (undefined(node, {"x": np.array(values, dtype)}) is not None) is is_undefined


@pytest.mark.parametrize(
    ("operator", "attributes", "shape"),
    [
        ("GlobalMaxPool", {}, (1, 1, 2, 2, 2)),
        ("AveragePool", {"ceil_mode": 1, "count_include_pad": 1, "kernel_shape": [4], "strides": [3]}, (1, 1, 2)),
    ],
)
def test_what_the_reference_pools_wrongly_is_not_asked_of_it(operator, attributes, shape):
    node = onnx.helper.make_node(operator, ["x"], ["y"], **attributes)
    with pytest.raises(NotApplicable, match="reference"):
        run_node(node, 17, {"x": np.ones(shape, "float64")})


def test_what_picks_elements_keeps_its_own_type_where_nothing_has_it_in_float64():
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 13]>
pooled (float[1, 2, 1, 2, 1] x) => (float[1, 2, 1, 1, 1] y) {
   p = GlobalMaxPool (x)
   y = Div (p, p)
}""")
    feeds = {"x": np.array([3, 1, 5, 7], "float32").reshape(1, 2, 1, 2, 1)}
    np.testing.assert_array_equal(Judge(model, feeds, wanted(model, [feeds])[0]).in_float64(0).ravel(), [1.0, 1.0])


def test_one_output_is_judged_by_the_reference_where_another_cannot_be():
    """ONNX Runtime passes over a NaN in some places; the reference cannot pad by less than nothing."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 13]>
least (float16[2] x) => (float16[1] p, float16[1] y) <int64[2] cut = {0, -1}> {
   p = Pad (x, cut)
   y = ReduceMin <axes: ints = [0]> (x)
}""")
    feeds = {"x": np.array([1, np.nan], "float16")}
    judge = Judge(model, feeds, [np.array([1], "float16"), np.array([1], "float16")])
    assert judge.reference(0) is None
    assert judge.judge(1, np.array([np.nan], "float16")).verdict == BY_REFERENCE
