"""CarryViews: views by reshapes and transposes, against numpy; and what the pass leaves of them in a graph."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pass_checks import assert_same_numbers, run_passes, typed
from random_graphs import calls_of, modules

from byoc import relay
from byoc.relay import transform
from byoc.relay.interpreter import evaluate
from byoc.relay.transform.fuse.views import View
from byoc.relay.transform.simplify.expr import SimplifyHostExpr


def var(name, *shape):
    return relay.var(name, shape=shape)


def weight(*shape, seed=0):
    return relay.const(np.random.default_rng(seed).standard_normal(shape).astype("float32") * 0.1)


def changed(body, *params):
    before = typed(relay.Function(list(params), body))
    after = run_passes(before, transform.CarryViews(), transform.FoldConstant(), SimplifyHostExpr())
    assert_same_numbers(before, after)
    return after


def elements(view: View) -> np.ndarray:
    """The positions in the base of the elements of *view*."""
    places = np.zeros((), int)
    for axis in view.axes:
        steps = np.zeros(1, int)
        for size, stride in axis:
            steps = (steps[:, None] + np.arange(size) * stride).reshape(-1)
        places = places[..., None] + steps
    return places


@st.composite
def chains(draw):
    """A shape, and reshapes and transposes in a row from it."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4))
    shape, steps = list(sizes), []
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.booleans()):
            order = draw(st.permutations(range(len(shape))))
            steps.append(("transpose", tuple(order)))
            shape = [shape[k] for k in order]
        else:
            total, new = math.prod(shape), []
            while total > 1 and len(new) < 4:
                new.append(draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0])))
                total //= new[-1]
            shape = [*new, total]
            steps.append(("reshape", tuple(shape)))
    return sizes, steps


@given(chains())
def test_a_view_has_the_elements_that_numpy_gives(case):
    sizes, steps = case
    view, array = View.of_shape(sizes), np.arange(math.prod(sizes)).reshape(sizes)
    for kind, argument in steps:
        if kind == "transpose":
            view, array = view.transposed(argument), array.transpose(argument)
        else:
            new = view.reshaped(argument)
            if new is None:
                return
            view, array = new, array.reshape(argument)
    assert view.shape == array.shape
    np.testing.assert_array_equal(elements(view), array)
    first, order = view.as_moves()
    np.testing.assert_array_equal(np.arange(array.size).reshape(first).transpose(order).reshape(array.shape), array)
    order = view.as_transpose(sizes)
    if order is not None:
        np.testing.assert_array_equal(np.arange(array.size).reshape(sizes).transpose(order), array)
    assert view.is_dense == bool(np.array_equal(array.reshape(-1), np.arange(array.size)))


@given(chains(), st.data())
def test_an_operand_that_is_brought_back_is_broadcast_as_it_was(case, data):
    sizes, steps = case
    view = View.of_shape(sizes)
    for kind, argument in steps:
        new = view.transposed(argument) if kind == "transpose" else view.reshaped(argument)
        if new is None:
            break
        view = new
    shape = tuple(data.draw(st.sampled_from([1, size])) for size in view.shape)
    target = view.brings_back(sizes, shape)
    if target is None:
        return
    operand = np.arange(math.prod(shape)).reshape(shape)
    over_base = np.broadcast_to(operand.reshape(target), sizes).reshape(-1)
    np.testing.assert_array_equal(over_base[elements(view)], np.broadcast_to(operand, view.shape))


def heads(x, w, b, scale=None):
    y = relay.nn.bias_add(relay.nn.dense(relay.reshape(x, (32, 24)), w), b)
    y = relay.transpose(relay.reshape(relay.reshape(y, (1, 32, 24)), (1, 32, 4, 6)), (0, 2, 1, 3))
    return y if scale is None else relay.multiply(y, relay.const(np.float32(scale)))


def test_attention_has_one_transpose_an_operand_and_scales_join_their_products():
    x = var("x", 1, 32, 24)
    q, k, v = (heads(x, weight(24, 24, seed=s), weight(24, seed=s + 3), c) for s, c in enumerate((0.5, 0.25, None)))
    k = relay.transpose(k, (0, 1, 3, 2))
    scores = relay.nn.batch_matmul(relay.reshape(q, (4, 32, 6)), relay.reshape(k, (4, 6, 32)), transpose_b=False)
    scores = relay.add(relay.reshape(scores, (1, 4, 32, 32)), weight(1, 1, 32, 32))
    weights = relay.reshape(relay.nn.softmax(scores), (4, 32, 32))
    out = relay.reshape(relay.nn.batch_matmul(weights, relay.reshape(v, (4, 32, 6)), transpose_b=False), (1, 4, 32, 6))
    out = relay.reshape(relay.transpose(out, (0, 2, 1, 3)), (1, 32, 24))
    out = relay.reshape(relay.nn.dense(relay.reshape(out, (32, 24)), weight(24, 24)), (1, 32, 24))
    after = changed(relay.add(out, x), x)
    found = calls_of(after)
    assert found.count("transpose") == 4
    assert found.count("multiply") == 2 and "squeeze" not in found


def test_what_is_pointwise_behind_a_reshape_is_computed_before_it():
    x = var("x", 12, 8)
    y = relay.reshape(relay.nn.dense(x, weight(16, 8)), (3, 4, 16))
    y = relay.add(y, weight(16))
    y = relay.multiply(relay.multiply(y, relay.const(np.float32(0.5))), relay.erf(y))
    found = calls_of(changed(relay.nn.layer_norm(y, weight(16), weight(16)), x))
    assert found == ["nn.dense", "add", "multiply", "erf", "multiply", "nn.layer_norm", "reshape"]


def test_a_bias_over_a_view_becomes_an_addition_over_the_base():
    x = var("x", 12, 8)
    y = relay.transpose(relay.reshape(relay.nn.dense(x, weight(16, 8)), (3, 4, 16)), (0, 2, 1))
    assert calls_of(changed(relay.nn.bias_add(y, weight(16), axis=1), x)) == ["nn.dense", "add", "reshape", "transpose"]


def test_an_operand_that_would_have_to_move_keeps_the_operator_where_it_is():
    x, y = var("x", 12, 8), var("y", 3, 16, 4)
    z = relay.transpose(relay.reshape(relay.nn.dense(x, weight(16, 8)), (3, 4, 16)), (0, 2, 1))
    assert calls_of(changed(relay.add(z, y), x, y)) == ["nn.dense", "reshape", "transpose", "add"]
    z = relay.reshape(relay.nn.dense(x, weight(16, 8)), (3, 64))
    bias = var("b", 64)  # over 64 of 192: a part of the rows of the base
    assert calls_of(changed(relay.add(z, bias), x, bias)) == ["nn.dense", "reshape", "add"]


def test_a_residual_is_brought_to_the_base_by_a_reshape():
    x, y = var("x", 12, 8), var("y", 3, 4, 16)
    z = relay.add(y, relay.reshape(relay.nn.dense(x, weight(16, 8)), (3, 4, 16)))
    assert calls_of(changed(z, x, y)) == ["reshape", "nn.dense", "add", "reshape"]


def test_the_parts_of_a_product_with_constant_weights_are_products_with_their_rows():
    x = var("x", 4, 12)
    whole = relay.nn.bias_add(relay.nn.dense(x, weight(15, 12)), weight(15))
    parts = relay.split(relay.reshape(whole, (1, 4, 15)), (5, 9), axis=2)
    found = calls_of(changed(relay.Tuple([relay.nn.softmax(parts[k]) for k in range(3)]), x))
    assert [found.count(name) for name in ("nn.dense", "split", "strided_slice")] == [3, 0, 0]
    shared = relay.Tuple([relay.nn.relu(whole), relay.split(whole, 3, axis=1)[0]])
    assert calls_of(changed(shared, x)).count("nn.dense") == 1
    rows = relay.split(whole, 2, axis=0)
    assert calls_of(changed(relay.Tuple([rows[0], rows[1]]), x)).count("nn.dense") == 1


def test_a_product_with_thousands_of_sums_behind_it_is_taken_apart_without_recursion():
    x = var("x", 4, 12)
    total = relay.nn.dense(x, weight(6, 12))
    for k in range(1200):
        total = relay.subtract(total, weight(6, seed=k))
    parts = relay.split(total, 2, axis=1)
    found = calls_of(changed(relay.Tuple([parts[0], parts[1]]), x))
    assert [found.count(name) for name in ("nn.dense", "subtract", "split")] == [2, 2400, 0]


def test_the_parts_of_a_split_are_slices():
    x = var("x", 4, 12)
    parts = relay.split(relay.nn.dense(x, x), 2, axis=1)
    changed(relay.Tuple([parts[1], parts[0]]), x)
    parts = relay.split(relay.sigmoid(x), 3, axis=1)
    body = relay.Tuple([relay.reshape(relay.transpose(relay.reshape(p, (4, 2, 2)), (1, 0, 2)), (2, 8)) for p in parts])
    found = calls_of(changed(body, x))
    assert found.count("strided_slice") == 3 and "split" not in found
    uneven = relay.split(x, (2, 7), axis=1)
    assert calls_of(changed(relay.Tuple([uneven[0], uneven[2]]), x)) == ["strided_slice", "strided_slice"]


def test_a_cut_that_falls_unevenly_starts_from_the_value_itself():
    x = var("x", 4, 6)
    body = relay.reshape(relay.reshape(relay.transpose(x, (1, 0)), (3, 8)), (8, 3))
    changed(relay.transpose(body, (1, 0)), x)


@given(modules())
def test_random_networks_compute_the_same(mod):
    arrays = [np.random.default_rng(k).standard_normal((4, 4)).astype("float32") for k in range(2)]
    after = run_passes(mod["main"], transform.CarryViews())
    flat = [[a] if isinstance(a, np.ndarray) else a for a in (evaluate(mod["main"], arrays), evaluate(after, arrays))]
    for want, got in zip(*flat, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_sizes_known_at_run_time_stay_as_they_are(axis):
    x = relay.var("x", shape=[relay.Any("n") if k == axis else 4 for k in range(2)])
    func = typed(relay.Function([x], relay.transpose(relay.transpose(x, (1, 0)), (1, 0))))
    assert calls_of(run_passes(func, transform.CarryViews())) == ["transpose", "transpose"]
