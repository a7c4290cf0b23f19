"""The reference interpreter against numpy: every kind of node, functions of every kind, and bad inputs."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.errors import InputError, UserError
from byoc.ir.op import get_op
from byoc.relay.analysis import infer_module
from byoc.relay.interpreter import evaluate

X = np.arange(6, dtype="float32").reshape(2, 3)


def var(name, *shape, dtype="float32"):
    return relay.var(name, shape=shape, dtype=dtype)


def test_operators_run_on_their_kernels_with_attributes():
    x = var("x", 2, 3)
    np.testing.assert_array_equal(evaluate(relay.sum(relay.add(x, x), axis=1), [X]), (X + X).sum(1))


def test_inputs_are_given_by_name_or_in_order():
    x, y = var("x", 2, 3), var("y", 2, 3)
    func = relay.Function([x, y], relay.subtract(x, y))
    np.testing.assert_array_equal(evaluate(func, {"y": X, "x": 3 * X}), 2 * X)
    np.testing.assert_array_equal(evaluate(func, [3 * X, X]), 2 * X)


def test_a_tuple_is_a_list_and_a_tuple_argument_is_taken_as_one():
    x = var("x", 2, 3)
    parts = relay.split(x, 3, axis=1)
    result = evaluate(relay.Tuple([parts[2], relay.Tuple([x])]), [X])
    np.testing.assert_array_equal(result[0], X[:, 2:])
    np.testing.assert_array_equal(result[1][0], X)


@pytest.mark.parametrize("attrs", [{"Composite": "a.b"}, {"Primitive": 1}, {"Compiler": "acme"}])
def test_a_local_function_is_run_by_its_body(attrs):
    p, x = var("p", 2, 3), var("x", 2, 3)
    call = relay.Call(relay.Function([p], relay.negative(p), attrs=attrs), [x])
    np.testing.assert_array_equal(evaluate(call, [X]), -X)


def test_a_global_region_is_run_by_the_function_of_the_module():
    p, x, region = var("p", 2, 3), var("x", 2, 3), relay.GlobalVar("region")
    mod = relay.IRModule({region: relay.Function([p], relay.negative(p), attrs={"Compiler": "acme"})})
    mod["main"] = relay.Function([x], relay.abs(relay.Call(region, [x])))
    np.testing.assert_array_equal(evaluate(infer_module(mod), [X]), X)


def test_only_the_branch_that_is_taken_is_evaluated():
    c, x = var("c", dtype="bool"), var("x", 2, 3)
    broken = relay.Call(relay.var("nobody"), [x])
    func = relay.Function([c, x], relay.If(c, relay.negative(x), broken))
    np.testing.assert_array_equal(evaluate(func, [np.asarray(True), X]), -X)
    with pytest.raises(UserError, match="nobody"):
        evaluate(func, [np.asarray(False), X])


def test_references_keep_the_order_of_reads_and_writes():
    r, before, _, x = relay.var("r"), relay.var("before"), relay.var("_"), var("x", 2, 3)
    body = relay.Tuple([before, relay.RefRead(r)])
    body = relay.Let(before, relay.RefRead(r), relay.Let(_, relay.RefWrite(r, relay.negative(x)), body))
    first, second = evaluate(relay.Let(r, relay.RefCreate(x), body), {"x": X})
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, -X)


def test_a_closure_remembers_where_it_was_made():
    f, p, x = relay.var("f"), var("p", 2, 3), var("x", 2, 3)
    make = relay.Function([x], relay.Function([p], relay.subtract(p, x)))
    body = relay.Let(f, relay.Call(make, [var("y", 2, 3)]), relay.Call(f, [relay.const(X)]))
    np.testing.assert_array_equal(evaluate(body, [np.ones_like(X)]), X - 1)


def test_a_loop_of_20000_rounds_needs_no_recursion():
    loop, i, total = relay.GlobalVar("loop"), var("i", dtype="int32"), var("total", dtype="int32")
    again = relay.Call(loop, [relay.subtract(i, relay.const(1)), relay.add(total, i)])
    body = relay.If(relay.greater(i, relay.const(0)), again, total)
    mod = relay.IRModule({loop: relay.Function([i, total], body, ret_type=relay.TensorType((), "int32"))})
    n = var("n", dtype="int32")
    mod["main"] = relay.Function([n], relay.Call(loop, [n, relay.const(0)]))
    assert evaluate(mod, [np.int32(20_000)]) == 20_000 * 20_001 // 2


def test_a_shared_node_is_evaluated_once():
    node = var("x", 2, 3)
    for _ in range(64):
        node = relay.maximum(node, node)
    np.testing.assert_array_equal(evaluate(node, [X]), X)


def test_100000_calls_in_a_chain_are_evaluated():
    node = var("x", 2)
    for _ in range(100_000):
        node = relay.Call(get_op("negative"), [node])
    np.testing.assert_array_equal(evaluate(node, [np.ones(2, "float32")]), np.ones(2))


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, "x missing"),
        ({"x": X, "z": X}, "z unknown"),
        ([X, X], "takes 1 inputs"),
        ([X.astype("int32")], "got int32"),
        ([X[:1]], "a dimension of 2 is 1"),
        ([X[0]], r"got float32\[3\]"),
    ],
)
def test_wrong_inputs_are_explained(inputs, words):
    with pytest.raises(InputError, match=words):
        evaluate(relay.negative(var("x", 2, 3)), inputs)


def test_a_named_size_is_the_same_in_all_inputs():
    x, y = (relay.var(n, shape=(relay.Any("N"),)) for n in "xy")
    func = relay.Function([x, y], relay.add(x, y))
    np.testing.assert_array_equal(evaluate(func, [np.ones(3, "float32"), np.ones(3, "float32")]), np.full(3, 2.0))
    with pytest.raises(InputError, match="a dimension of 3 is 4"):
        evaluate(func, [np.ones(3, "float32"), np.ones(4, "float32")])


def test_a_function_as_result_is_refused():
    p = var("p", 2)
    with pytest.raises(UserError, match="closure"):
        evaluate(relay.Tuple([relay.Function([p], p)]))


def test_an_unknown_global_function_is_named():
    with pytest.raises(UserError, match="@nowhere"):
        evaluate(relay.Call(relay.GlobalVar("nowhere"), []))
