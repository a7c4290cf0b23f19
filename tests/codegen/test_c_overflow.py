"""Integers wrap, and no unit pays for it that computes on floats alone."""

import dataclasses

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.codegen.c.backend import translation_units
from byoc.codegen.c.emit import emit_library
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.toolchain.overflow import computes_on_integers
from byoc.codegen.kernel.lower import lower_function
from byoc.relay.analysis.module_types import infer_function
from byoc.te import compute, placeholder, reduce_axis, sum

pytestmark = pytest.mark.optimized


def model(expr):
    return relay.transform.InferType()(byoc.IRModule.from_expr(expr))


@pytest.mark.needs_cc
def test_integer_arithmetic_wraps_as_in_numpy():
    x = relay.var("x", shape=(5,), dtype="int32")
    library = byoc.compile(model(relay.add(relay.multiply(x, x), x)), targets=["c"])
    data = np.array([2**31 - 1, -(2**31), 46341, -7, 0], "int32")
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(library(data), data * data + data)


@pytest.mark.needs_cc
def test_a_small_average_pool_reads_only_its_own_window():
    """GCC 12 reads a neighbour's elements here when it is given -fwrapv or -fno-trapping-math."""
    x = relay.var("x", shape=(2, 40, 7, 8))
    pool = relay.nn.avg_pool2d(x, (2, 2), (1, 2), padding=(1, 0, 0, 0), count_include_pad=True)
    mod = model(pool)
    data = np.random.default_rng(0).standard_normal((2, 40, 7, 8)).astype("float32")
    np.testing.assert_allclose(
        byoc.compile(mod, targets=["c"])(data), relay.interpreter.evaluate(mod, [data]), rtol=1e-5, atol=1e-6
    )


@pytest.mark.needs_cc
def test_only_the_units_that_compute_on_integers_get_the_flags_that_wrap():
    x, n = relay.var("x", shape=(3,)), relay.var("n", shape=(3,), dtype="int64")
    library = byoc.compile(model(relay.Tuple([relay.nn.relu(x), relay.multiply(n, n)])), targets=["c"])
    assert [module.type_key for module in library.module.imports] == ["c"]
    float_out, int_out = library(np.array([-1, 0, 2], "float32"), np.array([2**40, 3, -4]))
    assert float_out.tolist() == [0, 0, 2]
    assert int_out.tolist() == [0, 9, 16]
    programs = [
        lower_function(infer_function(relay.Function([v], body)), name)
        for v, body, name in ((x, relay.nn.relu(x), "floats"), (n, relay.multiply(n, n), "integers"))
    ]
    units = translation_units(
        emit_library(programs, Machine()), dataclasses.replace(find_compiler(), is_gcc=False), "0" * 64
    )
    assert ["-fwrapv" in unit.flags for unit in units] == [False, True, False]


def test_indices_and_conditions_are_not_integer_arithmetic():
    a, n = placeholder((8,), name="a"), placeholder((8,), dtype="int64", name="n")
    k = reduce_axis(4)
    assert not computes_on_integers(compute((4,), lambda i: a[i * 2 + 1] + a[7 - i]).body)
    assert not computes_on_integers(compute((4,), lambda i: n[i * 2]).body)
    assert not computes_on_integers(compute((2,), lambda i: sum(a[i * 4 + k], k)).body)
    assert computes_on_integers(compute((4,), lambda i: n[i] * n[i]).body)
    assert computes_on_integers(compute((2,), lambda i: sum(n[i * 4 + k], k)).body)


def test_a_value_that_is_used_twice_at_each_of_many_levels_is_looked_at_once():
    a = placeholder((8,), name="a")

    def powers(i):
        value = a[i]
        for _ in range(200):
            value = value * value
        return value

    assert not computes_on_integers(compute((8,), powers).body)


@pytest.mark.needs_cc
@pytest.mark.needs_opencl
@pytest.mark.parametrize("targets", [["c"], ["opencl", "c"]], ids="-".join)
def test_a_product_of_constants_beyond_64_bits_wraps(targets):
    x = relay.var("x", shape=(64,), dtype="int64")
    big = [relay.const(v, "int64") for v in (2**62 + 1, 6, 2**33 + 5)]
    expr = x
    for factor in big:
        expr = relay.multiply(expr, factor)
    data = np.arange(64) - 9
    with np.errstate(over="ignore"):
        want = data * np.int64(2**62 + 1) * np.int64(6) * np.int64(2**33 + 5)
    np.testing.assert_array_equal(byoc.compile(model(expr), targets=targets)(data), want)
