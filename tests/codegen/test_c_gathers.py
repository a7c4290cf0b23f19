"""Loads from places that are loaded: GCC 12 vectorises some of them wrongly, so that is turned off."""

import dataclasses

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.codegen.c.backend import translation_units
from byoc.codegen.c.emit import emit_library
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.toolchain.unit_flags import NO_LOOP_VECTORS, gathers
from byoc.codegen.kernel.lower import lower_function
from byoc.relay.analysis.module_types import infer_function
from byoc.te import compute, placeholder

pytestmark = pytest.mark.optimized


@pytest.mark.needs_cc
@pytest.mark.parametrize("shape", [(18, 1), (18, 4), (5, 7), (3, 2, 9)], ids=str)
@pytest.mark.parametrize("dtype", ["int32", "float32", "int64"])
def test_elements_taken_one_by_one_are_those_at_their_places(shape, dtype):
    """With AVX-512, GCC 12.2 gives zeros for the first 16 elements of (18, 1)."""
    places = np.random.default_rng(0).integers(0, 18, shape).astype("int32")
    data = np.arange(100, 118).astype(dtype)
    x, at = relay.var("x", shape=(18,), dtype=dtype), relay.var("at", shape=shape, dtype="int32")
    mod = relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x, at], relay.take(x, at, axis=0))))
    np.testing.assert_array_equal(byoc.compile(mod, ["c"])(data, places), data[places])


@pytest.mark.needs_cc
def test_only_units_that_gather_get_the_flag():
    x, at = relay.var("x", shape=(8,)), relay.var("at", shape=(3,), dtype="int64")
    programs = [
        lower_function(infer_function(relay.Function(params, body)), name)
        for params, body, name in (([x], relay.nn.relu(x), "plain"), ([x, at], relay.take(x, at, axis=0), "taken"))
    ]
    for is_gcc in (True, False):
        compiler = dataclasses.replace(find_compiler(), is_gcc=is_gcc)
        units = translation_units(emit_library(programs, Machine()), compiler, "0" * 64)
        assert [set(NO_LOOP_VECTORS) <= set(unit.flags) for unit in units] == [False, is_gcc, False]


def test_a_load_gathers_where_its_place_is_loaded():
    a, n = placeholder((8,), "float32", "a"), placeholder((8,), "int64", "n")
    assert gathers(compute((8,), lambda i: a[n[i]]).body)
    assert not gathers(compute((8,), lambda i: a[i] * n[i].astype("float32")).body)
