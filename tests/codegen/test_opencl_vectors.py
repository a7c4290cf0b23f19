"""Stages of which a work-item makes several neighbours, and the work-items of their groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.kernel.collapse import collapse_axes
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl import backend
from byoc.codegen.opencl.device.choosing import items_of_a_group
from byoc.codegen.opencl.device.profile import ANY_CPU, ANY_GPU
from byoc.codegen.opencl.elements.vectors import VectorStage
from byoc.codegen.opencl.schedule import schedule_stage, stage_space
from byoc.ir.types import Any, TensorType
from byoc.relay.expr import Function, Var
from byoc.te import compute, placeholder
from byoc.te.expr import Select, Size

SMALL = replace(ANY_GPU, units=1)


@pytest.fixture
def on_gpu(monkeypatch):
    monkeypatch.setattr(backend, "profile_for", lambda options: SMALL)


def module_of(inputs, body):
    return backend.compile_functions({"f": fuse_body(Function(inputs, body))}, {})


def has_vectors(module, ctype="float"):
    return f"*(__global const {ctype}4 *)&" in module.get_source()


@pytest.mark.needs_opencl
def test_rows_columns_and_scalars_are_read_as_they_lie(on_gpu):
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s).astype("float32") for s in ((96, 128), (96, 1), (128,), ())]
    x, b, c, d = (Var(n, TensorType(a.shape)) for n, a in zip("xbcd", arrays, strict=True))
    module = module_of([x, b, c, d], relay.nn.relu(relay.add(relay.multiply(relay.add(x, d), b), c)))
    out = np.full((96, 128), np.nan, "float32")
    module["f"](*arrays, out)
    a, b, c, d = arrays
    np.testing.assert_allclose(out, np.maximum((a + d) * b + c, 0), rtol=1e-6, atol=1e-6)
    assert has_vectors(module)


@pytest.mark.needs_opencl
@pytest.mark.parametrize(
    ("dtype", "ctype"),
    [("float64", "double"), ("int32", "int"), ("int64", "long"), ("uint8", "uchar"), ("bool", "uchar")],
)
def test_other_types(on_gpu, dtype, ctype):
    a = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 100, (64, 256)).astype(dtype)
    x = Var("x", TensorType(a.shape, dtype))
    module = module_of([x], relay.cast(x, "float32") + relay.const(np.float32(1)))
    out = np.zeros(a.shape, "float32")
    module["f"](a, out)
    np.testing.assert_array_equal(out, a.astype("float32") + 1)
    assert has_vectors(module, ctype)


@pytest.mark.needs_opencl
def test_a_part_that_begins_where_a_vector_may(on_gpu):
    a = np.random.default_rng(1).standard_normal((64, 512)).astype("float32")
    x = Var("x", TensorType(a.shape))
    for begin, vectors in ((128, True), (129, False)):
        module = module_of([x], relay.exp(relay.strided_slice(x, [0, begin], [64, begin + 256])))
        out = np.full((64, 256), np.nan, "float32")
        module["f"](a, out)
        np.testing.assert_allclose(out, np.exp(a[:, begin : begin + 256]), rtol=1e-6)
        assert has_vectors(module) is vectors


@pytest.mark.needs_opencl
def test_what_is_padded_is_not_read_beyond_its_end(on_gpu):
    a = np.random.default_rng(1).standard_normal((64, 128)).astype("float32")
    x = Var("x", TensorType(a.shape))
    module = module_of([x], relay.exp(relay.nn.pad(x, ((0, 0), (4, 4)), 0.0)))
    out = np.full((64, 136), np.nan, "float32")
    module["f"](a, out)
    np.testing.assert_allclose(out, np.exp(np.pad(a, ((0, 0), (4, 4)))), rtol=1e-6)
    assert not has_vectors(module)


@pytest.mark.needs_opencl
def test_a_choice_between_elements_that_exist_may_read_both(on_gpu):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 64, 128)).astype("float32")
    x, y = Var("x", TensorType(a.shape)), Var("y", TensorType(b.shape))
    module = module_of([x, y], relay.where(relay.greater(x, y), x, relay.exp(y)))
    out = np.full(a.shape, np.nan, "float32")
    module["f"](a, b, out)
    np.testing.assert_allclose(out, np.where(a > b, a, np.exp(b)), rtol=1e-6)
    assert has_vectors(module)


@pytest.mark.needs_opencl
def test_the_sizes_of_a_call_choose(on_gpu):
    x, y = Var("x", TensorType((Any("n"), 128))), Var("y", TensorType((128,)))
    module = module_of([x, y], relay.add(relay.exp(x), y))
    c = np.random.default_rng(9).standard_normal(128).astype("float32")
    for rows in (1, 5, 31, 32, 64):
        a = np.random.default_rng(rows).standard_normal((rows, 128)).astype("float32")
        out = np.full(a.shape, np.nan, "float32")
        module["f"](a, c, out)
        np.testing.assert_allclose(out, np.exp(a) + c, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("element", "fits"),
    [
        (lambda x, i, j: x[i, j], True),
        (lambda x, i, j: x[i, j // 2], False),
        (lambda x, i, j: x[i, j % 2 * 4], False),
        (lambda x, i, j: x[i, j] + x[i, j // 4 * 4], False),
        (lambda x, i, j: x[i, 127 - j], False),
        (lambda x, i, j: x[i, 2 * j // 2 + 1], False),
        (lambda x, i, j: x[i, 5] + x[i, j], True),
        (lambda x, i, j: x[i, 5], False),
        (lambda x, i, j: x[j, i] + x[i, j], False),
        (lambda x, i, j: Select(i > 3, x[i - 4, j], x[i, j]), False),
        (lambda x, i, j: Select(i > 3, x[i, j], x[j, 0]), False),
    ],
    ids=["same", "half", "two", "first", "reversed", "odd", "one and same", "one", "turned", "outside", "column"],
)
def test_neighbours_are_made_of_neighbours(element, fits):
    x = placeholder((128, 128), "float32", "x")
    stage = compute((128, 128), lambda i, j: element(x, i, j), "made")
    simplify = Simplifier()
    assert (VectorStage.of(collapse_axes(stage, simplify), simplify) is not None) is fits


def test_groups_are_large_where_a_device_has_enough_of_them():
    x = placeholder((1 << 22,), "float32", "x")
    stage = compute(x.shape, lambda i: x[i] + 1.0, "more")
    space = stage_space(stage, Simplifier(), ANY_GPU)
    assert space[0][1].kind == "vector" and dict(space[0][1].parameters) == {"local": 256}
    assert {c.kind for _, c in space} == {"vector", "item"}
    assert {c.kind for _, c in stage_space(stage, Simplifier(), ANY_CPU)} == {"item"}
    few = compute((1 << 10,), lambda i: x[i] + 1.0, "few")
    assert dict(stage_space(few, Simplifier(), ANY_GPU)[0][1].parameters) == {"local": 64}
    assert [items_of_a_group(n, ANY_GPU) for n in (0, 8 * 256 * 16 - 1, 8 * 256 * 16)] == [64, 64, 256]
    assert items_of_a_group(1 << 30, ANY_CPU) == 64
    assert items_of_a_group(1 << 30, replace(ANY_GPU, max_group=128)) == 128


def test_free_sizes_have_a_kernel_for_few_elements_too():
    """Which one is taken is a range of the call's sizes: without it the first would be taken for all."""
    x, n = placeholder((Size("n"), 128), "float32", "x"), Size("n")
    for stage in (
        compute((n, 128), lambda i, j: x[i, j] + 1.0, "vector"),
        compute((128, n, 256), lambda i, j, k: placeholder((n, 256, 128), "float32", "y")[j, k, i], "turn"),
    ):
        plans = schedule_stage(stage, Simplifier(), SMALL)
        assert [p.schedule for p in plans][:1] == [stage.name] and plans[-1].schedule == "item"
        assert all(p.when for p in plans[:-1]) and not plans[-1].when
