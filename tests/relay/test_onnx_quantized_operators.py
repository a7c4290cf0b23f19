"""ONNX Runtime's quantized operators, one by one, against ONNX Runtime: constant parameters and computed ones."""

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from byoc.errors import ImportModelError
from byoc.relay.analysis.operator_calls import op_name
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.interpreter import evaluate
from byoc.relay.traverse import post_order

QUIET = onnxruntime.SessionOptions()
QUIET.log_severity_level = 4
DTYPES = ("uint8", "int8")


class Draw:
    """Random tensors, scales and zero points of one type, from a seed."""

    def __init__(self, dtype, seed=0):
        self.dtype, self.rng = dtype, np.random.default_rng(seed)

    def data(self, *shape, dtype=""):
        info = np.iinfo(dtype or self.dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(dtype or self.dtype)

    def weights(self, *shape, dtype=""):
        """Data; an int8 has 7 bits, since on some processors ONNX Runtime saturates the sum of two products at 16."""
        made = self.data(*shape, dtype=dtype)
        return made // 2 if made.dtype == "int8" else made

    def zero(self):
        return self.data()

    def scale(self, *shape):
        return np.asarray(self.rng.uniform(0.01, 0.1, shape), "float32")


def node_model(op, inputs, computed, attrs, domain="com.microsoft"):
    """A model of one node; arrays of *inputs* by name, None for one that is left out; *computed* are the model's."""
    node = helper.make_node(op, [n if a is not None else "" for n, a in inputs.items()], ["y"], "n", domain=domain)
    node.attribute.extend(helper.make_attribute(name, value) for name, value in attrs.items())
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
        if n in computed
    ]
    held = [numpy_helper.from_array(a, n) for n, a in inputs.items() if a is not None and n not in computed]
    graph = helper.make_graph([node], "g", given, [helper.make_empty_tensor_value_info("y")], held)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def both(op, inputs, computed, attrs, domain="com.microsoft"):
    """What ONNX Runtime makes of a node, and what its import does by the reference kernels."""
    model = node_model(op, inputs, computed, attrs, domain)
    feeds = {n: np.asarray(a) for n, a in inputs.items() if n in computed}
    session = onnxruntime.InferenceSession(model.SerializeToString(), QUIET, providers=["CPUExecutionProvider"])
    found, wanted = evaluate(import_onnx(model), feeds), session.run(None, feeds)[0]
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    return found, wanted


def assert_equal(op, inputs, data, attrs=None, domain="com.microsoft"):
    """Equal, integers bit for bit, also where scales and zero points are only known at run time."""
    for computed in (data, [n for n, a in inputs.items() if a is not None]):
        found, wanted = both(op, inputs, computed, attrs or {}, domain)
        assert len(np.unique(wanted)) > 3, "the case says too little"
        np.testing.assert_allclose(found, wanted, rtol=5e-7 if wanted.dtype.kind == "f" else 0, atol=0)


def of_one(draw, *shape, out=None):
    scale, zero = out or (draw.scale(), draw.zero())
    return {"x": draw.data(*shape), "xs": draw.scale(), "xz": draw.zero(), "ys": np.float32(scale), "yz": zero}


def of_two(draw, left, right):
    sides = {"a": draw.data(*left), "as": draw.scale(), "az": draw.zero()}
    sides.update({"b": draw.data(*right), "bs": draw.scale(), "bz": draw.zero()})
    return {**sides, "cs": draw.scale(), "cz": draw.zero()}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize(("left", "right"), [((2, 3, 8), (2, 3, 8)), ((2, 3, 8), (8,)), ((3, 1), (2, 1, 5))])
def test_sums_and_products_of_two(op, dtype, left, right):
    assert_equal(op, of_two(Draw(dtype), left, right), ["a", "b"])


@pytest.mark.parametrize("op", ["QLinearSigmoid", "QLinearLeakyRelu"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_one(op, dtype):
    draw = Draw(dtype)
    fine = (1 / 256, np.asarray(np.iinfo(dtype).min, dtype)) if op == "QLinearSigmoid" else None
    assert_equal(op, of_one(draw, 4, 64, out=fine), ["x"], {} if op == "QLinearSigmoid" else {"alpha": 0.1})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("opset", "axis"), [(13, -1), (13, 1), (11, 1), (11, 2)])
def test_softmax_is_that_of_the_opset_that_it_names(dtype, opset, axis):
    fine = 1 / 256, np.asarray(np.iinfo(dtype).min, dtype)
    inputs = {**of_one(Draw(dtype), 3, 4, 6, out=fine), "xs": np.float32(0.01)}
    assert_equal("QLinearSoftmax", inputs, ["x"], {"opset": opset, "axis": axis})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zero", [6, 7])
@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
        {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "ceil_mode": 1, "strides": [2, 2]},
        {"kernel_shape": [2, 2], "channels_last": 1},
    ],
)
def test_average_pools_round_with_the_zero_point(dtype, zero, attrs):
    """The scale of the result is that of the data, so that many means of four lie half-way."""
    draw = Draw(dtype)
    point = np.asarray(zero, dtype)
    inputs = {"x": draw.data(1, 4, 8, 10), "xs": np.float32(0.5), "xz": point, "ys": np.float32(0.5), "yz": point}
    assert_equal("QLinearAveragePool", inputs, ["x"], attrs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("last", [0, 1])
def test_global_average_pools(dtype, last):
    inputs = of_one(Draw(dtype), 2, 16, 5, 7, out=(0.02, np.asarray(5, dtype)))
    inputs["xz"] = np.asarray(np.iinfo(dtype).max - 130, dtype)
    assert_equal("QLinearGlobalAveragePool", inputs, ["x"], {"channels_last": last})


def test_the_mean_over_axes_is_that_of_the_dequantized_data():
    """ONNX Runtime has its schema and no kernel for the processor."""
    draw = Draw("uint8")
    inputs = of_one(draw, 2, 3, 4, out=(0.01, draw.zero()))
    model = node_model("QLinearReduceMean", inputs, ["x"], {"axes": [1], "keepdims": 0})
    mean = ((inputs["x"].astype("float64") - inputs["xz"]) * inputs["xs"]).mean(1)
    wanted = np.clip(np.rint(mean / inputs["ys"]) + inputs["yz"], 0, 255)
    np.testing.assert_array_equal(evaluate(import_onnx(model), {"x": inputs["x"]}), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_joined_and_chosen_tensors(dtype):
    draw = Draw(dtype)
    two = of_two(draw, (2, 3, 8), (2, 3, 8))
    out = {"cs": two.pop("cs"), "cz": two.pop("cz")}
    assert_equal("QLinearConcat", {**out, **two}, ["a", "b"], {"axis": 1})
    condition = {"condition": draw.rng.random((3, 1)) > 0.5}
    assert_equal("QLinearWhere", {**condition, **two, **out}, ["condition", "a", "b"])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("flags", [{}, {"transA": 1, "transB": 1, "alpha": 0.7}])
@pytest.mark.parametrize("quantized", [True, False])
def test_a_quantized_gemm(dtype, per_channel, flags, quantized):
    draw = Draw(dtype)
    channels = (50,) if per_channel else ()
    a, b = draw.data(20, 40), draw.weights(40, 50, dtype="int8")
    inputs = {"a": a.T.copy() if flags else a, "as": draw.scale(), "az": draw.zero()}
    zeros = np.zeros(channels, "int8") if per_channel else np.int8(3)
    inputs.update({"b": b.T.copy() if flags else b, "bs": draw.scale(*channels), "bz": np.asarray(zeros)})
    inputs["c"] = draw.rng.integers(-5000, 5000, 50).astype("int32")
    if quantized:
        inputs.update({"ys": np.float32(1.5), "yz": draw.zero()})
    assert_equal("QGemm", inputs, ["a"], flags)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("shape", [(6, 16), (2, 3, 16)])
def test_a_product_of_integers_to_floats(shape, biased):
    draw = Draw("uint8")
    inputs = {"a": draw.data(*shape), "b": draw.weights(16, 9, dtype="int8"), "as": draw.scale(), "bs": draw.scale(9)}
    inputs.update({"az": draw.zero(), "bz": np.zeros(9, "int8")})
    if biased:
        inputs["bias"] = draw.rng.standard_normal(9).astype("float32")
    for computed in (["a"], ["a", "as", "az"]):
        np.testing.assert_allclose(*both("MatMulIntegerToFloat", inputs, computed, {}), rtol=1e-6)


@pytest.mark.parametrize("weights", DTYPES)
@pytest.mark.parametrize("whole", [False, True])
def test_a_product_whose_data_are_quantized_when_it_runs(weights, whole):
    draw = Draw(weights)
    inputs = {"a": draw.rng.standard_normal((2, 5, 16)).astype("float32"), "b": draw.weights(16, 9), "bs": draw.scale()}
    inputs["bz"] = draw.zero() if whole else None
    if whole:
        inputs["bias"] = draw.rng.standard_normal(9).astype("float32")
    np.testing.assert_allclose(*both("DynamicQuantizeMatMul", inputs, ["a"], {}), rtol=1e-5, atol=1e-5)


def test_products_of_16_bits():
    draw = Draw("int16")
    inputs = {"a": draw.data(2, 4, 8) // 64, "b": draw.data(8, 5) // 64}
    assert_equal("MatMulInteger16", inputs, ["a", "b"])


@pytest.mark.parametrize("last", [0, 1])
def test_convolutions_with_channels_innermost(last):
    draw = Draw("uint8")
    inputs = {"x": draw.data(1, 9, 8, 4) if last else draw.data(1, 4, 9, 8), "xs": draw.scale(), "xz": draw.zero()}
    inputs.update({"w": draw.weights(6, 4, 3, 3, dtype="int8"), "ws": draw.scale(6), "wz": np.zeros(6, "int8")})
    inputs.update({"ys": np.float32(2.0), "yz": draw.zero()})
    inputs["b"] = draw.rng.integers(-500, 500, 6).astype("int32")
    attrs = {"pads": [1, 1, 1, 1], "strides": [2, 1], "channels_last": last}
    found, wanted = both("QLinearConv", inputs, ["x"], attrs)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_quantize_and_dequantize_of_that_domain(dtype):
    draw = Draw(dtype)
    numbers = {"x": draw.rng.standard_normal((4, 6)).astype("float32"), "s": np.float32(0.004), "z": draw.zero()}
    assert_equal("QuantizeLinear", numbers, ["x"])
    along = {"x": draw.data(4, 6), "s": draw.scale(6), "z": draw.data(6)}
    assert_equal("DequantizeLinear", along, ["x"], {"axis": 1})


@pytest.mark.parametrize("shape", [(5, 8), (2, 3, 8), (2, 2, 3, 8)])
def test_a_product_of_a_batch_and_weights_is_a_dense_layer_of_integers(shape):
    draw = Draw("uint8")
    inputs = {"a": draw.data(*shape), "as": draw.scale(), "az": draw.zero()}
    inputs.update({"b": draw.weights(8, 7, dtype="int8"), "bs": draw.scale(7), "bz": np.zeros(7, "int8")})
    inputs.update({"ys": np.float32(0.8), "yz": draw.zero()})
    assert_equal("QLinearMatMul", inputs, ["a"], domain="")
    calls = [op_name(n) for n in post_order(import_onnx(node_model("QLinearMatMul", inputs, ["a"], {}, ""))["main"])]
    assert calls.count("qnn.dense") == calls.count("qnn.requantize") == 1


@pytest.mark.parametrize(
    ("op", "change", "message"),
    [
        ("QLinearSigmoid", {"x": np.zeros((2, 3), "float32")}, "input 0 is int8 or uint8, got"),
        ("QLinearSigmoid", {"xs": np.ones(3, "float32")}, r"the scale \(input 1\) is one number"),
        ("QLinearSigmoid", {"ys": np.ones(3, "float32")}, r"the scale \(input 3\) is one number"),
        ("QLinearSigmoid", {"yz": np.float32(0)}, "quantising to float32 is not supported"),
        ("QLinearConcat", {}, "two inputs and then three for each tensor are expected, got 6"),
        ("QLinearWhere", {}, "input 8, the zero point of the output, is missing"),
        ("QGemm", {"x": np.zeros((1, 2, 3), "uint8")}, "input 0 must be a matrix"),
    ],
)
def test_what_such_an_operator_does_not_take_is_an_error_at_its_node(op, change, message):
    draw = Draw("uint8")
    inputs = {**of_one(draw, 2, 3), **change}
    if op in ("QLinearConcat", "QGemm"):
        inputs["more"] = draw.zero()
    with pytest.raises(ImportModelError, match=rf"node n \({op}\): ({message})"):
        import_onnx(node_model(op, inputs, ["x"], {}))
