"""DivToMul, FastMath and FlattenAtrousConv."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same_numbers, run_passes, typed
from random_graphs import calls_of

from byoc import relay
from byoc.relay import transform
from byoc.relay.interpreter import evaluate
from byoc.relay.structure.structural import assert_structural_equal
from byoc.runtime.kernels import get_kernel


@pytest.mark.parametrize("dtype, rtol", [("float16", 1e-3), ("float32", 1e-7), ("float64", 1e-12)])
def test_division_by_a_constant_becomes_a_product_with_its_reciprocal(dtype, rtol):
    x = relay.var("x", relay.TensorType((), dtype))
    after = run_passes(relay.Function([x], x / relay.const([1.5], dtype)), transform.DivToMul())
    assert after.body.op.name == "multiply"
    assert after.body.args[1].data.dtype == dtype
    np.testing.assert_allclose(after.body.args[1].data.numpy()[0], 1 / 1.5, rtol=rtol)


@pytest.mark.parametrize("divisor", [np.array([2, 3], "int32"), np.array([1.0, 0.0], "float32")])
def test_integers_and_zeros_are_still_divided_by(divisor):
    x = relay.var("x", shape=(2,), dtype=str(divisor.dtype))
    func = relay.Function([x], relay.divide(x, relay.const(divisor)))
    assert_structural_equal(run_passes(func, transform.DivToMul()), typed(func))


FAST = {"exp": "fast_exp", "tanh": "fast_tanh", "erf": "fast_erf"}


@pytest.mark.parametrize("name", FAST)
def test_fast_math_replaces_a_function_and_stays_close(name):
    x = relay.var("x", shape=(200,))
    before = typed(relay.Function([x], getattr(relay, name)(x)))
    after = run_passes(before, transform.FastMath())
    assert calls_of(after) == [FAST[name]]
    array = np.linspace(-10, 10, 200, dtype="float32")
    np.testing.assert_allclose(evaluate(after, [array]), evaluate(before, [array]), rtol=3e-6, atol=3e-6)


def test_fast_softmax_keeps_its_axis_and_stays_close():
    x = relay.var("x", shape=(2, 5, 3))
    before = typed(relay.Function([x], relay.nn.softmax(x, axis=1)))
    after = run_passes(before, transform.FastMath())
    assert calls_of(after) == ["nn.fast_softmax"] and after.body.attrs.axis == 1
    assert_same_numbers(before, after, rtol=1e-5)


def test_fast_math_runs_from_level_four_or_where_it_is_required():
    x = relay.var("x", shape=(3,))
    func = relay.Function([x], relay.exp(x))
    assert calls_of(run_passes(func, transform.FastMath(), opt_level=3)) == ["exp"]
    assert calls_of(run_passes(func, transform.FastMath(), opt_level=3, required_pass=["FastMath"])) == ["fast_exp"]


@pytest.mark.parametrize("name, exact", [("fast_exp", np.exp), ("fast_tanh", np.tanh)])
def test_fast_functions_hold_at_the_ends_of_their_range(name, exact):
    x = np.array([-87.0, -9.5, -1e-6, 0.0, 1e-6, 9.5, 87.0], "float32")
    np.testing.assert_allclose(get_kernel(name)(x), exact(x.astype("float64")), rtol=4e-6, atol=1e-37)


def atrous(block=2, paddings=((2, 3), (2, 3)), crops=((0, 1), (0, 1)), size=5, padding=(0, 0, 0, 0), strides=(1, 1)):
    x = relay.var("x", shape=(1, size, size, 4))
    w = relay.var("w", shape=(3, 3, 4, 1))
    y = relay.nn.space_to_batch_nd(x, block_shape=[block] * 2, paddings=[list(p) for p in paddings])
    y = relay.nn.conv2d(
        y,
        w,
        strides=strides,
        padding=padding,
        groups=4,
        channels=4,
        kernel_size=[3, 3],
        data_layout="NHWC",
        kernel_layout="HWOI",
    )
    y = relay.nn.batch_to_space_nd(y, block_shape=[block] * 2, crops=[list(c) for c in crops])
    return relay.Function([x, w], y)


@pytest.mark.parametrize(
    "options, padding",
    [
        ({}, (2, 2, 2, 2)),
        ({"block": 4, "paddings": ((4, 7), (4, 7)), "crops": ((0, 3), (0, 3))}, (4, 4, 4, 4)),
        ({"paddings": ((0, 1), (0, 1)), "crops": ((0, 1), (0, 1))}, (0, 0, 0, 0)),
        ({"paddings": ((3, 2), (4, 1)), "crops": ((1, 0), (2, 1))}, (2, 2, 2, 0)),
        ({"paddings": ((0, 1), (0, 1)), "crops": ((0, 1), (0, 1)), "padding": (1, 1, 1, 1)}, (2, 2, 2, 2)),
    ],
)
def test_a_convolution_spread_over_the_batch_becomes_dilated(options, padding):
    before = typed(atrous(**options))
    after = run_passes(before, transform.FlattenAtrousConv())
    block = options.get("block", 2)
    assert calls_of(after) == ["nn.conv2d"]
    assert after.body.attrs.dilation == (block, block) and after.body.attrs.padding == padding
    assert_same_numbers(before, after)


@pytest.mark.parametrize(
    "options",
    [
        {"strides": (2, 2), "size": 9, "paddings": ((2, 3), (2, 3)), "crops": ((0, 0), (0, 0))},
        {"paddings": ((0, 1), (0, 1)), "crops": ((1, 0), (0, 1))},
    ],
)
def test_a_convolution_that_is_no_dilated_one_stays(options):
    before = typed(atrous(**options))
    assert_structural_equal(run_passes(before, transform.FlattenAtrousConv()), before)


def test_a_quantized_convolution_spread_over_the_batch_becomes_dilated_if_the_fill_is_its_zero_point():
    x, w = relay.var("x", shape=(1, 5, 5, 4), dtype="int8"), relay.var("w", shape=(3, 3, 4, 1), dtype="int8")

    def network(fill):
        y = relay.nn.space_to_batch_nd(x, block_shape=[2, 2], paddings=[[2, 3], [2, 3]], pad_value=fill)
        y = relay.qnn.op.conv2d(
            y,
            w,
            relay.const(3),
            relay.const(0),
            relay.const(1.0),
            relay.const(1.0),
            groups=4,
            channels=4,
            kernel_size=(3, 3),
            data_layout="NHWC",
            kernel_layout="HWOI",
        )
        return typed(relay.Function([x, w], relay.nn.batch_to_space_nd(y, block_shape=[2, 2], crops=[[0, 1], [0, 1]])))

    after = run_passes(network(3), transform.FlattenAtrousConv())
    assert calls_of(after) == ["qnn.conv2d"] and after.body.attrs.padding == (2, 2, 2, 2)
    assert_same_numbers(network(3), after, low=-9, high=9)
    assert_structural_equal(run_passes(network(0), transform.FlattenAtrousConv()), network(0))
