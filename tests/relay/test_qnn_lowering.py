"""Quantized operators lowered to plain ones give the integers of their kernels, and the numbers that are meant."""

import numpy as np
import pytest

import byoc.relay as relay
from byoc.ir.module import IRModule
from byoc.ir.op import OPS, Op
from byoc.ir.span import SourceName, Span
from byoc.relay.expr import Call
from byoc.relay.interpreter import evaluate
from byoc.relay.qnn import transform
from byoc.relay.traverse import post_order

QNN = [OPS[name] for name in OPS if name.startswith("qnn.") and "simulated" not in name]
CASES = [pytest.param(op, s, id=f"{op.name}-{k}") for op in QNN for k, s in enumerate(op.samples)]
ROUNDINGS = [(r, c) for r in ("UPWARD", "TONEAREST") for c in ("int64", "float32", "float64")]


def operators(mod) -> set[str]:
    return {n.op.name for n in post_order(mod["main"]) if isinstance(n, Call) and isinstance(n.op, Op)}


def both(expr, args=()):
    """The values of a quantized expression and of its lowered form, and the lowered module."""
    mod = relay.transform.InferType()(IRModule.from_expr(expr))
    lowered = transform.CanonicalizeOps()(mod)
    assert not any(name.startswith("qnn.") for name in operators(lowered)), lowered
    return evaluate(mod, list(args)), evaluate(lowered, list(args)), lowered


def assert_same(expr, args=()) -> np.ndarray:
    want, got, _ = both(expr, args)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    return want


def argument(value, free: list):
    """Arrays of data are variables, numbers are constants, a list is a tuple."""
    if isinstance(value, list):
        return relay.Tuple([argument(v, free) for v in value])
    if value.dtype in ("float32", "int32") and value.ndim < 2:
        return relay.const(value)
    free.append(value)
    return relay.var(f"x{len(free)}", shape=value.shape, dtype=str(value.dtype))


@pytest.mark.parametrize("op, sample", CASES)
def test_lowered_samples_give_the_integers_of_the_kernel(op, sample) -> None:
    free: list = []
    args = [argument(v, free) for v in sample.arrays()]
    call = Call(op, args, op.attrs_type(**sample.attrs) if op.attrs_type else None)
    assert_same(call, free)


def integers(rng, dtype: str, shape) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def variable(value: np.ndarray, name: str = "x"):
    return relay.var(name, shape=value.shape, dtype=str(value.dtype))


def scales(rng, count: int | None):
    return relay.const(np.exp(rng.uniform(-6, 1, () if count is None else count)).astype("float32"))


def zeros(rng, dtype: str, count: int | None = None):
    info = np.iinfo(dtype)
    value = rng.integers(info.min, info.max, () if count is None else count, endpoint=True)
    return relay.const(np.where(rng.random() < 0.3, 0, value).astype("int32"))


@pytest.mark.parametrize("seed", range(40))
def test_requantize_lowers_exactly_whatever_the_scales_and_the_rounding(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rounding, compute = ROUNDINGS[seed % len(ROUNDINGS)]
    shape = tuple(rng.integers(1, 5, rng.integers(1, 5)))
    axis = int(rng.integers(-len(shape), len(shape)))
    count = shape[axis] if rng.random() < 0.6 else None
    data = rng.integers(-(2**20), 2**20, shape).astype("int32")
    call = relay.qnn.op.requantize(
        variable(data),
        scales(rng, count),
        zeros(rng, "int16", count if rng.random() < 0.5 else None),
        scales(rng, None),
        zeros(rng, "int8"),
        axis,
        rounding,
        compute,
        ["int8", "uint8", "int16", "int32"][rng.integers(4)],
    )
    assert_same(call, [data])


@pytest.mark.parametrize("seed", range(40))
def test_convolutions_lower_exactly_whatever_the_layout_the_groups_and_the_zero_points(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, per_group = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    depthwise = rng.random() < 0.4
    channels = groups if depthwise else groups * int(rng.integers(1, 4))
    out = groups * per_group
    kernel = tuple(int(k) for k in rng.integers(1, 4, 2))
    data_type, weight_type = rng.choice(["int8", "uint8"], 2)
    data = integers(rng, data_type, (2, channels, 7, 6))
    weight = integers(rng, weight_type, (out, channels // groups, *kernel))
    layout, out_layout = rng.choice(["NCHW", "NHWC"]), rng.choice(["", "NHWC"])
    kernel_layout = rng.choice(["OIHW", "HWIO"])
    if depthwise and groups > 1 and rng.random() < 0.5:
        kernel_layout, weight = "HWOI", weight.reshape(groups, per_group, *kernel)
    data = data.transpose(["NCHW".index(c) for c in layout])
    weight = weight.transpose(["OIHW".index(c) for c in kernel_layout])
    many = out if rng.random() < 0.4 else None
    call = relay.qnn.op.conv2d(
        variable(data),
        variable(weight, "w"),
        zeros(rng, data_type),
        zeros(rng, weight_type, many),
        scales(rng, None),
        scales(rng, out if rng.random() < 0.5 else None),
        kernel,
        out,
        strides=tuple(int(s) for s in rng.integers(1, 3, 2)),
        padding=tuple(int(p) for p in rng.integers(0, 3, 4)),
        dilation=(1, 1) if rng.random() < 0.7 else (2, 1),
        groups=groups,
        data_layout=str(layout),
        kernel_layout=str(kernel_layout),
        out_layout=str(out_layout),
        out_dtype=str(rng.choice(["int32", "int64", "int16"])),
    )
    assert_same(call, [data, weight])


@pytest.mark.parametrize("seed", range(12))
def test_products_of_matrices_lower_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch, rows, columns, depth = (int(n) for n in rng.integers(1, 6, 4))
    left, right = rng.choice(["int8", "uint8"], 2)
    x, w = integers(rng, left, (rows, depth)), integers(rng, right, (columns, depth))
    many = columns if seed % 2 else None
    assert_same(
        relay.qnn.op.dense(
            variable(x),
            variable(w, "w"),
            zeros(rng, left),
            zeros(rng, right, many),
            scales(rng, None),
            scales(rng, many),
            units=columns,
        ),
        [x, w],
    )
    x, w = integers(rng, left, (batch, rows, depth)), integers(rng, right, (batch, columns, depth))
    assert_same(
        relay.qnn.op.batch_matmul(
            variable(x), variable(w, "w"), zeros(rng, left), zeros(rng, right), scales(rng, None), scales(rng, None)
        ),
        [x, w],
    )


@pytest.mark.parametrize("seed", range(8))
def test_transposed_convolutions_lower_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = 1 + seed % 2
    data, weight = integers(rng, "uint8", (1, 4, 3, 4)), integers(rng, "int8", (4, 3, 3, 2))
    call = relay.qnn.op.conv2d_transpose(
        variable(data),
        variable(weight, "w"),
        zeros(rng, "uint8"),
        zeros(rng, "int8", 3 if groups == 1 else None),
        scales(rng, None),
        scales(rng, None),
        strides=(2, 1),
        padding=(1, 0),
        channels=3 * groups,
        kernel_size=(3, 2),
        groups=groups,
        output_padding=(1, 0),
    )
    assert_same(call, [data, weight])


@pytest.mark.parametrize("name", ["add", "subtract", "mul"])
@pytest.mark.parametrize("seed", range(12))
def test_arithmetic_lowers_exactly_with_broadcasting_and_per_axis_scales(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = ["int8", "uint8"][seed % 2]
    shapes = [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (3, 1)), ((1, 4), (5, 3, 4)), ((3,), (2, 3))][seed % 4]
    lhs, rhs = (integers(rng, dtype, shape) for shape in shapes)
    axis = int(rng.integers(0, lhs.ndim))
    many = lhs.shape[axis] if lhs.ndim == max(lhs.ndim, rhs.ndim) and rng.random() < 0.5 else None
    with relay.qnn.op.requantize_config(rounding=["UPWARD", "TONEAREST"][seed // 2 % 2]):
        call = getattr(relay.qnn.op, name)(
            variable(lhs),
            variable(rhs, "y"),
            scales(rng, many),
            zeros(rng, dtype, many),
            scales(rng, None),
            zeros(rng, dtype),
            scales(rng, None),
            zeros(rng, dtype),
            lhs_axis=axis,
        )
        value = assert_same(call, [lhs, rhs])
    assert value.dtype == dtype


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
@pytest.mark.parametrize("axes", [(1, 1), (1, 2), (2, 1), (0, -1)])
def test_products_of_tensors_with_scales_along_one_axis_each_lower_exactly(axes, rounding: str) -> None:
    rng = np.random.default_rng(7)
    lhs, rhs = integers(rng, "int8", (2, 3, 4)), integers(rng, "int8", (2, 3, 4))
    sides = [p for axis in axes for p in (scales(rng, lhs.shape[axis]), zeros(rng, "int8", lhs.shape[axis]))]
    with relay.qnn.op.requantize_config(rounding=rounding):
        call = relay.qnn.op.mul(variable(lhs), variable(rhs, "y"), *sides, relay.const(0.4), relay.const(5), *axes)
        got = assert_same(call, [lhs, rhs])
    real = []
    for data, scale, zero, axis in zip((lhs, rhs), sides[::2], sides[1::2], axes, strict=True):
        shape = [-1 if k == axis % 3 else 1 for k in range(3)]
        s, z = scale.data.numpy().reshape(shape), zero.data.numpy().reshape(shape if zero.data.ndim else ())
        real.append(s.astype("float64") * (data - z))
    assert np.abs(got - np.clip(np.rint(real[0] * real[1] / np.float32(0.4) + 5), -128, 127)).max() <= 1


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", ["tanh", "exp", "sqrt", "rsqrt", "erf", "sigmoid", "hardswish", "log", "abs"])
def test_functions_lower_exactly_and_legalize_to_the_same_table(name: str, dtype: str) -> None:
    info = np.iinfo(dtype)
    data = np.arange(info.min, info.max + 1).astype(dtype)
    zero = info.min if name in ("sqrt", "rsqrt", "log") else 3
    if zero == info.min:  # a logarithm of 0 is no number that an integer could stand for
        data = data[1:]
    call = getattr(relay.qnn.op, name)(
        variable(data), relay.const(0.03), relay.const(zero), relay.const(0.02), relay.const(5)
    )
    want, _, _ = both(call, [data])
    legal = transform.Legalize()(relay.transform.InferType()(IRModule.from_expr(call)))
    assert operators(legal) == ({"cast", "take"} if dtype == "int8" else {"take"})
    np.testing.assert_array_equal(evaluate(legal, [data]), want)


def test_what_is_padded_means_zero_and_not_the_integer_zero() -> None:
    data, weight = np.full((1, 1, 1, 1), 7, "uint8"), np.ones((1, 1, 3, 3), "int8")
    call = relay.qnn.op.conv2d(
        variable(data),
        variable(weight, "w"),
        relay.const(7),
        relay.const(0),
        relay.const(1.0),
        relay.const(1.0),
        (3, 3),
        1,
        padding=(1, 1),
    )
    assert assert_same(call, [data, weight]).tolist() == [[[[0]]]]


def test_terms_whose_zero_points_are_zero_are_left_out() -> None:
    data, weight = np.zeros((2, 4), "uint8"), np.zeros((3, 4), "int8")
    cases = (((0, 0), {"nn.dense"}), ((5, 0), {"nn.dense", "cast", "sum", "multiply", "subtract"}))
    for zero_points, expected in cases:
        call = relay.qnn.op.dense(
            variable(data), variable(weight, "w"), *map(relay.const, zero_points), relay.const(1.0), relay.const(1.0), 3
        )
        assert operators(both(call, [data, weight])[2]) == expected


def test_a_requantization_between_the_same_parameters_is_a_cast() -> None:
    data = np.arange(-4, 4, dtype="int32")
    half, three = relay.const(0.5), relay.const(3)
    assert operators(
        both(relay.qnn.op.requantize(variable(data), half, relay.const(0), half, relay.const(0)), [data])[2]
    ) == {"clip", "cast"}
    same = both(relay.qnn.op.add(variable(data), variable(data), half, three, half, three, half, three), [data] * 2)
    assert operators(same[2]) == {"add", "subtract"}


def test_sizes_that_are_known_only_when_running_are_lowered() -> None:
    data = integers(np.random.default_rng(0), "uint8", (2, 3, 7, 6))
    x = relay.var("x", shape=(relay.Any(), 3, relay.Any(), relay.Any()), dtype="uint8")
    weight = relay.const(integers(np.random.default_rng(1), "int8", (4, 3, 3, 3)))
    conv = relay.qnn.op.conv2d(
        x,
        weight,
        relay.const(7),
        relay.const(3),
        relay.const(0.1),
        relay.const(0.2),
        (3, 3),
        4,
        padding=(1, 1),
        strides=(2, 2),
    )
    scales_in = relay.const(np.array([0.1, 0.2, 0.3, 0.4], "float32"))
    out = relay.qnn.op.requantize(conv, scales_in, relay.const(0), relay.const(90.0), relay.const(3), axis=1)
    assert assert_same(out, [data]).shape == (2, 4, 4, 3)
    left = relay.var("l", shape=(relay.Any(), relay.Any()), dtype="int8")
    right = relay.var("r", shape=(5, relay.Any()), dtype="int8")
    dense = relay.qnn.op.dense(left, right, relay.const(3), relay.const(-4), relay.const(1.0), relay.const(1.0), 5)
    rng = np.random.default_rng(2)
    assert_same(dense, [integers(rng, "int8", (2, 6)), integers(rng, "int8", (5, 6))])


def test_a_scale_that_is_not_constant_leaves_a_requantization_to_its_kernel() -> None:
    data, scale = np.arange(-4, 4, dtype="int32"), np.array(0.5, "float32")
    zero = relay.const(0)
    call = relay.qnn.op.requantize(variable(data), variable(scale, "s"), zero, relay.const(1.0), zero)
    mod = transform.CanonicalizeOps()(relay.transform.InferType()(IRModule.from_expr(call)))
    assert operators(mod) == {"qnn.requantize"}
    assert evaluate(mod, [data, scale]).tolist() == [-2, -1, -1, 0, 0, 1, 1, 2]


def test_dynamic_parameters_of_quantize_dequantize_and_dense_are_lowered() -> None:
    data, scale, zero = np.arange(6, dtype="uint8").reshape(2, 3), np.array([0.5, 2.0], "float32"), np.array(3, "int32")
    params = [variable(scale, "s"), variable(zero, "z")]
    assert_same(relay.qnn.op.dequantize(variable(data), *params, axis=0), [data, scale, zero])
    floats = data.astype("float32")
    assert_same(relay.qnn.op.quantize(variable(floats), *params, axis=0, out_dtype="uint8"), [floats, scale, zero])
    weight = np.arange(12, dtype="int8").reshape(4, 3)
    call = relay.qnn.op.dense(
        variable(data), variable(weight, "w"), params[1], params[1], relay.const(1.0), relay.const(1.0), 4
    )
    assert_same(call, [data, weight, zero])


def test_functions_without_quantized_operators_pass_through_and_generic_ones_are_typed_first() -> None:
    x = relay.var("x", shape=(2,))
    plain = relay.transform.InferType()(IRModule.from_expr(relay.nn.relu(x)))
    assert transform.CanonicalizeOps()(plain)["main"].body is plain["main"].body
    kind = relay.TypeVar("a")
    value = relay.Var("v", kind)
    same = relay.Function([value], value, kind, [kind])
    data = np.arange(4, dtype="int8")
    call = relay.Call(same, [relay.qnn.op.dequantize(variable(data), relay.const(0.5), relay.const(1))])
    mod = transform.CanonicalizeOps()(IRModule.from_expr(call))
    assert "qnn.dequantize" not in operators(mod)
    np.testing.assert_array_equal(evaluate(mod, [data]), np.array([-0.5, 0, 0.5, 1], "float32"))


def test_lowered_nodes_carry_the_span_of_the_quantized_one() -> None:
    span = Span(SourceName("node"), 1, 1, 1, 1)
    data = np.zeros((2, 3), "int8")
    call = relay.qnn.op.requantize(variable(data), relay.const(0.5), relay.const(1), relay.const(0.3), relay.const(2))
    call.span = span
    lowered = both(call, [data])[2]
    assert all(n.span is span for n in post_order(lowered["main"].body) if isinstance(n, Call))
