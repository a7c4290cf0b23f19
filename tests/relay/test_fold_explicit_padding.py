"""FoldExplicitPadding and CanonicalizeCast."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same_numbers, check, run_passes, typed
from random_graphs import calls_of

from byoc import relay
from byoc.relay import transform
from byoc.relay.structure.structural import assert_structural_equal

CONVS = {1: relay.nn.conv1d, 2: relay.nn.conv2d, 3: relay.nn.conv3d}
LEAST = float(np.finfo("float32").min)


def conv_case(n, width, own, channels_last, value=0.0, mode="constant"):
    spatial = "DHW"[3 - n :]
    layout = f"N{spatial}C" if channels_last else f"NC{spatial}"
    shape = [{"N": 1, "C": 3}.get(axis, 6) for axis in layout]
    kernel = [3] * n + [3, 4] if channels_last else [4, 3] + [3] * n
    x, w = relay.var("x", shape=shape), relay.var("w", shape=kernel)
    options = {"data_layout": layout, "kernel_layout": f"{spatial}IO" if channels_last else f"OI{spatial}"}
    widths = [[0, 0] if axis in "NC" else width for axis in layout]
    padded = relay.nn.pad(x, widths, value, mode)
    before = relay.Function([x, w], CONVS[n](padded, w, padding=own * n, **options))
    sides = [width[side] + (own * n)[side * n + k] for side in (0, 1) for k in range(n)]
    return before, relay.Function([x, w], CONVS[n](x, w, padding=sides, **options))


@pytest.mark.parametrize("own", [[0, 0], [2, 0], [0, 2]])
@pytest.mark.parametrize("width", [[0, 0], [1, 1], [1, 0]])
@pytest.mark.parametrize("n, channels_last", [(1, False), (2, False), (2, True), (3, True)])
def test_zeros_before_a_convolution_become_its_padding(n, channels_last, width, own):
    check(*(lambda b, e: (b, transform.FoldExplicitPadding(), e))(*conv_case(n, width, own, channels_last)))


@pytest.mark.parametrize("options", [{"value": 1.0}, {"mode": "edge"}])
def test_another_padding_before_a_convolution_stays(options):
    before, _ = conv_case(2, [1, 1], [0, 0], False, **options)
    assert_structural_equal(run_passes(before, transform.FoldExplicitPadding()), typed(before))


def test_padded_channels_stay():
    x, w = relay.var("x", shape=(1, 3, 6, 6)), relay.var("w", shape=(4, 4, 3, 3))
    before = relay.Function([x, w], relay.nn.conv2d(relay.nn.pad(x, ((0, 0), (0, 1), (1, 1), (1, 1))), w))
    assert_structural_equal(run_passes(before, transform.FoldExplicitPadding()), typed(before))


def test_the_zero_point_before_a_quantized_convolution_becomes_its_padding():
    x, w = relay.var("x", shape=(1, 3, 6, 6), dtype="int8"), relay.var("w", shape=(4, 3, 3, 3), dtype="int8")
    rest = [relay.const(5), relay.const(1), relay.const(1.0), relay.const(1.0)]
    options = {"channels": 4, "kernel_size": (3, 3)}
    pads = ((0, 0), (0, 0), (1, 2), (1, 0))
    before = relay.qnn.op.conv2d(relay.nn.pad(x, pads, 5), w, *rest, padding=(0, 1, 0, 0), **options)
    expected = relay.qnn.op.conv2d(x, w, *rest, padding=(1, 2, 2, 0), **options)
    params = [x, w]
    check(
        relay.Function(params, before),
        transform.FoldExplicitPadding(),
        relay.Function(params, expected),
        low=-9,
        high=9,
    )
    other = relay.Function(params, relay.qnn.op.conv2d(relay.nn.pad(x, pads, 0), w, *rest, **options))
    assert_structural_equal(run_passes(other, transform.FoldExplicitPadding()), typed(other))


def pooled(x, pool, value, widths=((0, 0), (0, 0), (1, 0), (1, 1)), **options):
    return relay.Function([x], pool(relay.nn.pad(x, widths, value), pool_size=(3, 3), **options))


X = relay.var("x", shape=(1, 3, 8, 8))


@pytest.mark.parametrize(
    "pool, value, before, after",
    [
        (relay.nn.max_pool2d, LEAST, {"padding": (1, 0, 1, 1)}, {"padding": (2, 1, 1, 2)}),
        (relay.nn.max_pool2d, -np.inf, {"strides": (2, 2)}, {"strides": (2, 2), "padding": (1, 1, 0, 1)}),
        (relay.nn.avg_pool2d, 0.0, {}, {"padding": (1, 1, 0, 1), "count_include_pad": True}),
        (
            relay.nn.avg_pool2d,
            0.0,
            {"padding": (1, 0, 1, 1), "count_include_pad": True},
            {"padding": (2, 1, 1, 2), "count_include_pad": True},
        ),
    ],
)
def test_what_a_pool_would_add_becomes_its_padding(pool, value, before, after):
    expected = relay.Function([X], pool(X, pool_size=(3, 3), **after))
    check(pooled(X, pool, value, **before), transform.FoldExplicitPadding(), expected)


@pytest.mark.parametrize(
    "pool, value, options",
    [
        (relay.nn.max_pool2d, 0.0, {}),
        (relay.nn.avg_pool2d, 0.0, {"padding": (1, 1)}),
        (relay.nn.avg_pool2d, 1.0, {}),
        (relay.nn.max_pool2d, LEAST, {"padding": (2, 2)}),
        (relay.nn.max_pool2d, LEAST, {"ceil_mode": True, "strides": (2, 2)}),
    ],
)
def test_a_padding_that_a_pool_would_not_add_stays(pool, value, options):
    before = pooled(X, pool, value, **options)
    assert_structural_equal(run_passes(before, transform.FoldExplicitPadding()), typed(before))


def test_a_widening_cast_is_made_for_each_light_reader():
    x = relay.var("x", shape=(4, 8), dtype="int8")
    one, two = relay.const(1, "int32"), relay.const(2, "int32")
    wide = relay.cast(x, "int32")
    before = relay.Function([x], relay.Tuple((relay.add(wide, one), relay.multiply(wide, two))))
    pair = relay.add(relay.cast(x, "int32"), one), relay.multiply(relay.cast(x, "int32"), two)
    after = check(before, transform.CanonicalizeCast(), relay.Function([x], relay.Tuple(pair)), low=-9, high=9)
    assert calls_of(after).count("cast") == 2


@pytest.mark.parametrize("dtype", ["int16", "int8"])
def test_a_cast_that_does_not_widen_or_has_heavy_readers_is_shared(dtype):
    x = relay.var("x", shape=(4, 8), dtype="int16")
    cast = relay.cast(x, dtype)
    readers = (relay.add(cast, cast), relay.nn.relu(cast))
    func = relay.Function([x], relay.Tuple(readers))
    assert calls_of(run_passes(func, transform.CanonicalizeCast())).count("cast") == 1
    wide = relay.cast(x, "int32")
    func = relay.Function([x], relay.Tuple((relay.sum(wide, axis=1), relay.max(wide, axis=1))))
    after = run_passes(func, transform.CanonicalizeCast())
    assert calls_of(after).count("cast") == 1
    assert_same_numbers(typed(func), after, low=-9, high=9)
