"""InlineCalls: plain function literals disappear, functions with a meaning stay."""

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.relay.expr import Call, Function
from byoc.relay.interpreter import evaluate
from byoc.relay.traverse import post_order

A, B = np.arange(4, dtype="float32"), -np.arange(4, dtype="float32")


def twice(**attrs):
    """main(x, y) = f(x) * f(y) with a let inside f."""
    p, t = relay.var("p", shape=(4,)), relay.var("t")
    body = relay.Let(t, relay.add(p, relay.const(1.0)), relay.nn.relu(relay.multiply(t, t)))
    f = relay.Function([p], body, attrs=attrs)
    x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
    main = relay.Function([x, y], relay.multiply(Call(f, [x]), Call(f, [y])))
    return relay.transform.InferType()(byoc.IRModule.from_expr(main))


def function_literals(mod):
    return [n for n in post_order(mod["main"].body) if isinstance(n, Function)]


def test_each_call_of_a_plain_function_is_its_body_over_its_arguments():
    mod = twice()
    inlined = relay.transform.InlineCalls()(mod)
    assert function_literals(inlined) == []
    np.testing.assert_array_equal(evaluate(inlined, [A, B]), evaluate(mod, [A, B]))


@pytest.mark.parametrize("key", ["Composite", "Primitive", "Compiler"])
def test_a_function_with_a_meaning_stays(key):
    mod = twice(**{key: "acme.f"})
    assert len(function_literals(relay.transform.InlineCalls()(mod))) == 1


def test_functions_inside_functions_are_inlined_too():
    p, q, x = (relay.var(n, shape=(4,)) for n in "pqx")
    inner = relay.Function([p], relay.nn.relu(p))
    outer = relay.Function([q], relay.add(Call(inner, [q]), Call(inner, [relay.negative(q)])))
    mod = relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], Call(outer, [x]))))
    inlined = relay.transform.InlineCalls()(mod)
    assert function_literals(inlined) == []
    np.testing.assert_array_equal(evaluate(inlined, [B]), np.abs(B))


@pytest.mark.needs_cc
def test_a_function_that_is_called_twice_compiles_beside_an_accelerator():
    library = byoc.compile(twice(), targets=["json", "c"])
    np.testing.assert_allclose(library(A, B), evaluate(twice(), [A, B]))
