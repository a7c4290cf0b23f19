"""ChannelsLast: what moves, what is converted, and that every form computes what the call computes."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from pass_checks import assert_same_numbers, run_passes, typed

from byoc import relay
from byoc.ir.op import OPS, Op
from byoc.relay import transform
from byoc.relay.structure.structural import assert_structural_equal
from byoc.relay.transform.cut.minimum_cut import SINK, SOURCE, Network
from byoc.relay.transform.layout.channels_last import convert_calls
from byoc.relay.transform.layout.choice import choose_channels_last, forms_of
from byoc.relay.transform.layout.forms import channels_last_form, moves_nothing
from byoc.relay.traverse import post_order


def var(name, *shape, dtype="float32"):
    return relay.var(name, shape=shape, dtype=dtype)


def weight(*shape, seed=0):
    return relay.const(np.random.default_rng(seed).standard_normal(shape).astype("float32") * 0.1)


def conv(x, out, channels, kernel=3, **attrs):
    name = {3: relay.nn.conv1d, 4: relay.nn.conv2d, 5: relay.nn.conv3d}[attrs.pop("ndim", 4)]
    return name(x, weight(out, channels, kernel, kernel), padding=(kernel // 2, kernel // 2), **attrs)


def changed(body, *params):
    """The function before and after the pass and what follows it in the pipeline, numbers compared."""
    before = typed(relay.Function(list(params), body))
    after = run_passes(before, transform.ChannelsLast(), transform.FoldConstant(), transform.SimplifyExpr())
    assert_same_numbers(before, after)
    return after


def calls_of(func):
    return [n for n in post_order(func.body) if isinstance(n, relay.Call) and isinstance(n.op, Op)]


def names(func):
    return [c.op.name for c in calls_of(func)]


def only(func, name):
    (found,) = [c for c in calls_of(func) if c.op.name == name]
    return found


X = var("x", 1, 32, 14, 14)


def test_a_convolution_between_an_input_and_an_output_is_converted_at_both_ends():
    after = changed(relay.nn.relu(relay.nn.bias_add(conv(X, 64, 32), weight(64))), X)
    assert names(after) == ["transpose", "nn.conv2d", "nn.bias_add", "nn.relu", "transpose"]
    made = only(after, "nn.conv2d").attrs
    assert (made["data_layout"], made["kernel_layout"]) == ("NHWC", "HWIO")
    assert only(after, "nn.bias_add").attrs["axis"] == 3


def test_a_network_has_conversions_at_its_ends_alone():
    y = relay.nn.relu(conv(X, 64, 32))
    y = relay.add(relay.nn.relu(conv(y, 64, 64)), y)
    y = relay.concatenate([relay.nn.max_pool2d(y, (2, 2), (2, 2)), conv(y, 32, 64, strides=(2, 2))], axis=1)
    y = relay.nn.pad(y, ((0, 0), (0, 0), (1, 1), (1, 1)))
    y = relay.multiply(y, relay.sigmoid(relay.nn.conv2d(relay.nn.global_avg_pool2d(y), weight(96, 96, 1, 1))))
    after = changed(relay.nn.softmax(relay.split(y, 2, axis=1)[1], axis=1), X)
    assert names(after).count("transpose") == 2
    assert only(after, "concatenate").attrs["axis"] == only(after, "split").attrs["axis"] == 3


def test_global_pooling_makes_the_flatten_free():
    y = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(conv(X, 64, 32)))
    after = changed(relay.nn.dense(y, weight(10, 64)), X)
    assert names(after).count("transpose") == 1


@pytest.mark.parametrize("flatten", [relay.nn.batch_flatten, lambda y: relay.reshape(y, (0, -1))])
def test_weights_behind_a_flatten_take_the_order_of_the_channels(flatten):
    x = var("x", 2, 32, 6, 5)
    y = flatten(relay.nn.relu(conv(x, 16, 32)))
    both = relay.Tuple([relay.nn.dense(y, weight(7, 480)), relay.nn.dense(y, weight(3, 480, seed=1))])
    assert names(changed(both, x)).count("transpose") == 1
    read = relay.Tuple([relay.nn.dense(y, weight(7, 480)), y])
    assert names(changed(read, x)).count("transpose") == 2


def test_an_input_of_one_channel_is_converted_for_nothing():
    x = var("x", 1, 1, 28, 28)
    after = changed(relay.nn.global_avg_pool2d(conv(x, 64, 1)), x)
    assert "transpose" not in names(after) and "reshape" in names(after)


def test_transposes_that_say_channels_last_are_gone():
    def block(y, seed):
        z = relay.nn.conv2d(y, weight(32, 1, 7, 7, seed=seed), padding=(3, 3), groups=32)
        z = relay.nn.layer_norm(relay.transpose(z, (0, 2, 3, 1)), weight(32), weight(32), axis=-1)
        z = relay.reshape(relay.nn.dense(relay.reshape(z, (-1, 32)), weight(32, 32, seed=seed)), (1, 14, 14, 32))
        return relay.add(relay.multiply(relay.transpose(z, (0, 3, 1, 2)), weight(32, 1, 1)), y)

    after = changed(relay.nn.global_avg_pool2d(block(block(X, 1), 2)), X)
    assert names(after).count("transpose") == 1


def test_a_value_that_a_transpose_shares_with_another_reader_is_turned_for_the_one_alone():
    x, y = var("x", 1, 8, 9, 10), var("y", 1, 9, 10, 8)
    twice = relay.multiply(y, relay.const(2.0, "float32"))
    both = relay.Tuple([relay.add(conv(x, 16, 8), conv(x, 16, 8)), relay.transpose(twice, (0, 3, 1, 2)), twice])
    body = typed(relay.Function([x, y], both))
    assert_same_numbers(body, run_passes(body, transform.ChannelsLast()))


def test_spatial_axes_may_be_joined_with_the_channels_innermost():
    tokens = relay.transpose(relay.reshape(conv(X, 64, 32), (1, 64, 196)), (0, 2, 1))
    after = changed(tokens, X)
    assert names(after) == ["transpose", "nn.conv2d", "reshape"]


def test_a_value_is_converted_once_for_all_that_use_it():
    y = conv(X, 64, 32)
    after = changed(relay.Tuple([relay.reshape(y, (64, -1)), relay.reshape(y, (-1,)), y]), X)
    assert names(after).count("transpose") == 2


def test_a_convolution_that_gains_less_than_its_conversions_stays():
    x = var("x", 1, 8, 64, 64)
    func = typed(relay.Function([x], conv(x, 1, 8, 1)))
    assert_structural_equal(run_passes(func, transform.ChannelsLast()), func)


def test_what_has_no_windows_stays_as_it_is():
    func = typed(relay.Function([X], relay.transpose(relay.nn.softmax(X, axis=1), (0, 2, 3, 1))))
    assert_structural_equal(run_passes(func, transform.ChannelsLast()), func)


def test_a_region_of_another_compiler_sees_what_it_saw():
    p = var("p", 1, 64, 14, 14)
    region = relay.Function([p], conv(p, 64, 64)).with_attr({"Compiler": "acme", "Primitive": 1})
    body = conv(relay.Call(region, [conv(X, 64, 32)]), 64, 64)
    after = run_passes(relay.Function([X], body), transform.ChannelsLast(), transform.FoldConstant())
    assert names(after).count("transpose") == 4
    assert [c.attrs["data_layout"] for c in calls_of(after) if c.op.name == "nn.conv2d"].count("NCHW") == 1


def test_sizes_that_are_named_are_converted_too():
    x = var("x", relay.Any("n"), 32, relay.Any("h"), relay.Any("h"))
    after = changed(relay.nn.relu(conv(relay.nn.relu(conv(x, 64, 32)), 64, 64)), x)
    assert names(after).count("transpose") == 2


WINDOWS = [
    pytest.param(op, k, id=f"{name}-{k}")
    for name, op in ((n, OPS[n]) for n in OPS)
    for k in range(len(op.samples))
    if op.compute is not None and op.rel is not None
]


def sample_call(op, sample):
    arrays, params = sample.arrays(), []

    def leaf(array):
        params.append(var(f"v{len(params)}", *array.shape, dtype=str(array.dtype)))
        return params[-1]

    args = [relay.Tuple([leaf(a) for a in item]) if isinstance(item, list) else leaf(item) for item in arrays]
    attrs = op.attrs_type(**sample.attrs) if op.attrs_type else None
    return typed(relay.Function(params, relay.Call(op, args, attrs))), arrays


@pytest.mark.parametrize("op, number", WINDOWS)
def test_the_form_of_a_sample_computes_what_the_sample_does(op, number):
    func, arrays = sample_call(op, op.samples[number])
    forms = {c: f for c in calls_of(func) if (f := channels_last_form(c)) is not None}
    if not forms:
        return  # it stays as given
    after = typed(convert_calls(func, forms, frozenset(forms)))
    flat = [a for item in arrays for a in (item if isinstance(item, list) else [item])]
    got, want = (relay.interpreter.evaluate(f, flat) for f in (after, func))
    for a, b in zip(*([v] if not isinstance(v, list) else v for v in (got, want)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_every_kind_of_operator_between_convolutions_has_a_form():
    def form(call):
        func = typed(relay.Function(relay.analysis.free_vars(call), call))
        return channels_last_form(func.body)

    x3, x5 = var("x", 1, 8, 10), var("x", 1, 8, 6, 6, 6)
    calls = [
        relay.nn.conv1d(x3, weight(8, 8, 3)),
        relay.nn.conv3d(x5, weight(8, 8, 3, 3, 3)),
        relay.nn.conv1d_transpose(x3, weight(8, 8, 3)),
        relay.nn.conv3d_transpose(x5, weight(8, 8, 3, 3, 3)),
        relay.nn.conv2d_transpose(X, weight(32, 8, 3, 3)),
        relay.nn.adaptive_avg_pool2d(X, (3, 3)),
        relay.nn.avg_pool1d(x3, 2),
        relay.nn.max_pool3d(x5, 2),
        relay.nn.upsampling(X, 2, 2),
        relay.image.resize2d(X, (20, 20)),
        relay.nn.instance_norm(X, weight(32), weight(32)),
        relay.nn.prelu(X, weight(32)),
        relay.nn.lrn(X),
        relay.mean(X, (2, 3)),
        relay.strided_slice(X, [0, 1], [1, 9]),
        relay.nn.depth_to_space(X, 2),
        relay.nn.group_norm(X, weight(32), weight(32), 4),
        relay.where(relay.greater(X, relay.const(0.0)), X, relay.const(0.0)),
    ]
    missing = [c.op.name for c in calls if form(c) is None]
    assert missing == []


def test_a_conversion_of_dimensions_of_one_moves_nothing():
    assert moves_nothing((1, 64, 1, 1), (0, 1, 2, 3), (0, 2, 3, 1))
    assert moves_nothing((4, 1, 7, 7), (0, 1, 2, 3), (0, 2, 3, 1))
    assert not moves_nothing((1, 64, 1, 7), (0, 1, 2, 3), (0, 2, 3, 1))


def test_a_cut_goes_through_the_narrowest_edge():
    network = Network()
    a, b = network.add_node(), network.add_node()
    for start, end, capacity in ((SOURCE, a, 9), (a, b, 1), (b, SINK, 9)):
        network.add_edge(start, end, capacity)
    assert network.sink_side() == {b, SINK}


@pytest.mark.parametrize("seed", range(20))
def test_the_choice_is_the_cheapest_of_all(seed):
    """Against every subset of a small random network."""
    rng = random.Random(seed)
    count = 6
    edges = [(rng.randrange(count), rng.randrange(count), rng.randrange(10)) for _ in range(12)]
    edges = [(a, b, c) for a, b, c in edges if a != b]
    network = Network()
    for _ in range(count - 2):
        network.add_node()
    for edge in edges:
        network.add_edge(*edge)
    sides = [{SINK, *extra} for r in range(count - 1) for extra in itertools.combinations(range(2, count), r)]
    best = min(sides, key=lambda s: (sum(c for a, b, c in edges if a not in s and b in s), len(s)))
    assert network.sink_side() == best


def test_the_choice_does_not_depend_on_hashes():
    func = typed(relay.Function([X], relay.nn.relu(conv(conv(X, 64, 32), 64, 64))))
    forms = forms_of(func.body)
    assert list(forms) == [c for c in calls_of(func) if c in forms]
    assert choose_channels_last(func.body, forms) == frozenset(forms)
