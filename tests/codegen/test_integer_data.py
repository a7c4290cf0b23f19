"""Data of the index dtype are numbers that wrap: what holds of places and sizes does not hold of them."""

import numpy as np
import onnx.parser
import pytest

import byoc
from byoc.codegen.kernel.simplify import Simplifier
from byoc.te import maximum, placeholder
from byoc.te.expr import INDEX, Binary, Const, binary

LARGE = 4611686018427388003
X = placeholder((4,), INDEX, "x")
MODEL = """<ir_version: 9, opset_import: ["" : 18]>
g (int64[N] x) => (int64[N] quotient, int64[N] larger, bool[N] above, int64[N] rest)
    <int64 large = {4611686018427388003}, int64 one = {1}, int64 three = {3}> {
    product = Mul(x, large)
    sum = Add(product, large)
    again = Mul(sum, large)
    quotient = Div(again, three)
    next = Add(x, one)
    larger = Max(x, next)
    above = Greater(next, x)
    rest = Mod(again, three)
}"""


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    "targets", [["c"], ["json", "c"], pytest.param(["opencl", "c"], marks=pytest.mark.needs_opencl)]
)
def test_what_overflows_wraps_before_it_is_divided_or_compared(targets):
    x = np.array([0, 1, -1, 3, LARGE, np.iinfo("int64").max, np.iinfo("int64").min], "int64")
    with np.errstate(over="ignore"):
        again = (x * LARGE + LARGE) * np.int64(LARGE)
        after = x + 1
    quotient = [abs(int(a)) // 3 * (1 if a >= 0 else -1) for a in again]  # towards 0
    wanted = [quotient, np.maximum(x, after), after > x, again % 3]
    for got, want in zip(byoc.compile(onnx.parser.parse_model(MODEL), targets)(x), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_quotient_of_data_is_not_divided_term_by_term():
    simplify, load = Simplifier(), X[0]
    divided = simplify(binary("div", load * 8 + 3, 8))
    assert isinstance(divided, Binary) and divided.op == "div"
    larger = simplify(maximum(load, load + 1))
    assert isinstance(larger, Binary) and larger.op == "max"
    assert not isinstance(simplify(load + 1 > load), Const)
    assert simplify(binary("div", load % 8 + 8, 8)).value == 1, "a remainder has its bounds"


def test_factors_of_data_wrap_too():
    simplify, load = Simplifier(), X[0]
    square = simplify(load * LARGE * LARGE)
    assert square.right.value == (LARGE * LARGE + 2**63) % 2**64 - 2**63
