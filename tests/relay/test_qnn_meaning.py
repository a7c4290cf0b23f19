"""What quantized operators mean: against exact arithmetic in Python, numpy formulas and ONNX Runtime."""

import itertools

import numpy as np
import pytest
from onnx import helper
from scipy import special

import byoc.relay as relay
from byoc.relay.interpreter import evaluate
from byoc.runtime.kernels.qnn.fixed_point import multiplier_and_shift
from fuzz.judge.oracle import run_node

FLOAT_ROUNDING = {"rounding": "TONEAREST", "compute_dtype": "float32"}


def variable(value: np.ndarray, name: str):
    return relay.var(name, shape=value.shape, dtype=str(value.dtype))


def run(build, *arrays, **attrs) -> np.ndarray:
    return evaluate(build(*[variable(a, f"x{k}") for k, a in enumerate(arrays)], **attrs), list(arrays))


def integers(rng, dtype, shape) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def saturate(values, dtype) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.clip(values, info.min, info.max).astype(dtype)


@pytest.mark.parametrize("seed", range(20))
def test_a_multiplier_is_its_significand_and_a_power_of_two(seed: int) -> None:
    multiplier = float(np.exp(np.random.default_rng(seed).uniform(-20, 10)))
    significand, shift = multiplier_and_shift(multiplier)
    assert 2**30 <= significand < 2**31
    assert abs(significand * 2.0 ** (shift - 31) - multiplier) <= multiplier * 2.0**-31


def test_multipliers_at_the_edges_of_a_power_of_two() -> None:
    assert multiplier_and_shift(1.0) == (2**30, 1)
    assert multiplier_and_shift(0.5) == (2**30, 0)
    assert multiplier_and_shift(1.0 - 2.0**-40) == (2**30, 1)  # the significand rounds up to 2**31
    assert multiplier_and_shift(0.0) == (0, 0)
    assert multiplier_and_shift(2.0**-40) == (0, 0)


def exact_rescaling(x: int, multiplier: float, rounding: str) -> int:
    """The fixed-point product in Python's unbounded integers, rounded once."""
    significand, shift = multiplier_and_shift(multiplier)
    product, bits = (x << max(shift, 0)) * significand, 31 + max(-shift, 0)
    if rounding == "UPWARD" or product >= 0:
        return (product + (1 << (bits - 1))) >> bits
    return -((-product + (1 << (bits - 1))) >> bits)


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
@pytest.mark.parametrize("scales", [(0.5, 1.0), (1.0, 0.125), (0.3, 0.7), (1e-5, 1.0), (3.0, 1.0), (0.007, 0.0011)])
def test_requantize_in_integers_is_exact_rounding(rounding: str, scales) -> None:
    data = np.concatenate([np.arange(-40, 41), np.random.default_rng(0).integers(-(2**24), 2**24, 200)]).astype("int32")
    got = run(
        relay.qnn.op.requantize,
        data,
        input_scale=relay.const(scales[0]),
        input_zero_point=relay.const(3),
        output_scale=relay.const(scales[1]),
        output_zero_point=relay.const(-2),
        rounding=rounding,
        compute_dtype="int64",
        out_dtype="int32",
    )
    multiplier = float(np.float32(scales[0])) / float(np.float32(scales[1]))
    assert got.tolist() == [exact_rescaling(int(x) - 3, multiplier, rounding) - 2 for x in data]


@pytest.mark.parametrize("compute", ["int64", "float32", "float64"])
def test_halves_go_up_or_away_from_zero(compute: str) -> None:
    data = np.array([-5, -3, -1, 1, 3, 5], "int32")

    def halves(rounding: str) -> list[int]:
        parameters = [relay.const(0.5), relay.const(0), relay.const(1.0), relay.const(0)]
        return run(
            lambda x: relay.qnn.op.requantize(
                x, *parameters, rounding=rounding, compute_dtype=compute, out_dtype="int32"
            ),
            data,
        ).tolist()

    assert halves("UPWARD") == [-2, -1, 0, 1, 2, 3]
    assert halves("TONEAREST") == [-3, -2, -1, 1, 2, 3]


@pytest.mark.parametrize("compute", ["int64", "float32", "float64"])
@pytest.mark.parametrize("zero", [0, 1])
def test_a_smaller_scale_rounds_before_the_zero_point_is_added(compute: str, zero: int) -> None:
    parameters = [relay.const(1.0), relay.const(0), relay.const(16.0), relay.const(zero)]
    for rounding, below in (("UPWARD", [9, 16, 7]), ("TONEAREST", [8, 16, 8])):

        def down(x, rounding=rounding):
            return relay.qnn.op.requantize(x, *parameters, rounding=rounding, compute_dtype=compute)

        up = run(down, np.arange(32, dtype="int32"))
        np.testing.assert_array_equal(up, np.repeat([0, 1, 2], [8, 16, 8]) + zero)
        np.testing.assert_array_equal(run(down, -np.arange(32, dtype="int32")), np.repeat([0, -1, -2], below) + zero)


def test_the_configuration_decides_where_the_operator_does_not_say() -> None:
    data = np.array([-1], "int32")
    call = relay.qnn.op.requantize(
        variable(data, "x"), relay.const(0.5), relay.const(0), relay.const(1.0), relay.const(0)
    )
    assert evaluate(call, [data]).tolist() == [0]
    with relay.qnn.op.requantize_config(rounding="TONEAREST"):
        assert evaluate(call, [data]).tolist() == [-1]
        with relay.qnn.op.requantize_config(compute_dtype="float32"):
            assert relay.qnn.op.current_requantize_config().rounding == "UPWARD"
            assert evaluate(call, [data]).tolist() == [0]
        assert evaluate(call, [data]).tolist() == [-1]
    assert evaluate(call, [data]).tolist() == [0]


def test_requantize_saturates_also_where_floats_cannot_hold_the_limit() -> None:
    data = np.array([-(2**31), 2**31 - 1], "int32")
    for compute, dtype in itertools.product(("float32", "float64"), ("int8", "uint8", "int16", "int32")):
        got = run(
            relay.qnn.op.requantize,
            data,
            input_scale=relay.const(4.0),
            input_zero_point=relay.const(0),
            output_scale=relay.const(1.0),
            output_zero_point=relay.const(0),
            compute_dtype=compute,
            out_dtype=dtype,
        )
        info = np.iinfo(dtype)
        assert got[0] == info.min
        assert got[1] == (2**31 - 128 if (compute, dtype) == ("float32", "int32") else info.max)


@pytest.mark.parametrize("seed", range(6))
def test_a_convolution_is_the_sum_over_its_window(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [1, 2, 4][seed % 3]
    data, weight = integers(rng, "uint8", (1, 4, 5, 4)), integers(rng, "int8", (4, 4 // groups, 3, 2))
    got = run(
        relay.qnn.op.conv2d,
        data,
        weight,
        input_zero_point=relay.const(100),
        kernel_zero_point=relay.const(-5),
        input_scale=relay.const(0.1),
        kernel_scale=relay.const(0.2),
        kernel_size=(3, 2),
        channels=4,
        strides=(2, 1),
        padding=(1, 0, 1, 1),
        groups=groups,
    )
    x = np.pad(data.astype("int64") - 100, ((0, 0), (0, 0), (1, 1), (0, 1)))
    w, each = weight.astype("int64") + 5, 4 // groups
    for k, i, j in np.ndindex(got.shape[1:]):
        window = x[0, k // each * each : k // each * each + each, 2 * i : 2 * i + 3, j : j + 2]
        assert got[0, k, i, j] == (window * w[k]).sum()


@pytest.mark.parametrize("seed", range(4))
def test_products_of_matrices_are_sums_of_shifted_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, w = integers(rng, "int8", (3, 6)), integers(rng, "int8", (5, 6))
    zeros = rng.integers(-9, 9, 5).astype("int32")
    got = run(
        relay.qnn.op.dense,
        x,
        w,
        input_zero_point=relay.const(7),
        kernel_zero_point=relay.const(zeros),
        input_scale=relay.const(0.1),
        kernel_scale=relay.const(np.full(5, 0.2, "float32")),
        units=5,
    )
    np.testing.assert_array_equal(got, (x.astype("int64") - 7) @ (w.astype("int64") - zeros[:, None]).T)
    a, b = integers(rng, "uint8", (2, 3, 6)), integers(rng, "int8", (2, 4, 6))
    got = run(
        relay.qnn.op.batch_matmul,
        a,
        b,
        x_zero_point=relay.const(100),
        y_zero_point=relay.const(3),
        x_scale=relay.const(0.1),
        y_scale=relay.const(0.2),
    )
    np.testing.assert_array_equal(got, (a.astype("int64") - 100) @ (b.astype("int64") - 3).transpose(0, 2, 1))


def test_a_transposed_convolution_is_the_gradient_of_a_convolution() -> None:
    rng = np.random.default_rng(0)
    x, w = integers(rng, "uint8", (1, 2, 3, 3)), integers(rng, "int8", (2, 3, 2, 2))
    got = run(
        relay.qnn.op.conv2d_transpose,
        x,
        w,
        input_zero_point=relay.const(100),
        kernel_zero_point=relay.const(3),
        input_scale=relay.const(0.1),
        kernel_scale=relay.const(0.2),
        strides=(2, 2),
        channels=3,
        kernel_size=(2, 2),
    )
    want = np.zeros((1, 3, 6, 6), "int64")
    for c, i, j in np.ndindex(2, 3, 3):
        want[0, :, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2] += (int(x[0, c, i, j]) - 100) * (w[c].astype("int64") - 3)
    np.testing.assert_array_equal(got, want)


REAL = {
    "add": np.add,
    "subtract": np.subtract,
    "mul": np.multiply,
}


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_arithmetic_is_that_of_the_real_numbers_within_one(name: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    lhs, rhs = integers(rng, dtype, (40, 30)), integers(rng, dtype, (40, 30))
    numbers = [(0.03, 5), (0.05, 100), (0.08 if name != "mul" else 0.2, 50)]
    parameters = [c for s, z in numbers for c in (relay.const(s), relay.const(z))]
    got = run(lambda x, y: getattr(relay.qnn.op, name)(x, y, *parameters), lhs, rhs)
    real = [s * (v.astype("float64") - z) for v, (s, z) in zip((lhs, rhs), numbers[:2], strict=True)]
    want = saturate(np.rint(REAL[name](*real) / numbers[2][0]) + numbers[2][1], dtype)
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1


FUNCTIONS = {
    "tanh": np.tanh,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": special.erf,
    "sigmoid": special.expit,
    "log": np.log,
    "abs": np.abs,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_those_of_the_real_numbers(name: str) -> None:
    data = np.arange(1, 256).astype("uint8")
    zero = 0 if name in ("sqrt", "rsqrt", "log") else 130
    got = run(
        lambda x: getattr(relay.qnn.op, name)(
            x, relay.const(0.03), relay.const(zero), relay.const(0.04), relay.const(90)
        ),
        data,
    )
    real = FUNCTIONS[name](0.03 * (data.astype("float64") - zero))
    exact = np.clip(real / np.float32(0.04) + 90, 0, 255)
    assert (np.abs(got - exact) <= 0.5 + 1e-4).all()


def test_leaky_relu_softmax_and_concatenate_are_those_of_the_real_numbers() -> None:
    data = np.arange(-128, 128).astype("int8").reshape(4, 64)
    numbers = [relay.const(0.1), relay.const(10), relay.const(0.08), relay.const(-20)]
    real = np.float32(0.1) * (data.astype("float64") - 10)
    got = run(lambda x: relay.qnn.op.leaky_relu(x, 0.25, *numbers), data)
    want = saturate(np.rint(np.where(real < 0, 0.25 * real, real) / 0.08 - 20), "int8")
    assert np.abs(got.astype(int) - want).max() <= 1
    numbers[2:] = [relay.const(1 / 256), relay.const(-128)]
    got = run(lambda x: relay.qnn.op.softmax(x, *numbers, axis=0), data)
    want = saturate(np.rint(special.softmax(real, axis=0) * 256 - 128), "int8")
    assert np.abs(got.astype(int) - want).max() <= 1
    parts = [data[:1], data[1:]]
    got = run(
        lambda x, y: relay.qnn.op.concatenate(
            [x, y],
            [relay.const(0.1), relay.const(0.05)],
            [relay.const(10), relay.const(0)],
            relay.const(0.1),
            relay.const(10),
            0,
        ),
        *parts,
    )
    np.testing.assert_array_equal(got[:1], parts[0])
    want = saturate(np.floor(parts[1] / 2 + 0.5) + 10, "int8")
    np.testing.assert_array_equal(got[1:], want)


def onnx_run(op_type: str, inputs: dict[str, np.ndarray], **attrs) -> np.ndarray:
    """One ONNX operator on ONNX Runtime."""
    node = helper.make_node(op_type, list(inputs), ["y"], **attrs)
    return run_node(node, 13, {name: np.asarray(value) for name, value in inputs.items()})[0]


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quantize_and_dequantize_agree_with_onnx_runtime(axis, dtype: str) -> None:
    rng = np.random.default_rng(2)
    data = rng.uniform(-9, 9, (3, 4)).astype("float32")
    count = () if axis is None else (data.shape[axis],)
    scale, zero = rng.uniform(0.02, 0.2, count).astype("float32"), integers(rng, dtype, count)
    extra = {} if axis is None else {"axis": axis}
    params = [relay.const(scale), relay.const(zero.astype("int32"))]
    got = run(lambda x: relay.qnn.op.quantize(x, *params, axis=axis or 0, out_dtype=dtype), data)
    want = onnx_run("QuantizeLinear", {"x": data, "s": scale, "z": zero}, **extra)
    np.testing.assert_array_equal(got, want)
    back = run(lambda x: relay.qnn.op.dequantize(x, *params, axis=axis or 0), want)
    exact = onnx_run("DequantizeLinear", {"x": want, "s": scale, "z": zero}, **extra)
    np.testing.assert_array_equal(back, exact)


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_convolution_and_its_requantization_agree_with_onnx_runtime(per_channel: bool) -> None:
    rng = np.random.default_rng(3)
    x, w = integers(rng, "uint8", (1, 3, 7, 7)), integers(rng, "int8", (4, 3, 3, 3))
    scale = rng.uniform(0.001, 0.02, 4 if per_channel else ()).astype("float32")
    zeros = np.zeros(4 if per_channel else (), "int8")
    got = evaluate(
        relay.qnn.op.requantize(
            relay.qnn.op.conv2d(
                variable(x, "x"),
                variable(w, "w"),
                relay.const(120),
                relay.const(0),
                relay.const(0.05),
                relay.const(scale),
                (3, 3),
                4,
                padding=(1, 1),
            ),
            relay.const(np.float32(0.05) * scale),
            relay.const(0),
            relay.const(0.3),
            relay.const(110),
            axis=1,
            out_dtype="uint8",
            **FLOAT_ROUNDING,
        ),
        [x, w],
    )
    want = onnx_run(
        "QLinearConv",
        {
            "x": x,
            "xs": np.float32(0.05).reshape(()),
            "xz": np.array(120, "uint8"),
            "w": w,
            "ws": scale,
            "wz": zeros,
            "ys": np.array(0.3, "float32"),
            "yz": np.array(110, "uint8"),
        },
        pads=[1, 1, 1, 1],
    )
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1
    assert (got != want).mean() < 0.01


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda x: relay.qnn.op.quantize(x, relay.const(1.0), relay.const(0)), "float32 or float16, got int8"),
        (lambda x: relay.qnn.op.dequantize(x, relay.const(1), relay.const(0)), "float32"),
        (
            lambda x: relay.qnn.op.dequantize(x, relay.const(1.0), relay.const(0.0)),
            "zero_point must be a tensor of int32",
        ),
        (
            lambda x: relay.qnn.op.dequantize(x, relay.const(np.ones(2, "float32")), relay.const(0)),
            "vector of 3 numbers",
        ),
        (lambda x: relay.qnn.op.dequantize(x, relay.const(np.ones(3, "float32")), relay.const(0), axis=5), "outside"),
        (
            lambda x: relay.qnn.op.requantize(
                x, relay.const(1.0), relay.const(0), relay.const(np.ones(3, "float32")), relay.const(0)
            ),
            "output_scale must be a scalar",
        ),
        (
            lambda x: relay.qnn.op.requantize(
                x, relay.const(1.0), relay.const(0), relay.const(1.0), relay.const(0), rounding="DOWN"
            ),
            "rounding is one of",
        ),
        (
            lambda x: relay.qnn.op.dense(
                x,
                relay.var("w", shape=(4, 3), dtype="int16"),
                relay.const(0),
                relay.const(0),
                relay.const(1.0),
                relay.const(1.0),
                4,
            ),
            "weight must be int8 or uint8",
        ),
        (
            lambda x: relay.qnn.op.add(
                x, relay.var("y", shape=(2, 3), dtype="uint8"), *[relay.const(1.0), relay.const(0)] * 3
            ),
            "one dtype",
        ),
        (
            lambda x: relay.qnn.op.concatenate(
                [x, x], [relay.const(1.0)], [relay.const(0)] * 2, relay.const(1.0), relay.const(0), 0
            ),
            "2 tensors are joined and 1 input_scales",
        ),
    ],
)
def test_ill_typed_calls_say_what_they_expected(build, message: str) -> None:
    with pytest.raises(Exception, match=message):
        relay.analysis.infer_expr(build(relay.var("x", shape=(2, 3), dtype="int8")))


def test_wrong_choices_are_refused_where_they_are_made() -> None:
    with pytest.raises(Exception, match="requantize_config takes rounding"):
        relay.qnn.op.requantize_config(rounding="DOWN")
    with pytest.raises(Exception, match="a simulated dtype is one of"):
        relay.qnn.op.simulated_quantize(relay.var("x", shape=(2,)), relay.const(1.0), relay.const(0), out_dtype="int4")
    with pytest.raises(Exception, match="empty list"):
        relay.qnn.op.concatenate([], [], [], relay.const(1.0), relay.const(0), 0)
    with pytest.raises(AttributeError, match="cannot set attribute 'rounding'"):
        relay.qnn.op.current_requantize_config().rounding = "UPWARD"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_simulated_quantization_gives_the_numbers_of_the_real_one(dtype: str) -> None:
    data = np.linspace(-300, 300, 77).astype("float32").reshape(7, 11)
    scale, zero = np.linspace(0.5, 2, 11).astype("float32"), np.arange(11).astype("int32")
    params = [relay.const(scale), relay.const(zero)]
    simulated = run(lambda x: relay.qnn.op.simulated_quantize(x, *params, out_dtype=dtype), data)
    real = run(lambda x: relay.qnn.op.quantize(x, *params, out_dtype=dtype), data)
    np.testing.assert_array_equal(simulated, real.astype("float32"))
    back = run(lambda x: relay.qnn.op.simulated_dequantize(x, *params, in_dtype=dtype), simulated)
    np.testing.assert_allclose(back, run(lambda x: relay.qnn.op.dequantize(x, *params), real), rtol=1e-6)
    through = run(lambda x: relay.qnn.op.simulated_quantize(x, *params, out_dtype="disable"), data)
    np.testing.assert_array_equal(through, data)
