"""FoldScaleAxis and SimplifyInference: scales and batch norms vanish into weights, numerically right, or stay."""

from __future__ import annotations

import numpy as np
import pytest
from random_graphs import calls_of, check_same, names_in

from byoc import relay
from byoc.ir.passes.transform import Sequential
from byoc.ir.span import Span
from byoc.relay import transform
from byoc.relay.analysis import infer_expr

RNG = np.random.default_rng(3)
BATCH_NORM_PASSES = Sequential(
    [
        transform.SimplifyInference(),
        transform.FoldConstant(),
        transform.FoldScaleAxis(),
        transform.SimplifyExpr(),
        transform.FoldConstant(),
    ]
)
# name, data shape, weight shape, channel axis of the result, channel axis of the data, attributes
LINEAR = [
    ("conv2d", (1, 4, 6, 6), (6, 4, 3, 3), 1, 1, {}),
    ("conv2d", (1, 4, 6, 6), (6, 2, 3, 3), 1, 1, {"groups": 2}),
    ("conv2d", (1, 4, 6, 6), (4, 1, 3, 3), 1, 1, {"groups": 4}),
    ("conv2d", (1, 4, 6, 6), (8, 1, 3, 3), 1, 1, {"groups": 4}),
    ("conv2d", (1, 2, 6, 6), (2, 2, 3, 3), 1, 1, {"groups": 2}),
    ("conv2d", (1, 6, 6, 4), (3, 3, 4, 6), 3, 3, {"data_layout": "NHWC", "kernel_layout": "HWIO"}),
    ("conv2d", (1, 6, 6, 4), (3, 3, 4, 2), 3, 3, {"data_layout": "NHWC", "kernel_layout": "HWOI", "groups": 4}),
    ("conv1d", (1, 4, 6), (6, 4, 3), 1, 1, {}),
    ("conv3d", (1, 2, 4, 4, 4), (3, 2, 2, 2, 2), 1, 1, {}),
    ("conv2d_transpose", (1, 4, 5, 5), (4, 3, 3, 3), 1, 1, {"strides": (2, 2)}),
    ("conv2d_transpose", (1, 4, 5, 5), (4, 3, 3, 3), 1, 1, {"groups": 2}),
    ("dense", (5, 4), (6, 4), 1, 1, {}),
]


def numbers(*shape):
    return RNG.uniform(0.5, 2.0, shape).astype("float32")


def along(channels, axis, ndim):
    return relay.const(channels.reshape(-1, *(1,) * (ndim - axis - 1)))


def linear(case, data=None):
    name, data_shape, weight_shape, _, _, attrs = case
    x = relay.var("x", shape=data_shape)
    weight = relay.const(numbers(*weight_shape) - 1)
    call = getattr(relay.nn, name)(x if data is None else data(x), weight, **attrs)
    call.span = Span.named("Conv_1")
    return x, call, infer_expr(call).concrete_shape


def run(body, *params, step=None):
    mod = relay.IRModule({"main": relay.Function(params, body)})
    return check_same(relay.transform.InferType()(mod), step or transform.FoldScaleAxis(), rtol=1e-4)


@pytest.mark.parametrize("case", LINEAR, ids=lambda c: f"{c[0]}-{c[5]}")
def test_a_scale_of_the_output_goes_into_the_weights(case):
    x, call, shape = linear(case)
    scaled = relay.multiply(call, along(numbers(shape[case[3]]) - 1, case[3], len(shape)))
    scaled.span = Span.named("Mul_2")
    after = run(scaled, x)
    assert calls_of(after["main"]) == [f"nn.{case[0]}"]
    assert {"Conv_1", "Mul_2"} <= names_in(after)


@pytest.mark.parametrize("case", LINEAR, ids=lambda c: f"{c[0]}-{c[5]}")
def test_a_scale_of_the_input_goes_into_the_weights(case):
    scale = numbers(case[1][case[4]]) - 1
    x, call, _ = linear(case, lambda x: relay.multiply(along(scale, case[4], len(case[1])), x))
    assert calls_of(run(call, x)["main"]) == [f"nn.{case[0]}"]


def test_a_scalar_scale_is_one_of_every_channel():
    x, call, _ = linear(LINEAR[0])
    assert calls_of(run(relay.multiply(relay.const(0.5), call), x)["main"]) == ["nn.conv2d"]


def test_a_bias_on_the_way_is_scaled_too():
    x, call, _ = linear(LINEAR[0])
    biased = relay.add(call, along(numbers(6), 1, 4))
    after = run(relay.multiply(biased, along(numbers(6) - 1, 1, 4)), x)
    assert calls_of(after["main"]) == ["nn.conv2d", "add"]


def test_two_scales_are_folded_one_after_the_other():
    x, call, _ = linear(LINEAR[0])
    body = relay.multiply(relay.add(relay.multiply(call, relay.const(2.0)), along(numbers(6), 1, 4)), relay.const(3.0))
    assert calls_of(run(body, x)["main"]) == ["nn.conv2d", "add"]


def test_a_result_that_is_used_twice_keeps_its_scale():
    x, call, _ = linear(LINEAR[0])
    scaled = relay.multiply(call, relay.const(2.0))
    assert "multiply" in calls_of(run(relay.add(scaled, call), x)["main"])


def test_a_result_that_is_an_output_keeps_its_scale():
    x, call, _ = linear(LINEAR[0])
    assert "multiply" in calls_of(run(relay.Tuple([relay.multiply(call, relay.const(2.0)), call]), x)["main"])


def test_a_scaled_input_that_is_used_twice_stays():
    x = relay.var("x", shape=(1, 4, 6, 6))
    scaled = relay.multiply(x, relay.const(2.0))
    call = relay.nn.conv2d(scaled, relay.const(numbers(6, 4, 3, 3)))
    assert "multiply" in calls_of(run(relay.Tuple([call, scaled]), x)["main"])


def test_a_scale_that_varies_along_another_axis_stays():
    x, call, shape = linear(LINEAR[0])
    assert "multiply" in calls_of(run(relay.multiply(call, relay.const(numbers(shape[2], shape[3]))), x)["main"])


def test_weights_that_are_no_constant_stay():
    x, w = relay.var("x", shape=(1, 4, 6, 6)), relay.var("w", shape=(6, 4, 3, 3))
    assert "multiply" in calls_of(run(relay.multiply(relay.nn.conv2d(x, w), relay.const(2.0)), x, w)["main"])


def test_the_directions_can_be_asked_for_alone():
    x, call, _ = linear(LINEAR[0], lambda x: relay.multiply(x, along(numbers(4), 1, 4)))
    body = relay.multiply(call, along(numbers(6), 1, 4))
    steps = {
        transform.BackwardFoldScaleAxis: ["multiply", "nn.conv2d"],
        transform.ForwardFoldScaleAxis: ["nn.conv2d", "multiply"],
    }
    for make, left in steps.items():
        step = Sequential([make(), transform.FoldConstant()])
        assert calls_of(run(body, x, step=step)["main"]) == left


@pytest.mark.parametrize(("low", "left"), [(0.5, ["nn.relu"]), (-2.0, ["nn.relu", "multiply"])])
def test_a_scale_passes_relu_only_if_it_is_positive(low, left):
    x, call, _ = linear(LINEAR[0])
    scale = along(RNG.uniform(low, low + 1, 6).astype("float32"), 1, 4)
    assert calls_of(run(relay.multiply(relay.nn.relu(call), scale), x)["main"]) == ["nn.conv2d", *left]


def batch_norm(data, channels, axis=1, **attrs):
    args = [relay.const(numbers(channels)) for _ in range(4)]
    return relay.nn.batch_norm(data, *args, axis=axis, **attrs)[0]


@pytest.mark.parametrize("case", LINEAR[:-1], ids=lambda c: f"{c[0]}-{c[5]}")
def test_a_batch_norm_after_a_convolution_leaves_a_bias(case):
    x, call, shape = linear(case)
    after = run(batch_norm(call, shape[case[3]], case[3]), x, step=BATCH_NORM_PASSES)
    assert calls_of(after["main"]) == [f"nn.{case[0]}", "add"]


def test_a_batch_norm_after_a_biased_convolution_leaves_one_bias():
    x, call, _ = linear(LINEAR[0])
    biased = relay.nn.bias_add(call, relay.const(numbers(6)), axis=1)
    after = run(batch_norm(biased, 6), x, step=BATCH_NORM_PASSES)
    assert calls_of(after["main"]) == ["nn.conv2d", "nn.bias_add"]


@pytest.mark.parametrize("attrs", [{}, {"scale": False}, {"center": False}, {"epsilon": 0.1}])
def test_a_batch_norm_is_arithmetic(attrs):
    x = relay.var("x", shape=(2, 4, 3, 3))
    after = run(batch_norm(x, 4, **attrs), x, step=transform.SimplifyInference())
    assert "nn.batch_norm" not in calls_of(after["main"])


def test_a_batch_norm_whose_averages_are_read_stays_for_them():
    x = relay.var("x", shape=(2, 4, 3, 3))
    args = [relay.const(numbers(4)) for _ in range(4)]
    result = relay.nn.batch_norm(x, *args)
    after = run(relay.Tuple([result[0], result[1]]), x, step=transform.SimplifyInference())
    assert "nn.batch_norm" in calls_of(after["main"])


def test_the_convolution_read_twice_keeps_its_batch_norm_apart():
    x, call, _ = linear(LINEAR[0])
    after = run(relay.Tuple([batch_norm(call, 6), call]), x, step=BATCH_NORM_PASSES)
    assert "multiply" in calls_of(after["main"])
