"""Continuation-passing style: functions go on with their results, and come back to what they were."""

import numpy as np
import pytest

from byoc import relay
from byoc.annex.functional.to_cps import to_cps, un_cps
from byoc.errors import UserError
from byoc.ir.op import Op
from byoc.relay import transform
from byoc.relay.interpreter import evaluate
from byoc.relay.std.prelude import Prelude
from byoc.relay.traverse import post_order

F = relay.TensorType((2, 3))
X = np.arange(6, dtype="float32").reshape(2, 3)


def back(func, mod=None):
    """The function through continuation-passing style and back, typed."""
    return relay.analysis.infer_function(un_cps(to_cps(func, mod)), mod)


def numbers(func, *inputs, mod=None):
    return evaluate(func, list(inputs), mod)


def test_the_identity_goes_on_with_its_argument():
    x = relay.var("x", F)
    made = to_cps(relay.Function([x], x))
    answer = made.type_params[-1]
    assert made.checked_type == relay.FuncType([F, relay.FuncType([F], answer)], answer, [answer])
    np.testing.assert_array_equal(numbers(back(relay.Function([x], x)), X), X)


def test_no_call_of_a_function_is_left_that_anything_is_done_with():
    x, f = relay.var("x", F), relay.var("f", relay.FuncType([F], F))
    made = to_cps(relay.Function([f, x], relay.nn.relu(f(f(x)))))
    calls = {n for n in post_order(made) if isinstance(n, relay.Call) and not isinstance(n.op, Op)}
    used = {arg for n in post_order(made) if isinstance(n, relay.Call) for arg in n.args}
    assert calls and not calls & used


def test_a_generic_function_is_generic_over_its_answer_too():
    t = relay.TypeVar("t")
    x, f = relay.var("x", t), relay.var("f", relay.FuncType([t], t))
    made = to_cps(relay.Function([f, x], f(f(x)), t, [t]))
    assert len(made.type_params) == 2


def test_branches_closures_references_and_shared_values_compute_the_same():
    x, flag = relay.var("x", F), relay.var("flag", relay.scalar_type("bool"))
    scale, y, g, r = relay.exp(x), relay.var("y", F), relay.Var("g"), relay.Var("r")
    inner = relay.Function([y], relay.multiply(scale, relay.add(y, scale)))
    written = relay.Let(
        relay.Var("_"), relay.RefWrite(r, relay.add(relay.RefRead(r), x)), relay.subtract(relay.RefRead(r), scale)
    )
    body = relay.Let(g, inner, relay.Let(r, relay.RefCreate(g(x)), relay.If(flag, g(g(x)), written)))
    func = relay.analysis.infer_function(relay.Function([x, flag], body))
    for value in (True, False):
        want = numbers(func, X, np.array(value))
        np.testing.assert_allclose(numbers(back(func), X, np.array(value)), want, rtol=1e-6)


def test_recursion_through_a_module_and_lists_computes_the_same():
    mod = relay.IRModule()
    prelude = Prelude(mod)
    _, cons, nil = mod.get_type("List")
    total, x = prelude.mod.get_global_var("foldl"), relay.var("x", F)
    a, b = relay.var("a", F), relay.var("b", F)
    add = relay.Function([a, b], relay.add(a, relay.add(b, b)))
    func = relay.Function([x], total(add, x, cons(x, cons(relay.exp(x), nil()))))
    mod["main"] = func
    mod = transform.InferType()(mod)
    want = numbers(mod["main"], X, mod=mod)
    made = back(mod["main"], mod)
    assert "foldl_cps" in mod
    np.testing.assert_allclose(numbers(made, X, mod=mod), want, rtol=1e-6)
    np.testing.assert_allclose(want, 3 * X + 2 * np.exp(X), rtol=1e-6)


def test_a_long_chain_needs_no_recursion():
    x = relay.var("x", F)
    body = x
    for _ in range(3000):
        body = relay.nn.relu(body)
    np.testing.assert_array_equal(numbers(back(relay.Function([x], body)), X), X)


def test_what_was_not_made_by_to_cps_is_refused():
    x = relay.var("x", F)
    with pytest.raises(UserError, match="last parameter is a continuation"):
        un_cps(relay.Function([x], x))
