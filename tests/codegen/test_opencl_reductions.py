"""Reductions on both of their paths, a tree in local memory and one work-item after another, at awkward lengths.

The thresholds choose the path; one kernel for free lengths serves all of them, and some lengths have kernels of their
own. The code is that for GPUs, run on whatever device is here.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.opencl.backend import compile_functions
from byoc.codegen.opencl.device.thresholds import NEVER, ON_GPUS, Thresholds
from byoc.errors import UserError
from byoc.ir.types import Any, TensorType
from byoc.relay.expr import Function, Var

LENGTHS = (1, 2, 3, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 2049, 100003)
OWN = (65, 1025)  # that have kernels for themselves too
ROWS = 16
PATHS = {
    "tree": f"shortest_tree=1,enough_rows={NEVER},long_reduction=1,few_outputs={NEVER}",
    "serial": f"shortest_tree={NEVER},long_reduction={NEVER}",
}
TREES = {"tree", "rows"}
REDUCTIONS = {
    "sum": (relay.sum, np.sum),
    "max": (relay.max, np.max),
    "min": (relay.min, np.min),
    "mean": (relay.mean, np.mean),
    "prod": (relay.prod, np.prod),
    "argmax": (relay.argmax, np.argmax),
}
RNG = np.random.default_rng(0)
pytestmark = pytest.mark.needs_opencl


@functools.cache
def module(path, length=None):
    """All reductions of ``f32[16, N]`` along N, by their names; *length* is N where it is known."""
    shape = (ROWS, Any("n") if length is None else length)
    functions = {}
    for name, (op, _) in REDUCTIONS.items():
        x = Var("x", TensorType(shape))
        functions[name] = fuse_body(Function([x], op(x, axis=1)))
    return compile_functions(functions, {"schedules": "gpu", "thresholds": PATHS[path]})


def reduced(name, path, data, length=None):
    found = module(path, length)
    out = np.full(ROWS, np.nan, "float32") if name != "argmax" else np.full(ROWS, -7, "int32")
    if name == "argmax":
        out = out.astype(found.signatures[name].outputs[0].dtype)
    found[name](data, out)
    return out


def numbers(name, length):
    data = RNG.standard_normal((ROWS, length)).astype("float32")
    return (1 + data / 300).astype("float32") if name == "prod" else data


def close(name, got, data):
    want = REDUCTIONS[name][1](data.astype("float64"), axis=1)
    if name in ("argmax", "max", "min"):
        np.testing.assert_array_equal(got, want)
    elif name == "prod":
        np.testing.assert_allclose(got, want, rtol=2e-7 * data.shape[1] ** 0.5 * 4)
    else:  # a sum of so many terms of size 1, added one by one
        scale = 1.0 if name == "sum" else data.shape[1]
        np.testing.assert_allclose(got, want, atol=6e-8 * data.shape[1] / scale * 4 + 1e-7, rtol=1e-6)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_is_right_at_every_length(name, path):
    for length in LENGTHS:
        data = numbers(name, length)
        close(name, reduced(name, path, data), data)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("length", OWN)
def test_a_reduction_of_known_length_is_right(length, path):
    for name in REDUCTIONS:
        data = numbers(name, length)
        close(name, reduced(name, path, data, length), data)


@pytest.mark.parametrize("length", [None, *OWN])
def test_the_thresholds_choose_the_path(length):
    for name in REDUCTIONS:
        for path in PATHS:
            data = numbers(name, length or 257)
            reduced(name, path, data, length)
            taken = {v for c in module(path, length).variants if c.symbol == name for v in c.variants}
            assert bool(taken & TREES) == (path == "tree"), (name, path, taken)


def test_a_tree_adds_no_less_exactly_than_one_work_item_after_another():
    data = (RNG.random((ROWS, 100003)) + 0.5).astype("float32")
    exact = data.astype("float64").sum(axis=1)
    error = {path: np.abs(reduced("sum", path, data) - exact).max() for path in PATHS}
    assert error["tree"] <= error["serial"] and error["serial"] > 0


@pytest.mark.parametrize("length", [3, 65, 257, 2049])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_both_paths_mean_the_same_by_nan_infinities_and_negative_zero(name, length):
    data = numbers(name, length)
    places = RNG.integers(0, length, ROWS)
    rows = np.arange(ROWS)
    data[rows, places] = np.resize(np.array([np.nan, np.inf, -np.inf], "float32"), ROWS)
    data[0] = -0.0
    data[1, :2] = (np.inf, -np.inf)[: min(length, 2)]
    tree, serial = (reduced(name, path, data) for path in PATHS)
    if name == "argmax":
        np.testing.assert_array_equal(tree, serial)
        np.testing.assert_array_equal(tree, np.argmax(data, axis=1))
        return
    assert np.array_equal(np.isnan(tree), np.isnan(serial))
    whole = np.isfinite(tree)
    assert np.array_equal(tree[~whole], serial[~whole], equal_nan=True)
    assert np.array_equal(np.signbit(tree[whole]), np.signbit(serial[whole]))
    with np.errstate(invalid="ignore"):
        want = REDUCTIONS[name][1](data, axis=1)
    assert np.array_equal(np.isnan(tree), np.isnan(want))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("length", [2, 65, 256, 1025])
def test_of_equal_elements_the_first_is_the_greatest(length, path):
    data = RNG.integers(0, 3, (ROWS, length)).astype("float32")
    data[0], data[1] = 1.0, -np.inf
    want = np.argmax(data, axis=1)
    np.testing.assert_array_equal(reduced("argmax", path, data), want)
    if length in OWN:
        np.testing.assert_array_equal(reduced("argmax", path, data, length), want)


def test_thresholds_are_read_from_their_text_and_refused_in_a_sentence():
    assert Thresholds.of("few_outputs=7, long_reduction=9", ON_GPUS) == Thresholds(32, 2048, 9, 7)
    assert Thresholds.of("", ON_GPUS) == ON_GPUS == Thresholds.of(ON_GPUS.to_json(), ON_GPUS)
    with pytest.raises(UserError, match="expected names of shortest_tree, .*, got 'longest'"):
        Thresholds.of("longest=4", ON_GPUS)
    for bad in ("few_outputs=0", "few_outputs=many", "few_outputs"):
        with pytest.raises(UserError, match="few_outputs is a number from 1 to"):
            Thresholds.of(bad, ON_GPUS)
    with pytest.raises(UserError, match="expected a text like"):
        Thresholds.of(4, ON_GPUS)
