"""relay.testing's natural numbers, and its check of gradients, which finds a wrong one."""

import numpy as np
import pytest

from byoc import relay
from byoc.annex import testing
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.relay.interpreter import ConstructorValue, evaluate
from byoc.relay.std.prelude import Prelude


@pytest.fixture(scope="module")
def prelude():
    made = Prelude(IRModule())
    made.mod.import_from_std("nat.rly")
    return made


@pytest.mark.parametrize("n", [0, 1, 7])
def test_a_natural_number_is_made_and_counted(prelude, n):
    value = testing.make_nat_value(prelude, n)
    assert testing.count(prelude, value) == n and len(value.fields) == (1 if n else 0)
    mod = prelude.mod.shallow_copy()
    mod["main"] = relay.Function([], testing.make_nat_expr(prelude, n))
    assert testing.count(prelude, evaluate(mod, {})) == n


def test_a_large_number_is_made_and_counted_without_recursion(prelude):
    assert testing.count(prelude, testing.make_nat_value(prelude, 50_000)) == 50_000


def test_what_is_no_natural_number_is_refused(prelude):
    with pytest.raises(UserError, match="is not below zero"):
        testing.make_nat_expr(prelude, -1)
    other = ConstructorValue(1, [])
    for value in (other, 3, ConstructorValue(prelude.mod.get_type("nat")[2].tag, [other])):
        with pytest.raises(UserError, match="zero or the successor"):
            testing.count(prelude, value)


def test_a_prelude_can_be_asked_for():
    x = relay.var("x", shape=(2,))
    assert isinstance(testing.run_opt_pass(relay.exp(x), relay.transform.InferType(), import_prelude=True), relay.Call)


@pytest.mark.parametrize("mode", ["higher_order", "first_order"])
def test_the_gradient_of_a_function_is_that_of_its_differences(mode):
    x, y = relay.var("x", shape=(2, 3), dtype="float64"), relay.var("y", shape=(3,), dtype="float64")
    func = relay.Function([x, y], relay.multiply(relay.sigmoid(x), relay.exp(y)))
    testing.check_grad(func, mode=mode)
    testing.check_grad(func, scale=1.0, mean=0.5, mode=mode, eps=1e-4)
    inputs = [np.ones((2, 3)), np.arange(3.0)]
    testing.check_grad(func, inputs, test_inputs=[inputs[1]], eps=1e-4, mode=mode)


def test_a_wrong_gradient_is_found():
    gradient = relay.op.get("sigmoid").get_attr("FPrimalGradient")
    x = relay.var("x", shape=(3,), dtype="float64")
    func = relay.Function([x], relay.sigmoid(x))
    two = relay.const(2.0, "float64")
    wrong = testing.TempOpAttr("sigmoid", "FPrimalGradient", lambda orig, grad: [relay.multiply(grad, two)])
    testing.check_grad(func)
    with wrong, pytest.raises(AssertionError, match="Not equal to tolerance"):
        testing.check_grad(func)
    assert relay.op.get("sigmoid").get_attr("FPrimalGradient") is gradient


def test_inputs_of_a_check_that_do_not_fit_are_one_sentence():
    x = relay.var("x", shape=(3,), dtype="float64")
    func = relay.Function([x], relay.sigmoid(x))
    with pytest.raises(UserError, match="some of the inputs themselves"):
        testing.check_grad(func, [np.zeros(3)], test_inputs=[np.zeros(3)])
