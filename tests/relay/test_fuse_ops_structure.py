"""FuseOps: the functions that it makes, node by node as Relay's, and the options that change them."""

from __future__ import annotations

import numpy as np
from pass_checks import assert_same_numbers, typed
from random_graphs import calls_of

from byoc import relay
from byoc.ir.passes.transform import PassContext, Sequential
from byoc.relay import transform
from byoc.relay.structure.structural import assert_structural_equal
from byoc.relay.traverse import post_order


def var(name, *shape):
    return relay.var(name, shape=shape)


def one():
    return relay.const(1, "float32")


def primitive(params, body):
    return relay.Function(params, body).with_attr("Primitive", 1)


def fused(func, **config):
    with PassContext(opt_level=2, config=config):
        return Sequential([transform.InferType(), transform.FuseOps()])(relay.IRModule.from_expr(func))["main"]


def becomes(before, expected, **config):
    after = fused(before, **config)
    assert_structural_equal(after, typed(expected))
    assert_same_numbers(typed(before), after)


def defused(func):
    mod = relay.IRModule.from_expr(fused(func))
    with PassContext(opt_level=3):
        return transform.DefuseOps()(mod)["main"]


def test_an_elementwise_chain_with_a_squeeze():
    def body(x):
        return relay.squeeze(relay.exp(relay.add(x, one())))

    x, p = var("x", 10, 20), var("p0", 10, 20)
    becomes(relay.Function([x], body(x)), relay.Function([x], relay.Call(primitive([p], body(p)), [x])))


def conv(x, w, size=3):
    return relay.nn.conv2d(x, w, kernel_size=(size, size), padding=((size - 1) // 2,) * 2, channels=4)


def test_convolutions_take_elementwise_tails_and_a_residual():
    x, w1, w2, w3 = var("x", 1, 4, 6, 6), var("w1", 4, 4, 3, 3), var("w2", 4, 4, 1, 1), var("w3", 4, 4, 3, 3)
    y = conv(relay.add(x, one()), w1)
    y = relay.add(y, relay.add(one(), y))
    before = relay.Function([x, w1, w2, w3], relay.add(conv(y, w2, 1), conv(y, w3)))

    p = var("p0", 1, 4, 6, 6)
    head = primitive([p], relay.add(p, one()))
    p, q = var("p0", 1, 4, 6, 6), var("p1", 4, 4, 3, 3)
    c = conv(p, q)
    middle = primitive([p, q], relay.add(c, relay.add(one(), c)))
    p, q = var("p0", 1, 4, 6, 6), var("p1", 4, 4, 3, 3)
    side = primitive([p, q], conv(p, q))
    p, q, r = var("p0", 1, 4, 6, 6), var("p1", 4, 4, 1, 1), var("p2", 1, 4, 6, 6)
    tail = primitive([p, q, r], relay.add(conv(p, q, 1), r))
    y = relay.Call(middle, [relay.Call(head, [x]), w1])
    body = relay.Call(tail, [y, w2, relay.Call(side, [y, w3])])
    becomes(before, relay.Function([x, w1, w2, w3], body))


def test_a_concatenation_takes_its_injective_fields_and_its_tail():
    def pool(x):
        return relay.nn.max_pool2d(x, pool_size=(2, 2), strides=(2, 2), padding=(0, 0))

    def join(small, whole):
        up = relay.nn.upsampling(small, scale_h=2, scale_w=2, layout="NCHW")
        return relay.add(relay.concatenate((up, whole), axis=1), one())

    x, p, q, r = var("x", 1, 4, 8, 8), var("p0", 1, 4, 8, 8), var("p0", 1, 4, 4, 4), var("p1", 1, 4, 8, 8)
    calls = relay.Call(primitive([q, r], join(q, r)), [relay.Call(primitive([p], pool(p)), [x]), x])
    becomes(relay.Function([x], join(pool(x), x)), relay.Function([x], calls))


def test_a_tuple_as_result_stays_outside():
    x, p = var("x", 1, 4, 8, 8), var("p0", 1, 4, 8, 8)
    before = relay.Function([x], relay.Tuple((relay.nn.relu(relay.nn.max_pool2d(x, pool_size=(2, 2))), x)))
    pool = primitive([p], relay.nn.relu(relay.nn.max_pool2d(p, pool_size=(2, 2))))
    becomes(before, relay.Function([x], relay.Tuple((relay.Call(pool, [x]), x))))


def test_the_fields_of_a_split_are_used_inside():
    def gates(x):
        parts = relay.split(x, indices_or_sections=3, axis=1)
        return relay.sigmoid(parts[0]) + relay.tanh(parts[1]) * relay.exp(parts[2])

    x, w = var("x", 1, 5), var("w", 15, 5)
    p, q, r = var("p0", 1, 5), var("p1", 15, 5), var("p0", 1, 15)
    product = relay.Call(primitive([p, q], relay.nn.dense(p, q)), [x, w])
    expected = relay.Function([x, w], relay.Call(primitive([r], gates(r)), [product]))
    becomes(relay.Function([x, w], gates(relay.nn.dense(x, w))), expected)


def test_one_field_of_a_split_is_the_result_of_its_function():
    x, w, p, q, r = var("x", 1, 15), var("w", 5, 5), var("p0", 1, 15), var("p0", 1, 5), var("p1", 5, 5)
    before = relay.Function([x, w], relay.nn.dense(relay.split(x, 3, axis=1)[0], w))
    cut = relay.Call(primitive([p], relay.split(p, 3, axis=1)[0]), [x])
    becomes(before, relay.Function([x, w], relay.Call(primitive([q, r], relay.nn.dense(q, r)), [cut, w])))


def test_tuples_inside_a_function_are_fused_through():
    def body(x):
        inner = relay.squeeze(x)
        ways = (relay.add(inner, one()), relay.add(relay.squeeze(relay.add(inner, one())), one()), relay.exp(inner))
        return relay.add(relay.squeeze(relay.concatenate(ways, axis=1)), one())

    x, p = var("x", 1, 4, 6, 6), var("p0", 1, 4, 6, 6)
    becomes(relay.Function([x], body(x)), relay.Function([x], relay.Call(primitive([p], body(p)), [x])))


def sizes(func):
    calls = [n for n in post_order(func) if isinstance(n, relay.Call) and isinstance(n.op, relay.Function)]
    return [len(calls_of(call.op)) for call in calls]


def test_a_function_has_at_most_256_calls_or_as_many_as_configured():
    x = y = var("x", 3)
    for _ in range(300):
        y = relay.exp(y)
    func = relay.Function([x], y)
    assert sizes(fused(func)) == [256, 44]
    assert sizes(fused(func, **{"relay.FuseOps.max_depth": 100})) == [100, 100, 100]


def test_constants_stand_in_the_body_with_link_params():
    x, weight = var("x", 2, 4), relay.const(np.ones((4, 4), "float32"))
    func = relay.Function([x], relay.nn.relu(relay.nn.dense(x, weight)))
    plain, linked = fused(func), fused(func, **{"relay.FuseOps.link_params": True})
    assert len(plain.body.args) == 2 and len(linked.body.args) == 1
    assert_same_numbers(typed(func), linked)


def test_stop_fusion_keeps_apart_and_is_gone():
    x, p, q = var("x", 10, 20), var("p0", 10, 20), var("p0", 10, 20)
    before = relay.Function([x], relay.exp(relay.annotation.stop_fusion(relay.add(x, one()))))
    first = relay.Call(primitive([p], relay.add(p, one())), [x])
    becomes(before, relay.Function([x], relay.Call(primitive([q], relay.exp(q)), [first])))


def test_defuse_is_the_inverse():
    x, w = var("x", 1, 4, 6, 6), var("w", 4, 4, 3, 3)
    y = relay.nn.relu(conv(relay.add(x, one()), w))
    func = relay.Function([x, w], relay.concatenate((relay.exp(y), conv(y, w)), axis=1))
    assert_structural_equal(defused(func), typed(func))
