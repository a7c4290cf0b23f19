"""CombineParallelConv2D, CombineParallelDense and CombineParallelBatchMatmul: structure, numbers, and refusals."""

from __future__ import annotations

import pytest
from pass_checks import assert_same_numbers, check, run_passes, typed
from random_graphs import calls_of

from byoc import relay
from byoc.relay import transform
from byoc.relay.structure.structural import assert_structural_equal


def data(*shape, name="x"):
    return relay.var(name, shape=shape)


def take(y, axis, start, size):
    return relay.strided_slice(
        y, begin=[0] * axis + [start], end=[-1] * axis + [size], strides=[1] * (axis + 1), slice_mode="size"
    )


def test_convolutions_of_one_window_become_one_and_others_stay():
    x = data(1, 4, 8, 8)
    w = [data(k, 4, s, s, name=f"w{k}") for k, s in ((4, 1), (6, 1), (3, 3), (5, 1))]
    params = [x, *w]
    y = [relay.nn.conv2d(x, k) for k in w[:2]] + [relay.nn.conv2d(x, w[2], padding=(1, 1)), relay.nn.conv2d(x, w[3])]
    before = relay.Function(params, relay.Tuple(y))
    one = relay.nn.conv2d(x, relay.concatenate((w[0], w[1], w[3]), axis=0), channels=15)
    shares = [take(one, 1, 0, 4), take(one, 1, 4, 6), relay.nn.conv2d(x, w[2], padding=(1, 1)), take(one, 1, 10, 5)]
    expected = relay.Function(params, relay.Tuple(shares))
    after = check(before, transform.CombineParallelConv2D(min_num_branches=2), expected)
    assert calls_of(after).count("nn.conv2d") == 2


@pytest.mark.parametrize("layouts", [("NCHW", "OIHW"), ("NHWC", "HWIO")])
def test_broadcasts_that_follow_are_combined_with_their_operands(layouts):
    nchw = layouts[0] == "NCHW"
    x = data(*((1, 4, 6, 6) if nchw else (1, 6, 6, 4)))
    w1, w2 = (data(*((k, 4, 1, 1) if nchw else (1, 1, 4, k)), name=f"w{k}") for k in (3, 5))
    s1, s2 = (data(*((k, 1, 1) if nchw else (k,)), name=f"s{k}") for k in (3, 5))
    options = dict(zip(("data_layout", "kernel_layout"), layouts, strict=True))

    def branch(w, s):
        return relay.nn.relu(relay.multiply(relay.nn.conv2d(x, w, **options), s))

    params = [x, w1, w2, s1, s2]
    before = relay.Function(params, relay.Tuple((branch(w1, s1), branch(w2, s2))))
    w = relay.concatenate((w1, w2), axis=0 if nchw else 3)
    y = relay.nn.conv2d(x, w, channels=8, **options)
    y = relay.nn.relu(relay.multiply(y, relay.concatenate((s1, s2), axis=0)))
    axis = 1 if nchw else 3
    expected = relay.Function(params, relay.Tuple((take(y, axis, 0, 3), take(y, axis, 3, 5))))
    check(before, transform.CombineParallelConv2D(2), expected)


def test_a_scale_without_the_channel_axis_ends_the_combination():
    x, w1, w2, s1, s2 = data(1, 4, 6, 6), data(3, 4, 1, 1, name="a"), data(5, 4, 1, 1, name="b"), data(1), data(1)

    def branch(w, s):
        return relay.multiply(relay.nn.conv2d(x, w), s)

    params = [x, w1, w2, s1, s2]
    before = relay.Function(params, relay.Tuple((branch(w1, s1), branch(w2, s2))))
    y = relay.nn.conv2d(x, relay.concatenate((w1, w2), axis=0), channels=8)
    y1, y2 = relay.multiply(take(y, 1, 0, 3), s1), relay.multiply(take(y, 1, 3, 5), s2)
    check(before, transform.CombineParallelConv2D(2), relay.Function(params, relay.Tuple((y1, y2))))


def test_blocks_one_after_another_are_each_combined():
    x, w = data(1, 4, 6, 6), data(4, 4, 1, 1, name="w")
    y = x
    for _ in range(4):
        y = relay.concatenate((relay.nn.conv2d(y, w), relay.nn.conv2d(y, w)), axis=1)
        y = relay.strided_slice(y, begin=[0, 0], end=[1, 4])
    z = x
    for _ in range(4):
        c = relay.nn.conv2d(z, relay.concatenate((w, w), axis=0), channels=8)
        z = relay.concatenate((take(c, 1, 0, 4), take(c, 1, 4, 4)), axis=1)
        z = relay.strided_slice(z, begin=[0, 0], end=[1, 4])
    check(relay.Function([x, w], y), transform.CombineParallelConv2D(2), relay.Function([x, w], z))


def test_too_few_branches_and_grouped_convolutions_stay():
    x, w1, w2 = data(1, 4, 6, 6), data(3, 4, 1, 1, name="a"), data(5, 4, 1, 1, name="b")
    two = relay.Function([x, w1, w2], relay.Tuple((relay.nn.conv2d(x, w1), relay.nn.conv2d(x, w2))))
    assert_structural_equal(run_passes(two, transform.CombineParallelConv2D()), typed(two))
    g = data(4, 1, 3, 3, name="g")
    grouped = relay.Function([x, g], relay.Tuple([relay.nn.conv2d(x, g, groups=4) for _ in range(3)]))
    assert_structural_equal(run_passes(grouped, transform.CombineParallelConv2D()), typed(grouped))


def test_branches_that_wait_for_each_other_stay():
    x, w = data(1, 4, 6, 6), data(4, 4, 1, 1, name="w")
    first = relay.nn.conv2d(x, w)
    kernel = relay.reshape(relay.strided_slice(first, [0, 0, 0, 0], [1, 4, 2, 2]), (4, 4, 1, 1))
    func = relay.Function([x, w], relay.Tuple((first, relay.nn.conv2d(x, kernel))))
    assert_structural_equal(run_passes(func, transform.CombineParallelConv2D(2)), typed(func))


def test_dense_of_one_shape_become_a_batched_product():
    x = data(3, 4)
    w1, w2, w3 = data(5, 4, name="a"), data(5, 4, name="b"), data(6, 4, name="c")
    b1, b2 = data(5, name="d"), data(5, name="e")

    def branch(w, b):
        return relay.add(relay.nn.dense(x, w), b)

    params = [x, w1, w2, w3, b1, b2]
    before = relay.Function(params, relay.Tuple((branch(w1, b1), branch(w2, b2), relay.nn.dense(x, w3))))
    y = relay.nn.batch_matmul(relay.stack((x, x), axis=0), relay.stack((w1, w2), axis=0))
    y = relay.add(y, relay.stack((relay.expand_dims(b1, 0), relay.expand_dims(b2, 0)), axis=0))
    y1, y2 = relay.split(y, 2)
    parts = relay.Tuple((relay.squeeze(y1, [0]), relay.squeeze(y2, [0]), relay.nn.dense(x, w3)))
    check(before, transform.CombineParallelDense(min_num_branches=2), relay.Function(params, parts))


def test_a_scalar_operand_of_a_batched_product_broadcasts_as_before():
    x, w1, w2 = data(3, 2), data(2, 2, name="a"), data(2, 2, name="b")
    s1, s2 = relay.var("s", shape=()), relay.var("t", shape=())
    pair = relay.Tuple((relay.multiply(relay.nn.dense(x, w1), s1), relay.multiply(relay.nn.dense(x, w2), s2)))
    before = relay.Function([x, w1, w2, s1, s2], pair)
    after = run_passes(before, transform.CombineParallelDense(2))
    assert calls_of(after).count("multiply") == 1
    assert_same_numbers(typed(before), after)


def test_dense_of_any_number_of_units_become_one_dense():
    x, j = data(3, 4), 2
    w1, w2, w3 = (data(k * j, 4, name=f"w{k}") for k in (1, 2, 3))
    before = relay.Function([x, w1, w2, w3], relay.Tuple([relay.nn.dense(x, w) for w in (w1, w2, w3)]))
    y = relay.nn.dense(x, relay.concatenate((w1, w2, w3), axis=0), units=6 * j)
    parts = relay.Tuple((take(y, 1, 0, j), take(y, 1, j, 2 * j), take(y, 1, 3 * j, 3 * j)))
    check(before, transform.CombineParallelDense(3, to_batch=False), relay.Function([x, w1, w2, w3], parts))


def test_scales_of_one_element_are_repeated_beside_each_other():
    x, j = data(3, 4), 2
    w1, w2, b1, b2 = data(j, 4, name="a"), data(2 * j, 4, name="b"), data(j, name="c"), data(2 * j, name="d")
    s1, s2 = data(1, name="e"), data(1, name="f")

    def branch(w, b, s):
        y = relay.multiply(relay.add(relay.nn.dense(x, w), b), s)
        return relay.reshape(y, (1, 3, -1))

    params = [x, w1, w2, b1, b2, s1, s2]
    before = relay.Function(params, relay.Tuple((branch(w1, b1, s1), branch(w2, b2, s2))))
    y = relay.nn.dense(x, relay.concatenate((w1, w2), axis=0), units=3 * j)
    y = relay.add(y, relay.concatenate((b1, b2), axis=0))
    scales = relay.concatenate((relay.repeat(s1, j, 0), relay.repeat(s2, 2 * j, 0)), axis=0)
    y = relay.multiply(y, scales)
    parts = relay.Tuple([relay.reshape(take(y, 1, k, n), (1, 3, -1)) for k, n in ((0, j), (j, 2 * j))])
    check(before, transform.CombineParallelDense(2, to_batch=False), relay.Function(params, parts))


def test_batched_products_and_their_biases_become_one():
    x = data(2, 3, 4)
    w = [data(2, k, 4, name=f"w{k}") for k in (2, 5, 1)]
    b = [data(2, 1, k, name=f"b{k}") for k in (2, 5, 1)]
    params = [x, *w, *b]
    sums = [relay.add(relay.nn.batch_matmul(x, p), q) for p, q in zip(w, b, strict=True)]
    y = relay.add(relay.nn.batch_matmul(x, relay.concatenate(w, axis=1)), relay.concatenate(b, axis=-1))
    parts = relay.Tuple((take(y, 2, 0, 2), take(y, 2, 2, 5), take(y, 2, 7, 1)))
    before = relay.Function(params, relay.Tuple(sums))
    check(before, transform.CombineParallelBatchMatmul(3), relay.Function(params, parts))


def test_transposed_batched_products_stay():
    x, w = data(2, 3, 4), data(2, 4, 5, name="w")
    y = [relay.nn.batch_matmul(x, w, transpose_b=False) for _ in range(3)]
    func = relay.Function([x, w], relay.Tuple(y))
    assert_structural_equal(run_passes(func, transform.CombineParallelBatchMatmul()), typed(func))


def test_the_passes_run_from_level_four():
    for make in (transform.CombineParallelConv2D, transform.CombineParallelDense, transform.CombineParallelBatchMatmul):
        assert make().info.opt_level == 4
