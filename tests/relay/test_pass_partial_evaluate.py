"""PartialEvaluate, followed by DeadCodeElimination: what is left, and that it computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.annex.functional.partial_evaluate import PartialEvaluate
from byoc.annex.testing import count_ops
from byoc.relay import transform
from byoc.relay.expr import Call, Function, If, Let, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var
from byoc.relay.interpreter import evaluate
from byoc.relay.std.prelude import Prelude
from byoc.relay.structure.structural import assert_structural_equal
from byoc.relay.traverse import post_order

T = relay.TensorType((2,), "float32")


def evaluated(func, mod=None):
    mod = mod if mod is not None else relay.IRModule()
    mod["main"] = func
    clean = [transform.DeadCodeElimination(inline_once=True, ignore_impurity=True)] * 3
    with transform.PassContext(opt_level=3):
        return transform.Sequential([transform.InferType(), PartialEvaluate(), *clean])(mod)


def becomes(func, wanted):
    after = evaluated(func)
    assert_structural_equal(after["main"], transform.InferType()(relay.IRModule.from_expr(wanted))["main"])


def test_a_field_of_a_known_tuple():
    x = relay.var("x", T)
    becomes(Function([x], TupleGetItem(Tuple([relay.const(4.0), x]), 1)), Function([x], x))


def test_constants_are_computed_through_functions():
    d = relay.var("d", shape=(), dtype="float32")
    double = Function([d], relay.add(d, d))
    becomes(Function([], Call(double, [relay.const(4.0)])), Function([], relay.const(8.0)))


def test_references_are_followed():
    d, r, u = relay.var("d", T), Var("r"), Var("u")
    body = Let(u, RefWrite(r, relay.multiply(RefRead(r), RefRead(r))), RefRead(r))
    becomes(Function([d], Let(r, RefCreate(d), body)), Function([d], relay.multiply(d, d)))


def test_what_an_unknown_branch_wrote_is_read_again():
    c, x, r, u = relay.var("c", shape=(), dtype="bool"), relay.var("x", T), Var("r"), Var("u")
    write = If(c, RefWrite(r, relay.negative(x)), RefWrite(r, relay.exp(x)))
    func = Function([c, x], Let(r, RefCreate(x), Let(u, write, RefRead(r))))
    after = transform.Sequential([transform.InferType(), PartialEvaluate()])(relay.IRModule.from_expr(func))
    data = np.array([1, 2], "float32")
    np.testing.assert_array_equal(evaluate(after, [np.bool_(True), data]), -data)
    np.testing.assert_allclose(evaluate(after, [np.bool_(False), data]), np.exp(data), rtol=1e-6)


def test_what_an_unknown_function_wrote_is_read_again():
    r, u, x = Var("r"), Var("u"), relay.var("x", T)
    f = relay.var("f", relay.FuncType([relay.RefType(T)], relay.TupleType([])))
    use = Function([f, x], Let(r, RefCreate(x), Let(u, Call(f, [r]), RefRead(r))), T)
    mod = transform.InferType()(relay.IRModule({"use": use}))
    left = transform.InferType()(PartialEvaluate()(mod))["use"]
    assert any(isinstance(node, RefRead) for node in post_order(left))


def test_a_known_branch_is_taken():
    x = relay.var("x", T)
    becomes(Function([x], If(relay.const(True), x, relay.exp(x))), Function([x], x))


@pytest.mark.parametrize("count", [0, 3, 10])
def test_a_loop_with_a_known_count_is_unrolled(count):
    n, acc, x, f = relay.var("n", shape=(), dtype="int32"), relay.var("acc", T), relay.var("x", T), Var("f")
    step = Call(f, [relay.subtract(n, relay.const(1)), relay.multiply(acc, x)])
    loop = Function([n, acc], If(relay.equal(n, relay.const(0)), acc, step), T)
    after = evaluated(Function([x], Let(f, loop, Call(f, [relay.const(count), x]))))
    assert count_ops(after["main"]) == ({"multiply": count} if count else {})
    data = np.array([2, 3], "float32")
    np.testing.assert_allclose(evaluate(after, [data]), data ** (count + 1))


def test_a_loop_without_end_or_known_count_stays_a_loop():
    n, x, f = relay.var("n", shape=(), dtype="int32"), relay.var("x", shape=(), dtype="int32"), Var("f")
    again = Call(f, [relay.subtract(n, relay.const(1))])
    loop = Function([n], If(relay.equal(n, relay.const(0)), n, again), relay.TensorType((), "int32"))
    after = evaluated(Function([x], Let(f, loop, Call(f, [x]))))
    assert evaluate(after, [np.int32(5)]) == 0
    endless = Function([n], Call(f, [relay.add(n, relay.const(1))]), relay.TensorType((), "int32"))
    evaluated(Function([], Let(f, endless, Call(f, [relay.const(1)]))))


@pytest.mark.slow
def test_lists_are_taken_apart():
    mod = relay.IRModule()
    prelude = Prelude(mod)
    _, cons, nil = mod.get_type("List")
    x, y = relay.var("x", T), relay.var("y", T)
    double = Function([y], relay.add(y, y))
    items = cons(x, cons(relay.exp(x), nil()))
    hd, map_ = (mod.get_global_var(name) for name in ("hd", "map"))
    assert prelude is not None
    after = evaluated(Function([x], Call(hd, [Call(map_, [double, items])])), mod)
    assert count_ops(after["main"]) == {"add": 1}
    np.testing.assert_allclose(evaluate(after["main"], [np.array([1, 2], "float32")], mod=after), [2, 4])


def test_a_gradient_becomes_straight_code():
    x = relay.var("x", T)
    func = transform.InferType()(relay.IRModule.from_expr(Function([x], relay.multiply(x, x))))["main"]
    after = evaluated(transform.gradient(func))
    kinds = {type(node) for node in post_order(after["main"])}
    functions = [node for node in post_order(after["main"]) if isinstance(node, Function)]
    assert not kinds & {RefCreate, RefRead, RefWrite} and len(functions) == 1
    value, (grad,) = evaluate(after, [np.array([3, 4], "float32")])
    np.testing.assert_array_equal(value, [9, 16])
    np.testing.assert_array_equal(grad, [6, 8])
