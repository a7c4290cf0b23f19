"""Loads under a condition: GCC gives those that lie side by side the mask of the first, so that is turned off."""

import dataclasses

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.codegen.c.backend import translation_units
from byoc.codegen.c.emit import emit_library
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.toolchain.unit_flags import NO_IF_CONVERSION, loads_under_a_condition
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.region import fuse_body
from byoc.ir.size_var import SizeVar
from byoc.te import compute, if_then_else, placeholder

pytestmark = pytest.mark.optimized


@pytest.mark.needs_cc
@pytest.mark.parametrize("columns", [2, 3, 5])
@pytest.mark.parametrize("rows", [5, 8, 33])
def test_rows_of_few_columns_whose_signs_differ_have_each_its_own_slope(rows, columns):
    """With AVX-512, GCC 12.2 and 13.3 give -0 for numbers whose neighbours of the row before are positive."""
    shape = (SizeVar("N"), columns)
    x, slope = relay.var("x", shape=shape), relay.var("slope", shape=shape)
    zero = relay.const(np.float32(0))
    body = relay.where(relay.less(x, zero), relay.multiply(x, slope), x)
    mod = relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x, slope], body)))
    numbers = np.random.default_rng(rows)
    a, b = (numbers.normal(0, 1, (rows, columns)).astype("float32") for _ in range(2))
    a[:, columns - 1] = abs(a[:, columns - 1])
    np.testing.assert_array_equal(byoc.compile(mod, ["c"])(a, b), np.where(a < 0, a * b, a))


@pytest.mark.needs_cc
def test_only_units_that_load_under_a_condition_get_the_flag():
    x, y = relay.var("x", shape=(8,)), relay.var("y", shape=(8,))
    zero, less = relay.const(np.float32(0)), relay.less
    bodies = [relay.maximum(x, y), relay.where(less(x, zero), relay.multiply(x, y), x), relay.where(less(x, y), x, y)]
    programs = [lower_function(fuse_body(relay.Function([x, y], b)), f"f{k}") for k, b in enumerate(bodies)]
    for is_gcc in (True, False):
        compiler = dataclasses.replace(find_compiler(), is_gcc=is_gcc)
        units = translation_units(emit_library(programs, Machine()), compiler, "0" * 64)
        assert [set(NO_IF_CONVERSION) <= set(unit.flags) for unit in units] == [False, is_gcc, False, False]


def test_a_load_is_under_a_condition_where_only_one_branch_makes_it():
    a, b = placeholder((8,), "float32", "a"), placeholder((8,), "float32", "b")
    assert loads_under_a_condition(compute((8,), lambda i: if_then_else(a[i] > 0.0, b[i], 0.0)).body)
    assert loads_under_a_condition(compute((8,), lambda i: if_then_else(i > 0, a[i - 1], b[i])).body)
    assert not loads_under_a_condition(compute((8,), lambda i: if_then_else(a[i] > b[i], b[i], a[i] * 2.0)).body)
    assert not loads_under_a_condition(compute((8,), lambda i: if_then_else(i > 3, a[i] * 2.0, a[i])).body)
