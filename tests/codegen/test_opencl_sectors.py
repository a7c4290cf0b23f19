"""Stages that read neighbours along another axis than the one along which they fill memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.kernel.choice import Choice
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl import backend
from byoc.codegen.opencl.device.profile import ANY_CPU, ANY_GPU
from byoc.codegen.opencl.schedule import stage_space
from byoc.ir.types import TensorType
from byoc.relay.expr import Function, Var
from byoc.te import compute, placeholder

LARGE = replace(ANY_GPU, units=132)


@pytest.fixture
def on_gpu(monkeypatch):
    """A large one, for which these tensors have too few tiles (``test_opencl_turned_tiles.py``)."""
    monkeypatch.setattr(backend, "profile_for", lambda options: LARGE)


def moved(array, axes, dtype="float32", extra=lambda v: v):
    """A module that exchanges the axes of *array*, with what is done to each element."""
    x = Var("x", TensorType(array.shape, array.dtype.name))
    function = Function([x], relay.transpose(extra(x), axes))
    return backend.compile_functions({"f": fuse_body(function)}, {})


def sectors(module, width, ctype="float"):
    return module.get_source().count(f"*(__global {ctype}{width} *)&")


@pytest.mark.needs_opencl
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((128, 256), (1, 0)), ((3, 96, 130), (0, 2, 1)), ((64, 5, 72), (2, 1, 0)), ((8, 64, 6, 24), (0, 2, 3, 1))],
    ids=["matrix", "batch", "outermost", "channels last"],
)
def test_axes_change_places(on_gpu, shape, axes):
    array = np.random.default_rng(1).standard_normal(shape).astype("float32")
    module = moved(array, axes)
    want = array.transpose(axes)
    out = np.full(want.shape, np.nan, "float32")
    module["f"](array, out)
    np.testing.assert_array_equal(out, want)
    assert sectors(module, 8) == 1


@pytest.mark.needs_opencl
@pytest.mark.parametrize(
    ("dtype", "ctype", "width"),
    [
        ("float64", "double", 4),
        ("int64", "long", 4),
        ("int32", "int", 8),
        ("int16", "short", 16),
        ("uint8", "uchar", 16),
    ],
)
def test_sectors_of_other_types(on_gpu, dtype, ctype, width):
    array = np.random.default_rng(1).integers(0, 100, (256, 272)).astype(dtype)
    module = moved(array, (1, 0))
    out = np.zeros((272, 256), dtype)
    module["f"](array, out)
    np.testing.assert_array_equal(out, array.T)
    assert sectors(module, width, ctype) == 1


@pytest.mark.needs_opencl
def test_booleans(on_gpu):
    array = np.random.default_rng(1).standard_normal((256, 256)).astype("float32")
    module = moved(array, (1, 0), extra=lambda x: relay.greater(x, relay.const(np.float32(0))))
    out = np.zeros((256, 256), "bool")
    module["f"](array, out)
    np.testing.assert_array_equal(out, array.T > 0)


@pytest.mark.needs_opencl
def test_what_else_is_read_may_lie_either_way(on_gpu):
    a, b = np.random.default_rng(1).standard_normal((2, 128, 256)).astype("float32")
    x, y = Var("x", TensorType((256, 128))), Var("y", TensorType(b.shape))
    function = Function([x, y], relay.add(relay.exp(relay.transpose(x, (1, 0))), y))
    module = backend.compile_functions({"f": fuse_body(function)}, {})
    out = np.full(b.shape, np.nan, "float32")
    module["f"](np.ascontiguousarray(a.T), b, out)
    np.testing.assert_allclose(out, np.exp(a) + b, rtol=0, atol=1e-6 * np.exp(a).max())
    assert sectors(module, 8) == 1


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((130, 64), (1, 0)), ((16, 32), (1, 0)), ((64, 32, 40), (1, 0, 2))],
    ids=["no sectors", "few elements", "the last axis stays"],
)
def test_others_are_filled_element_by_element(on_gpu, shape, axes):
    assert sectors(moved(np.zeros(shape, "float32"), axes), 8) == 0


def test_it_is_one_of_the_schedules_that_are_tried():
    x = placeholder((256, 512), "float32", "x")
    stage = compute((512, 256), lambda i, j: x[j, i], "turned")
    space = stage_space(stage, Simplifier(), LARGE)
    assert space[0][1] == Choice.of("sector", local=64) and {c.kind for _, c in space} == {"turn", "sector", "item"}
    assert {c.kind for _, c in stage_space(stage, Simplifier(), ANY_CPU)} == {"item"}
