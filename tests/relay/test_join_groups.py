"""JoinGroups: which fused groups become one, what stays outside, and that the numbers are the same."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same_numbers, run_passes, typed

import byoc
from byoc import relay
from byoc.ir.passes.transform import PassContext
from byoc.relay import transform
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.traverse import post_order


def var(name, *shape):
    return relay.var(name, shape=shape)


def weight(*shape, seed=0):
    return relay.const(np.random.default_rng(seed).standard_normal(shape).astype("float32") * 0.1)


def groups(func):
    """The operators of each group, in the order of the groups."""
    calls = [n for n in post_order(func.body, fusion_children) if isinstance(n, relay.Call)]
    return [[n.op.name for n in post_order(c.op.body) if isinstance(n, relay.Call)] for c in calls]


def joined(body, *params, **config):
    before = typed(relay.Function(list(params), body))
    after = run_passes(before, transform.FuseOps(), transform.JoinGroups(), config=config)
    assert_same_numbers(before, after)
    return groups(after)


def heads(x, count, tokens, size):
    return relay.transpose(relay.reshape(x, (tokens, count, size)), (1, 0, 2))


def attention(q, k, v, count=2, tokens=6, size=4, guard=False):
    """Attention over matrices [tokens, count * size], as CarryViews leaves it."""
    scores = relay.nn.batch_matmul(*(heads(x, count, tokens, size) for x in (q, k)), transpose_b=True)
    scores = relay.add(relay.multiply(scores, relay.const(np.float32(0.5))), weight(1, tokens, tokens))
    weights = relay.nn.softmax(scores)
    if guard:
        weights = relay.where(relay.isnan(weights), relay.const(np.float32(0)), weights)
    mixed = relay.nn.batch_matmul(weights, heads(v, count, tokens, size), transpose_b=False)
    return relay.reshape(relay.transpose(mixed, (1, 0, 2)), (tokens, count * size))


INPUTS = [var(name, 6, 8) for name in "qkv"]


def test_views_join_the_products_that_read_them_and_the_last_reshape_stays_outside():
    assert joined(attention(*INPUTS), *INPUTS, **{"byoc.attention": False}) == [
        ["reshape", "transpose", "reshape", "transpose", "nn.batch_matmul", "multiply", "add"],
        ["nn.softmax"],
        ["reshape", "transpose", "nn.batch_matmul", "transpose"],
        ["reshape"],
    ]


@pytest.mark.parametrize("guard", [False, True])
def test_attention_is_one_group(guard):
    found = joined(attention(*INPUTS, guard=guard), *INPUTS)
    assert [len(group) > 1 for group in found] == [True, False]
    assert found[0].count("nn.batch_matmul") == 2 and "nn.softmax" in found[0]


def test_scores_that_something_else_reads_stay_a_group():
    q, k, v = INPUTS
    scores = relay.nn.batch_matmul(*(heads(x, 2, 6, 4) for x in (q, k)), transpose_b=True)
    mixed = relay.nn.batch_matmul(relay.nn.softmax(scores), heads(v, 2, 6, 4), transpose_b=False)
    found = joined(relay.Tuple([mixed, scores]), q, k, v, **{"byoc.attention": True})
    assert [group.count("nn.batch_matmul") for group in found] == [1, 0, 1]


def test_a_view_whose_axis_steps_unevenly_stays_a_group():
    x, y = var("x", 12, 8), var("y", 8, 6, 4)
    batches = relay.transpose(relay.reshape(x, (2, 6, 2, 4)), (0, 2, 1, 3))  # batch and head are one axis, in two steps
    found = joined(relay.nn.batch_matmul(relay.reshape(batches, (4, 6, 4)), relay.strided_slice(y, [0], [4])), x, y)
    assert ["nn.batch_matmul"] in [group[-1:] for group in found]
    assert ["reshape", "transpose", "reshape"] in found


def test_a_slice_within_rows_joins_and_one_across_them_does_not():
    x, y = var("x", 6, 24), var("y", 2, 6, 4)
    inside = heads(relay.strided_slice(x, [8], [16], axes=[1]), 2, 6, 4)
    assert len(joined(relay.nn.batch_matmul(inside, y), x, y)) == 1
    across = relay.reshape(relay.strided_slice(x, [0], [8], axes=[1]), (4, 12))
    across = relay.reshape(relay.transpose(across, (1, 0)), (2, 6, 4))
    assert len(joined(relay.nn.batch_matmul(across, y), x, y)) == 2


def test_what_is_pointwise_joins_the_rows_behind_it():
    x, y = var("x", 4, 8), var("y", 4, 8)
    total = relay.add(x, y)
    found = joined(relay.nn.layer_norm(total, weight(8), weight(8)), x, y)
    assert found == [["add", "nn.layer_norm"]]
    found = joined(relay.Tuple([relay.nn.softmax(total), total]), x, y)
    assert found == [["add"], ["nn.softmax"]]


def test_an_rms_norm_is_one_group():
    x = var("x", 4, 8)
    square = relay.mean(relay.multiply(x, x), axis=-1, keepdims=True)
    body = relay.multiply(relay.multiply(x, relay.rsqrt(relay.add(square, relay.const(np.float32(1e-6))))), weight(8))
    assert len(joined(body, x)) == 1
    columns = relay.multiply(x, relay.rsqrt(relay.mean(relay.multiply(x, x), axis=0, keepdims=True)))
    assert len(joined(columns, x)) == 2


@pytest.mark.parametrize("channels, together", [(3, True), (32, False)])
def test_a_convolution_of_few_channels_reads_them_in_the_order_of_the_input(channels, together):
    x = var("x", 1, channels, 9, 9)
    y = relay.nn.conv2d(
        relay.transpose(x, (0, 2, 3, 1)),
        weight(3, 3, channels, 4),
        padding=(1, 1),
        data_layout="NHWC",
        kernel_layout="HWIO",
        channels=4,
        kernel_size=(3, 3),
    )
    assert len(joined(relay.nn.relu(y), x)) == (1 if together else 2)


def test_a_value_that_both_groups_read_is_one_parameter():
    x, y = var("x", 4, 8), var("y", 8)
    before = typed(relay.Function([x, y], relay.nn.layer_norm(relay.add(x, y), y, y)))
    after = run_passes(before, transform.FuseOps(), transform.JoinGroups())
    (group,) = [n for n in post_order(after.body, fusion_children) if isinstance(n, relay.Call)]
    assert len(group.args) == len(group.op.params) == 2


@pytest.mark.needs_cc
@pytest.mark.parametrize("together", [False, True])
def test_attention_computes_the_same_as_generated_code(together):
    params = [var(name, 10, 24) for name in "qkv"]
    func = relay.Function(params, attention(*params, count=3, tokens=10, size=8, guard=True))
    arrays = [np.random.default_rng(k).standard_normal((10, 24)).astype("float32") for k in range(3)]
    want = relay.interpreter.evaluate(typed(func), arrays)
    with PassContext(config={"byoc.attention": together}):
        got = byoc.compile(relay.IRModule.from_expr(func), ["c"])(*arrays)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
