"""BackwardFoldScaleAxis and ForwardFoldScaleAxis on weights that are parameters: the expressions that Relay makes."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same_numbers, check, run_passes, typed
from random_graphs import calls_of

from byoc import relay
from byoc.relay import transform
from byoc.relay.structure.structural import assert_structural_equal

BACK, FORTH = transform.BackwardFoldScaleAxis, transform.ForwardFoldScaleAxis


def var(name, *shape):
    return relay.var(name, shape=shape)


def scale(*shape, low=0.5, high=2.0):
    return relay.const(np.random.default_rng(7).uniform(low, high, shape).astype("float32"))


def nchw(x, w, **attrs):
    return relay.nn.conv2d(x, w, channels=4, kernel_size=(3, 3), padding=(1, 1), **attrs)


def nhwc(x, w, kernel_layout="HWIO", **attrs):
    return relay.nn.conv2d(
        x, w, channels=4, kernel_size=(3, 3), padding=(1, 1), data_layout="NHWC", kernel_layout=kernel_layout, **attrs
    )


X, W, BIAS = var("x", 1, 4, 6, 6), var("weight", 4, 4, 3, 3), var("bias", 4)
XL, WL = var("x", 1, 6, 6, 4), var("weight", 3, 3, 4, 4)


def scaled_weight(w, squeezed):
    return relay.multiply(w, relay.expand_dims(squeezed, axis=1, num_newaxis=3))


def unchanged(func, step):
    assert_structural_equal(run_passes(func, step()), typed(func))


def test_backward_through_relu_and_a_sum():
    s, b = scale(4, 1, 1), relay.expand_dims(BIAS, axis=1, num_newaxis=2)
    before = relay.multiply(relay.nn.relu(relay.add(nchw(X, W), b)), s)
    squeezed = relay.squeeze(s, axis=[1, 2])
    y = nchw(X, scaled_weight(W, squeezed))
    y = relay.nn.relu(relay.add(y, relay.multiply(b, relay.expand_dims(squeezed, axis=1, num_newaxis=2))))
    check(relay.Function([X, W, BIAS], before), BACK(), relay.Function([X, W, BIAS], y))


def test_backward_through_a_bias():
    s = scale(4, 1, 1)
    before = relay.multiply(relay.nn.relu(relay.nn.bias_add(nchw(X, W), BIAS)), s)
    squeezed = relay.squeeze(s, axis=[1, 2])
    y = relay.nn.relu(relay.nn.bias_add(nchw(X, scaled_weight(W, squeezed)), relay.multiply(BIAS, squeezed)))
    check(relay.Function([X, W, BIAS], before), BACK(), relay.Function([X, W, BIAS], y))


def test_backward_into_two_convolutions_of_a_sum():
    s, w2 = scale(4, 1, 1, low=-2.0), var("w2", 4, 4, 3, 3)
    before = relay.multiply(relay.add(nchw(X, W), nchw(X, w2)), s)
    squeezed = relay.squeeze(s, axis=[1, 2])
    y = relay.add(nchw(X, scaled_weight(W, squeezed)), nchw(X, scaled_weight(w2, squeezed)))
    check(relay.Function([X, W, w2], before), BACK(), relay.Function([X, W, w2], y))


def test_backward_in_blocks():
    x, w, bias = var("x", 1, 2, 6, 6, 2), var("w", 2, 4, 3, 3, 1, 2), var("bias", 4)
    b, s = relay.reshape(bias, (1, 2, 1, 1, 2)), relay.reshape(scale(4), (1, 2, 1, 1, 2))

    def network(weight, bias, factor):
        y = nchw(x, weight, data_layout="NCHW2c", kernel_layout="OIHW1i2o")
        return factor(relay.nn.relu(relay.add(y, bias)))

    squeezed = relay.squeeze(s, axis=[0, 2, 3])
    expected = network(
        relay.multiply(w, relay.reshape(squeezed, (2, 1, 1, 1, 1, 2))),
        relay.multiply(b, relay.reshape(squeezed, (1, 2, 1, 1, 2))),
        lambda y: y,
    )
    before = network(w, b, lambda y: relay.multiply(y, s))
    check(relay.Function([x, w, bias], before), BACK(), relay.Function([x, w, bias], expected))


def test_backward_into_a_dense_and_a_depthwise_convolution():
    x, w, s = var("x", 3, 4), var("w", 5, 4), scale(5)
    expected = relay.nn.dense(x, relay.multiply(w, relay.expand_dims(s, axis=1)))
    check(relay.Function([x, w], relay.multiply(relay.nn.dense(x, w), s)), BACK(), relay.Function([x, w], expected))
    w, s = var("w", 4, 1, 3, 3), scale(4, 1, 1)
    expected = nchw(X, scaled_weight(w, relay.squeeze(s, axis=[1, 2])), groups=4)
    before = relay.multiply(s, nchw(X, w, groups=4))
    check(relay.Function([X, w], before), BACK(), relay.Function([X, w], expected))


def test_of_scales_in_a_row_the_first_is_folded():
    first, second = scale(4, 1, 1), scale(4, 1, 1, low=3.0, high=4.0)
    before = relay.multiply(relay.multiply(nchw(X, W), first), second)
    expected = relay.multiply(nchw(X, scaled_weight(W, relay.squeeze(first, axis=[1, 2]))), second)
    check(relay.Function([X, W], before), BACK(), relay.Function([X, W], expected))


@pytest.mark.parametrize(
    "body",
    [
        lambda: relay.multiply(relay.nn.relu(nchw(X, W)), scale(4, 1, 1, low=-1.0)),
        lambda: relay.multiply(relay.nn.relu(nchw(X, W)), var("s", 4, 1, 1)),
        lambda: relay.multiply(nchw(X, W), scale(1, 4, 6, 6)),
        lambda: relay.multiply(nchw(X, W), scale()),
        lambda: relay.multiply(relay.add(nchw(X, W), X), scale(4, 1, 1)),
        lambda: relay.multiply(nchw(X, var("w", 4, 2, 3, 3), groups=2), scale(4, 1, 1)),
        lambda: (lambda y: relay.add(y, relay.multiply(y, scale(4, 1, 1))))(nchw(X, W)),
        lambda: (lambda y: relay.multiply(relay.add(y, relay.nn.relu(y)), scale(4, 1, 1)))(nchw(X, W)),
    ],
)
def test_what_must_not_go_backward_stays(body):
    expr = body()
    unchanged(relay.Function(relay.analysis.free_vars(expr), expr), BACK)


def test_forward_through_relu_and_a_sum():
    s = scale(4)
    before = nhwc(relay.add(relay.nn.relu(relay.multiply(XL, s)), BIAS), WL)
    weight = relay.multiply(WL, relay.expand_dims(s, axis=1, num_newaxis=1))
    expected = nhwc(relay.add(relay.nn.relu(XL), relay.divide(BIAS, s)), weight)
    check(relay.Function([XL, WL, BIAS], before), FORTH(), relay.Function([XL, WL, BIAS], expected))


def test_forward_into_two_depthwise_convolutions():
    s, w1, w2 = scale(4, low=-2.0), var("w1", 3, 3, 4, 1), var("w2", 3, 3, 4, 1)

    def network(x, weight):
        y = relay.subtract(x, BIAS)
        return [nhwc(y, weight(w), "HWOI", groups=4) for w in (w1, w2)]

    before = relay.Function([XL, w1, w2, BIAS], relay.add(*network(relay.multiply(XL, s), lambda w: w)))
    y = relay.subtract(XL, relay.divide(BIAS, s))
    folded = [
        nhwc(y, relay.multiply(w, relay.expand_dims(s, axis=1, num_newaxis=1)), "HWOI", groups=4) for w in (w1, w2)
    ]
    check(before, FORTH(), relay.Function([XL, w1, w2, BIAS], relay.add(*folded)), rtol=1e-3)


def test_forward_in_blocks():
    x, w, bias = var("x", 1, 6, 6, 2, 2), var("w", 3, 3, 4, 2, 1, 2), var("bias", 1, 1, 1, 2, 2)
    s = relay.reshape(scale(4), (1, 1, 1, 2, 2))

    def network(data, bias, weight):
        y = relay.add(relay.nn.relu(data), bias)
        return relay.nn.conv2d(
            y, weight, channels=4, kernel_size=(3, 3), data_layout="NHWC2c", kernel_layout="HWIO1i2o"
        )

    squeezed = relay.squeeze(s, axis=[0, 1, 2])
    expected = network(
        x,
        relay.divide(bias, relay.reshape(squeezed, (1, 1, 1, 2, 2))),
        relay.multiply(w, relay.reshape(squeezed, (1, 1, 4, 1, 1, 1))),
    )
    before = network(relay.multiply(x, s), bias, w)
    check(relay.Function([x, w, bias], before), FORTH(), relay.Function([x, w, bias], expected))


def test_forward_into_a_dense():
    x, w, s = var("x", 3, 4), var("w", 5, 4), scale(4)
    expected = relay.nn.dense(x, relay.multiply(w, s))
    check(relay.Function([x, w], relay.nn.dense(relay.multiply(x, s), w)), FORTH(), relay.Function([x, w], expected))


@pytest.mark.parametrize(
    "body",
    [
        lambda: nhwc(relay.nn.relu(relay.multiply(XL, scale(4, low=-1.0))), WL),
        lambda: nhwc(relay.nn.relu(relay.multiply(XL, var("s", 4))), WL),
        lambda: (lambda y: relay.add(nhwc(y, WL), y))(relay.multiply(XL, scale(4))),
        lambda: nhwc(relay.multiply(XL, scale(6, 1, 4)), WL),
        lambda: nhwc(relay.multiply(XL, scale(4)), var("w", 3, 3, 2, 4), groups=2),
    ],
)
def test_what_must_not_go_forward_stays(body):
    expr = body()
    unchanged(relay.Function(relay.analysis.free_vars(expr), expr), FORTH)


def test_scales_that_are_parameters_fold_where_no_relu_stands_between():
    s = var("s", 4, 1, 1)
    before = typed(relay.Function([X, W, s], relay.multiply(nchw(X, W), s)))
    after = run_passes(before, BACK())
    assert calls_of(after) == ["squeeze", "expand_dims", "multiply", "nn.conv2d"]
    assert_same_numbers(before, after)


def test_both_directions_leave_constant_weights_alone():
    weight = scale(4, 4, 3, 3)
    body = relay.multiply(nchw(relay.multiply(X, scale(4, 1, 1)), weight), scale(4, 1, 1))
    before = typed(relay.Function([X], body))
    after = run_passes(before, transform.FoldScaleAxis())
    assert calls_of(after) == ["nn.conv2d"] and isinstance(after.body.args[1], relay.Constant)
    assert_same_numbers(before, after)


def test_a_long_chain_takes_linear_time():
    y = X
    for _ in range(400):
        y = relay.nn.relu(relay.multiply(nchw(y, W), scale(4, 1, 1)))
    after = run_passes(relay.Function([X, W], y), transform.BackwardFoldScaleAxis())
    assert calls_of(after).count("multiply") == 400 and calls_of(after).count("expand_dims") == 400
