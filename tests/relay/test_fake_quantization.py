"""FakeQuantizationToInteger: the integers that a region becomes stand for what the floats computed."""

import numpy as np
import pytest

import byoc.relay as relay
from byoc.ir.affine_type import TensorAffineType, TupleAffineType
from byoc.ir.module import IRModule
from byoc.ir.op import Op, get_op
from byoc.relay.analysis import list_fake_quantized_op_freqs
from byoc.relay.expr import Call, Tuple
from byoc.relay.interpreter import evaluate
from byoc.relay.op.op import register_fake_quantization_to_integer
from byoc.relay.structure.structural import structural_equal
from byoc.relay.transform import FakeQuantizationToInteger
from byoc.relay.traverse import post_order

quantize, dequantize = relay.qnn.op.quantize, relay.qnn.op.dequantize
ONE, ZERO = relay.const(1.0), relay.const(0)


def typed(expr) -> IRModule:
    return relay.transform.InferType()(IRModule.from_expr(expr))


def operators(mod) -> set[str]:
    return {n.op.name for n in post_order(mod["main"]) if isinstance(n, Call) and isinstance(n.op, Op)}


def integers(shape, dtype="int8", seed=0, low=None, high=None) -> np.ndarray:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min if low is None else low, info.max if high is None else high, shape).astype(dtype)


class Inputs:
    """Variables of integers and their values."""

    def __init__(self):
        self.values = []

    def __call__(self, shape, dtype="int8", **limits):
        self.values.append(integers(shape, dtype, len(self.values), **limits))
        return relay.var(f"x{len(self.values)}", shape=shape, dtype=dtype)


def compare(expr, inputs, rounding=0, **options):
    """Both run to the same integers, *rounding* apart; no operator computes with dequantized data."""
    mod = typed(expr)
    new = FakeQuantizationToInteger(hard_fail=True, **options)(mod)
    assert not structural_equal(mod, new)
    float_readers = {
        n.op.name
        for n in post_order(new["main"])
        if isinstance(n, Call)
        and isinstance(n.op, Op)
        and any(isinstance(a, Call) and a.op.name == "qnn.dequantize" for a in n.args)
    }
    assert float_readers <= {"qnn.quantize"}  # a bias that is brought to several scales
    want, got = evaluate(mod, inputs.values), evaluate(new, inputs.values)
    assert got.dtype == want.dtype and got.shape == want.shape
    assert np.abs(got.astype("int64") - want.astype("int64")).max() <= rounding
    assert len(np.unique(want)) > 1, "the numbers do not say anything"
    return new


def unary(op, scale=2.0, zero=114, out=(2.0, 114), dtype="uint8", shape=(1, 3, 8, 8), rounding=0, **options):
    inputs = Inputs()
    x = dequantize(inputs(shape, dtype), relay.const(scale), relay.const(zero))
    expr = quantize(op(x), relay.const(out[0]), relay.const(out[1]), out_dtype=dtype)
    return compare(expr, inputs, rounding, **options)


IDENTITIES = {
    "reshape": lambda x: relay.reshape(x, (3, 64)),
    "transpose": lambda x: relay.transpose(x, (1, 0, 3, 2)),
    "squeeze": lambda x: relay.squeeze(x, axis=[0]),
    "expand_dims": lambda x: relay.expand_dims(x, 1),
    "strided_slice": lambda x: relay.strided_slice(x, (0, 0, 1, 2), (1, 2, 7, 8)),
    "max_pool2d": lambda x: relay.nn.max_pool2d(x, (3, 3)),
    "batch_flatten": relay.nn.batch_flatten,
    "depth_to_space": lambda x: relay.nn.space_to_depth(x, 2),
    "max": lambda x: relay.max(x, axis=1),
    "min": lambda x: relay.min(x, axis=(2, 3)),
    "relu": relay.nn.relu,
    "topk": lambda x: relay.topk(x, k=3, axis=-1, ret_type="values"),
    "clip": lambda x: relay.clip(x, 0, 6),
    "broadcast_to": lambda x: relay.broadcast_to(x, (4, 3, 8, 8)),
    "split": lambda x: relay.split(x, 3, axis=1)[1],
    "split_at": lambda x: relay.split(x, [1, 2], axis=1)[2],
    "pad": lambda x: relay.nn.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)), -4.0),
    "take": lambda x: relay.take(x, relay.const(np.array([1, 0], "int32")), axis=1),
    "add_constant": lambda x: relay.add(x, relay.const(4.0)),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_operators_that_move_numbers_are_exact(name: str) -> None:
    unary(IDENTITIES[name])


@pytest.mark.parametrize("name", IDENTITIES)
def test_operators_that_move_numbers_to_another_scale_are_within_one(name: str) -> None:
    unary(IDENTITIES[name], out=(2.6, 100), rounding=1)


@pytest.mark.parametrize(
    "name, op",
    [
        ("mean", lambda x: relay.mean(x, axis=(1,))),
        ("mean_all", lambda x: relay.mean(x, axis=(2, 3), keepdims=True)),
        ("global_avg_pool2d", relay.nn.global_avg_pool2d),
        ("avg_pool2d", lambda x: relay.nn.avg_pool2d(x, (3, 3), padding=(1, 1))),
        ("avg_pool2d_counting", lambda x: relay.nn.avg_pool2d(x, (3, 3), padding=(1, 1), count_include_pad=True)),
        ("resize2d", lambda x: relay.image.resize2d(x, (5, 11))),
        ("leaky_relu", lambda x: relay.nn.leaky_relu(x, 0.1)),
    ],
)
def test_means_and_interpolations_are_within_one(name: str, op) -> None:
    unary(op, rounding=1)


@pytest.mark.parametrize("scale", [0.3, 2.0, 5.0])
def test_a_pool_is_within_one_whatever_scale_is_asked_for(scale: float) -> None:
    unary(lambda x: relay.nn.avg_pool2d(x, (3, 3), strides=(2, 2)), out=(scale, 100), rounding=1)


def test_a_pool_between_other_operators_keeps_the_units_of_its_data() -> None:
    inputs = Inputs()
    x = dequantize(inputs((1, 4, 9, 9), "uint8"), relay.const(0.64), relay.const(2))
    weight = dequantize(inputs((8, 4, 1, 1), "uint8"), relay.const(0.005), relay.const(120))
    op = relay.nn.conv2d(relay.nn.avg_pool2d(x, (3, 3)), weight, kernel_size=(1, 1))
    compare(quantize(op, relay.const(1.0), relay.const(128), out_dtype="uint8"), inputs, 2)


def test_an_adaptive_pool_in_one_dimension_is_within_one() -> None:
    unary(lambda x: relay.nn.adaptive_avg_pool1d(x, 3), shape=(1, 4, 9), rounding=1)


@pytest.mark.parametrize("name", ["sqrt", "rsqrt", "exp", "erf", "sigmoid", "tanh", "log", "abs"])
def test_functions_of_each_element_are_exact(name: str) -> None:
    zero = 0 if name in ("sqrt", "rsqrt", "log") else 120
    inputs = Inputs()
    x = dequantize(inputs((2, 70), "uint8", low=1), relay.const(0.03), relay.const(zero))
    new = compare(quantize(getattr(relay, name)(x), relay.const(0.02), relay.const(30), out_dtype="uint8"), inputs)
    assert operators(new) == {f"qnn.{name}"}


@pytest.mark.parametrize("name, quantized", [("add", "qnn.add"), ("subtract", "qnn.subtract"), ("multiply", "qnn.mul")])
@pytest.mark.parametrize("shapes", [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (3, 1)), ((4,), (2, 4))])
def test_arithmetic_is_within_one(name: str, quantized: str, shapes) -> None:
    inputs = Inputs()
    x = dequantize(inputs(shapes[0]), relay.const(0.1), relay.const(3))
    y = dequantize(inputs(shapes[1]), relay.const(0.2), relay.const(-7))
    new = compare(quantize(getattr(relay, name)(x, y), relay.const(0.35), relay.const(4)), inputs, 1)
    assert operators(new) == {quantized}


@pytest.mark.parametrize(
    "name, number",
    [
        *((name, c) for name in ("add", "subtract", "multiply", "maximum") for c in (1.5, -40.0, 0.25)),
        ("minimum", 9.0),
    ],
)
@pytest.mark.parametrize("out", ["int8", "uint8"])
def test_a_constant_outside_the_range_of_the_other_side_is_not_cut_off(name: str, number: float, out: str) -> None:
    for swapped in (False, True):
        inputs = Inputs()
        x = dequantize(inputs((4, 30), "uint8"), relay.const(0.1), relay.const(0))
        sides = (relay.const(number), x) if swapped else (x, relay.const(number))
        scale = 2.0 if name == "multiply" else 0.5
        zero = relay.const(20 if out == "int8" else 128)
        compare(quantize(getattr(relay, name)(*sides), relay.const(scale), zero, out_dtype=out), inputs, 1)


def test_sides_of_two_dtypes_are_added_in_int32() -> None:
    inputs = Inputs()
    x = dequantize(inputs((1, 3, 5, 5)), relay.const(0.1), relay.const(4))
    scales = relay.const(np.array([0.02, 0.03, 0.01], "float32"))
    conv = relay.nn.conv2d(x, dequantize(inputs((3, 3, 1, 1)), scales, ZERO, axis=0), kernel_size=(1, 1), channels=3)
    compare(quantize(relay.add(conv, x), relay.const(0.5), relay.const(7)), inputs, 1)


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_choices_between_two_tensors_are_within_one(name: str) -> None:
    inputs = Inputs()
    x = dequantize(inputs((2, 9)), relay.const(0.1), relay.const(3))
    y = dequantize(inputs((2, 9)), relay.const(0.13), relay.const(-7))
    new = compare(quantize(getattr(relay, name)(x, y), relay.const(0.15), relay.const(4)), inputs, 1)
    assert operators(new) == {"qnn.requantize", name}


def test_a_constant_condition_chooses_between_integers() -> None:
    inputs = Inputs()
    x = dequantize(inputs((2, 3)), relay.const(0.1), relay.const(3))
    y = dequantize(inputs((2, 3)), relay.const(0.1), relay.const(3))
    condition = relay.const(np.array([[True, False, True], [False, True, True]]))
    compare(quantize(relay.where(condition, x, y), relay.const(0.1), relay.const(3)), inputs)


@pytest.mark.parametrize("out_dtype", ["int8", "uint8"])
def test_a_convolution_is_exact_where_its_scale_is_one(out_dtype: str) -> None:
    inputs = Inputs()
    x = dequantize(inputs((1, 3, 9, 9), low=-3, high=4), relay.const(2.0), ZERO)
    weight = dequantize(inputs((4, 3, 3, 3), low=-3, high=4), relay.const(0.5), ZERO)
    op = relay.nn.conv2d(x, weight, kernel_size=[3, 3], channels=4)
    new = compare(quantize(op, ONE, ZERO, out_dtype=out_dtype), inputs)
    assert operators(new) == {"qnn.conv2d", "qnn.requantize"}


@pytest.mark.parametrize("one_scale", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_convolution_with_a_scale_for_each_channel_and_a_bias_is_within_one(transposed, one_scale) -> None:
    inputs = Inputs()
    data = inputs((1, 9, 9, 3) if transposed else (1, 3, 9, 9), "uint8")
    x = dequantize(data, relay.const(0.02), relay.const(120))
    x = relay.transpose(x, (0, 3, 1, 2)) if transposed else x
    scales = np.array([0.01, 0.02, 0.003, 0.04], "float32")
    weight = dequantize(inputs((4, 3, 3, 3)), relay.const(scales), ZERO, axis=0)
    op = relay.nn.conv2d(x, weight, kernel_size=(3, 3), channels=4, padding=(1, 1))
    bias_scale = relay.const(0.003) if one_scale else relay.const(scales * np.float32(0.02))
    op = relay.nn.bias_add(op, dequantize(inputs((4,), "int32", low=-900, high=900), bias_scale, ZERO, axis=0))
    op = relay.nn.relu(op)
    new = compare(quantize(op, relay.const(0.1), relay.const(-100)), inputs, 1)
    exact = {"qnn.conv2d", "nn.bias_add", "qnn.requantize", "maximum"} | ({"transpose"} if transposed else set())
    assert operators(new) == (exact | {"qnn.dequantize", "qnn.quantize"} if one_scale else exact)


def test_a_bias_that_is_a_constant_is_quantized() -> None:
    inputs = Inputs()
    x = dequantize(inputs((2, 6)), relay.const(0.1), relay.const(2))
    weight = dequantize(inputs((5, 6)), relay.const(0.05), ZERO)
    op = relay.nn.bias_add(relay.nn.dense(x, weight, units=5), relay.const(np.linspace(-3, 3, 5).astype("float32")))
    new = compare(quantize(op, relay.const(0.6), relay.const(5)), inputs, 1)
    assert {"qnn.dense", "qnn.quantize", "nn.bias_add", "qnn.requantize"} == operators(new)


def test_a_bias_on_small_integers_does_not_overflow() -> None:
    inputs = Inputs()
    x = dequantize(inputs((2, 6)), relay.const(0.1), relay.const(40))
    bias = dequantize(inputs((6,)), relay.const(0.07), relay.const(9))
    compare(quantize(relay.nn.bias_add(x, bias), relay.const(0.2), relay.const(4)), inputs, 1)


def test_a_dense_layer_with_a_scale_for_each_output_is_within_one() -> None:
    inputs = Inputs()
    x = dequantize(inputs((4, 7)), relay.const(0.1), relay.const(-3))
    scales = relay.const(np.linspace(0.01, 0.1, 5).astype("float32"))
    weight = dequantize(inputs((5, 7)), scales, relay.const(np.zeros(5, "int32")), axis=0)
    compare(quantize(relay.nn.dense(x, weight, units=5), relay.const(0.3), relay.const(1)), inputs, 1)


def test_a_batch_of_products_and_a_transposed_convolution_are_within_one() -> None:
    inputs = Inputs()
    x = dequantize(inputs((2, 3, 5)), relay.const(0.1), relay.const(4))
    y = dequantize(inputs((2, 4, 5)), relay.const(0.1), relay.const(-4))
    compare(quantize(relay.nn.batch_matmul(x, y), relay.const(2.0), relay.const(3)), inputs, 1)
    inputs = Inputs()
    x = dequantize(inputs((1, 3, 6, 6)), relay.const(0.1), relay.const(4))
    scales = relay.const(np.array([0.1, 0.02], "float32"))
    weight = dequantize(inputs((3, 2, 3, 3)), scales, ZERO, axis=1)
    op = relay.nn.conv2d_transpose(x, weight, kernel_size=(3, 3), channels=2, strides=(2, 2))
    compare(quantize(op, relay.const(0.9), relay.const(3)), inputs, 1)


def test_concatenated_tensors_of_several_scales_are_within_one() -> None:
    inputs = Inputs()
    parts = [dequantize(inputs((1, 4)), relay.const(s), relay.const(z)) for s, z in ((0.1, 3), (0.2, -2), (0.15, 0))]
    new = compare(quantize(relay.concatenate(parts, axis=0), relay.const(0.2), relay.const(-2)), inputs, 1)
    assert operators(new) == {"qnn.concatenate"}


def test_relu_and_clip_with_a_scale_for_each_channel_are_exact() -> None:
    scales = relay.const(np.array([0.5, 1.0, 2.0], "float32"))
    zeros = relay.const(np.array([10, 20, -30], "int32"))
    for op in (relay.nn.relu, lambda x: relay.clip(x, -8.0, 16.0)):
        inputs = Inputs()
        x = dequantize(inputs((2, 3, 5)), scales, zeros, axis=1)
        compare(quantize(op(x), scales, zeros, axis=1), inputs)


def test_scales_along_an_axis_follow_it_where_it_moves() -> None:
    scales = relay.const(np.array([0.5, 1.0, 2.0], "float32"))
    for op in (
        lambda x: relay.transpose(x, (0, 2, 1)),
        lambda x: relay.expand_dims(x, 0),
        lambda x: relay.reshape(x, (2, 3, 5, 1)),
        lambda x: relay.nn.max_pool1d(x, 2),
    ):
        inputs = Inputs()
        x = dequantize(inputs((2, 3, 5)), scales, ZERO, axis=1)
        compare(quantize(op(x), relay.const(1.5), relay.const(3)), inputs, 1)


def test_an_operator_that_loses_the_axis_of_the_scales_leaves_the_floats() -> None:
    scales = relay.const(np.array([0.5, 1.0, 2.0], "float32"))
    x = dequantize(relay.var("x", shape=(2, 3, 5), dtype="int8"), scales, ZERO, axis=1)
    for op in (
        lambda x: relay.max(x, axis=1),
        lambda x: relay.reshape(x, (30,)),
        lambda x: relay.mean(x, axis=1),
        lambda x: relay.split(x, 3, axis=1)[0],
    ):
        mod = typed(quantize(op(x), ONE, ZERO))
        assert structural_equal(FakeQuantizationToInteger()(mod), mod)
        with pytest.raises(Exception, match="axis|scale"):
            FakeQuantizationToInteger(hard_fail=True)(mod)


def test_softmax_becomes_an_integer_one_where_it_is_named() -> None:
    x = dequantize(relay.var("x", shape=(3, 10), dtype="int8"), relay.const(0.1), ZERO)
    mod = typed(quantize(relay.nn.softmax(x, axis=1), relay.const(1 / 256), relay.const(-128)))
    assert structural_equal(FakeQuantizationToInteger()(mod), mod)
    new = FakeQuantizationToInteger(optional_qnn_ops=["nn.softmax"])(mod)
    assert operators(new) == {"qnn.softmax"}
    data = np.sort(integers((3, 10)))
    got = evaluate(new, [data])
    assert (np.diff(got.astype("int32")) >= 0).all()
    np.testing.assert_array_equal(got, evaluate(mod, [data]))


def test_a_dequantize_before_a_quantize_is_a_requantize_or_nothing() -> None:
    x = relay.var("x", shape=(4,), dtype="int8")
    nothing = FakeQuantizationToInteger()(typed(quantize(dequantize(x, ONE, ZERO), ONE, ZERO)))
    assert nothing["main"].body.name_hint == "x"
    inputs = Inputs()
    floats = dequantize(inputs((50,)), relay.const(0.3), relay.const(2))
    new = compare(quantize(floats, relay.const(0.4), ZERO), inputs, 1)
    assert operators(new) == {"qnn.requantize"}


def test_a_rule_that_fails_leaves_the_region_or_raises() -> None:
    x = dequantize(relay.var("x", shape=(4,), dtype="int8"), ONE, ZERO)
    mod = typed(quantize(relay.nn.relu(x), ONE, ZERO))
    op = get_op("nn.relu")
    known = op.get_attr("FTVMFakeQuantizationToInteger")
    try:

        @register_fake_quantization_to_integer("nn.relu", level=11)
        def refuse(expr, type_map):
            raise NotImplementedError("no")

        assert structural_equal(FakeQuantizationToInteger(hard_fail=False)(mod), mod)
        with pytest.raises(NotImplementedError):
            FakeQuantizationToInteger(hard_fail=True)(mod)
    finally:
        op.reset_attr("FTVMFakeQuantizationToInteger")
        op.set_attr("FTVMFakeQuantizationToInteger", known)


def test_an_operator_without_a_rule_is_named() -> None:
    x = dequantize(relay.var("x", shape=(4,), dtype="int8"), ONE, ZERO)
    mod = typed(quantize(relay.sin(x), ONE, ZERO))
    assert structural_equal(FakeQuantizationToInteger()(mod), mod)
    with pytest.raises(Exception, match="Found no rewrite rule for sin"):
        FakeQuantizationToInteger(hard_fail=True)(mod)


def test_floats_from_outside_keep_a_region_as_it_is() -> None:
    x = dequantize(relay.var("x", shape=(4,), dtype="int8"), ONE, ZERO)
    mod = typed(quantize(relay.add(x, relay.var("y", shape=(4,))), ONE, ZERO))
    assert structural_equal(FakeQuantizationToInteger(hard_fail=True)(mod), mod)


def test_regions_one_after_another_and_side_by_side_are_all_turned() -> None:
    inputs = Inputs()
    x = dequantize(inputs((1, 4)), relay.const(0.5), ZERO)
    first = quantize(relay.nn.relu(x), relay.const(0.5), ZERO)
    left = quantize(relay.clip(dequantize(first, relay.const(0.5), ZERO), 0.0, 20.0), relay.const(0.5), ZERO)
    right = quantize(relay.reshape(dequantize(first, relay.const(0.5), ZERO), (4, 1)), relay.const(0.5), ZERO)
    mod = typed(Tuple([left, right]))
    new = FakeQuantizationToInteger()(mod)
    assert operators(new) == {"maximum", "clip", "reshape"}
    for got, want in zip(evaluate(new, inputs.values), evaluate(mod, inputs.values), strict=True):
        np.testing.assert_array_equal(got, want)


def test_regions_that_end_in_several_quantizes_share_what_does_not_depend_on_these() -> None:
    inputs = Inputs()
    x = dequantize(inputs((1, 3, 6, 6)), relay.const(0.1), relay.const(4))
    weight = dequantize(inputs((2, 3, 3, 3)), relay.const(0.02), ZERO)
    conv = relay.nn.relu(relay.nn.conv2d(x, weight, kernel_size=(3, 3), channels=2))
    ends = [
        quantize(conv, relay.const(0.5), ZERO),
        quantize(relay.tanh(conv), relay.const(0.01), ZERO),
        quantize(relay.tanh(conv), relay.const(0.02), ZERO),
    ]
    mod = typed(Tuple(ends))
    new = FakeQuantizationToInteger(hard_fail=True)(mod)
    names = [n.op.name for n in post_order(new["main"]) if isinstance(n, Call)]
    assert names.count("qnn.conv2d") == names.count("maximum") == 1 and names.count("qnn.tanh") == 2
    for got, want in zip(evaluate(new, inputs.values), evaluate(mod, inputs.values), strict=True):
        assert np.abs(got.astype(int) - want.astype(int)).max() <= 1


def test_many_quantizes_along_one_chain_take_linear_time() -> None:
    x = relay.var("x", shape=(4,), dtype="int8")
    for op in (relay.nn.relu, relay.sin):
        value, ends = dequantize(x, ONE, ZERO), []
        for _ in range(1500):
            value = op(value)
            ends.append(quantize(value, relay.const(2.0), ZERO))
        new = FakeQuantizationToInteger()(typed(Tuple(ends)))
        assert operators(new) == (
            {"maximum", "qnn.requantize"} if op is relay.nn.relu else {"sin", "qnn.quantize", "qnn.dequantize"}
        )


def test_a_chain_of_regions_is_turned_in_linear_time() -> None:
    x = relay.var("x", shape=(4,), dtype="int8")
    value = x
    for _ in range(3000):
        value = quantize(relay.nn.relu(dequantize(value, ONE, ZERO)), ONE, ZERO)
    new = FakeQuantizationToInteger()(typed(value))
    assert operators(new) == {"maximum"}


def qat(expr, expected, inputs) -> None:
    mod = typed(expr)
    new = FakeQuantizationToInteger(False, True)(mod)
    assert structural_equal(new, typed(expected)), f"{new}\n{typed(expected)}"
    np.testing.assert_allclose(evaluate(new, inputs.values), evaluate(mod, inputs.values), rtol=1e-5, atol=1e-5)


def test_a_product_that_no_quantize_follows_is_turned_by_the_second_pass() -> None:
    inputs = Inputs()
    a, b = inputs((1, 4, 2)), inputs((1, 4, 2))
    floats = [dequantize(a, relay.const(2.0), relay.const(1)), dequantize(b, relay.const(0.5), relay.const(2))]
    integer = relay.qnn.op.batch_matmul(a, b, relay.const(1), relay.const(2), relay.const(2.0), relay.const(0.5))
    qat(relay.erf(relay.nn.batch_matmul(*floats)), relay.erf(dequantize(integer, ONE, ZERO)), inputs)


def test_what_leads_to_a_product_is_turned_with_it() -> None:
    inputs = Inputs()
    a, b = inputs((2, 4)), inputs((3, 4))
    dense = relay.nn.dense(
        relay.nn.relu(dequantize(a, relay.const(2.0), relay.const(1))), dequantize(b, relay.const(0.5), ZERO)
    )
    integer = relay.qnn.op.dense(
        relay.maximum(a, relay.const(1, "int8")), b, relay.const(1), ZERO, relay.const(2.0), relay.const(0.5), None
    )
    qat(relay.add(dense, ONE), relay.add(dequantize(integer, ONE, ZERO, axis=1), ONE), inputs)


def test_operators_that_ask_what_their_result_stands_for_stay_floats_in_the_second_pass() -> None:
    a = dequantize(relay.var("a", shape=(2, 4), dtype="int8"), relay.const(2.0), relay.const(1))
    for op in (relay.tanh(a), relay.add(a, a), relay.concatenate([a, a], 0), relay.sin(a)):
        mod = typed(op)
        assert structural_equal(FakeQuantizationToInteger(False, True)(mod), mod)


def test_sections_of_a_split_are_dequantized_one_by_one_in_the_second_pass() -> None:
    inputs = Inputs()
    a = inputs((2, 4))
    first = relay.split(dequantize(a, relay.const(2.0), relay.const(1)), 2, axis=1)[0]
    integer = relay.split(a, 2, axis=1)[0]
    qat(relay.sin(first), relay.sin(dequantize(integer, relay.const(2.0), relay.const(1))), inputs)


def test_operators_in_regions_are_counted() -> None:
    x = dequantize(relay.var("x", shape=(1, 8), dtype="int8"), relay.const(2.0), ZERO)
    w = dequantize(relay.var("w", shape=(8, 8), dtype="int8"), relay.const(0.5), ZERO)
    first = dequantize(quantize(relay.nn.dense(x, w), ONE, ZERO), ONE, ZERO)
    second = quantize(relay.nn.dense(relay.nn.relu(first), w), ONE, ZERO)
    outside = relay.sigmoid(dequantize(second, ONE, ZERO))
    assert list_fake_quantized_op_freqs(IRModule.from_expr(outside)) == {"nn.dense": 2, "nn.relu": 1}
    assert list_fake_quantized_op_freqs(IRModule.from_expr(quantize(relay.var("f", shape=(2,)), ONE, ZERO))) == {}


def test_affine_types_compare_by_structure() -> None:
    one = TensorAffineType(relay.const(2.0), ZERO, "int8")
    same = TensorAffineType(relay.const(2.0), relay.const(0), "int8")
    other = TensorAffineType(relay.const(2.5), ZERO, "int8")
    assert one == same and hash(one) == hash(same) and one != other
    assert TupleAffineType([one]) == TupleAffineType([same]) != TupleAffineType([other])
    assert one != TensorAffineType(relay.const(2.0), ZERO, "uint8")
    assert one != TensorAffineType(relay.const(2.0), ZERO, "int8", 1)
