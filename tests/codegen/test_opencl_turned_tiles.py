"""Exchanges of axes by tiles that pass through local memory."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.kernel.choice import Choice
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl import backend
from byoc.codegen.opencl.device.profile import ANY_CPU, ANY_GPU
from byoc.codegen.opencl.schedule import stage_space
from byoc.ir.types import Any, TensorType
from byoc.relay.expr import Function, Var
from byoc.te import compute, placeholder


@pytest.fixture
def on_gpu(monkeypatch):
    monkeypatch.setattr(backend, "profile_for", lambda options: ANY_GPU)


def moved(shape, axes, dtype="float32", extra=lambda v: v):
    """A module that exchanges the axes of a tensor, with what is done to each element."""
    x = Var("x", TensorType(shape, dtype))
    function = Function([x], relay.transpose(extra(x), axes))
    return backend.compile_functions({"f": fuse_body(function)}, {})


def has_tiles(module):
    return module.get_source().count("barrier(CLK_LOCAL_MEM_FENCE)") == 1


@pytest.mark.needs_opencl
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((256, 512), (1, 0)),
        ((3, 200, 250), (0, 2, 1)),
        ((72, 7, 130), (2, 1, 0)),
        ((8, 64, 6, 56), (0, 2, 3, 1)),
        ((8, 1003), (1, 0)),
        ((72, 3, 5, 65), (3, 1, 2, 0)),
    ],
    ids=["whole tiles", "batch, tails", "outermost, tails", "channels last", "narrow", "two axes stay"],
)
def test_axes_change_places(on_gpu, shape, axes):
    array = np.random.default_rng(1).standard_normal(shape).astype("float32")
    module = moved(shape, axes)
    out = np.full(array.transpose(axes).shape, np.nan, "float32")
    module["f"](array, out)
    np.testing.assert_array_equal(out, array.transpose(axes))
    if shape != (8, 1003):  # one tile high: too few of them
        assert has_tiles(module)


@pytest.mark.needs_opencl
@pytest.mark.parametrize("dtype", ["float64", "int64", "int32", "int16", "uint8", "bool"])
def test_other_types(on_gpu, dtype):
    array = np.random.default_rng(1).integers(0, 100 if dtype != "bool" else 2, (320, 272)).astype(dtype)
    module = moved(array.shape, (1, 0), dtype)
    out = np.zeros((272, 320), dtype)
    module["f"](array, out)
    np.testing.assert_array_equal(out, array.T)
    assert has_tiles(module)


@pytest.mark.needs_opencl
def test_what_else_is_read_may_lie_either_way(on_gpu):
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(s).astype("float32") for s in ((256, 320), (320, 256), (320, 1)))
    x, y, z = (Var(n, TensorType(v.shape)) for n, v in zip("xyz", (a, b, c), strict=True))
    body = relay.add(relay.add(relay.exp(relay.transpose(x, (1, 0))), y), z)
    module = backend.compile_functions({"f": fuse_body(Function([x, y, z], body))}, {})
    out = np.full(b.shape, np.nan, "float32")
    module["f"](a, b, c, out)
    np.testing.assert_allclose(out, np.exp(a.T) + b + c, rtol=0, atol=1e-6 * np.exp(a).max())
    assert has_tiles(module)


@pytest.mark.needs_opencl
def test_the_sizes_of_a_call_choose_between_tiles_and_others(on_gpu):
    module = moved((Any("n"), 96, 128), (0, 2, 1))
    for batch in (1, 2, 3, 7):
        array = np.random.default_rng(batch).standard_normal((batch, 96, 128)).astype("float32")
        out = np.full((batch, 128, 96), np.nan, "float32")
        module["f"](array, out)
        np.testing.assert_array_equal(out, array.transpose(0, 2, 1))
    assert has_tiles(module)


def test_few_tiles_leave_a_device_idle():
    def kinds(rows, profile):
        x = placeholder((256, rows), "float32", "x")
        return [c.kind for _, c in stage_space(compute((rows, 256), lambda i, j: x[j, i], "t"), Simplifier(), profile)]

    assert kinds(512, ANY_GPU)[0] == "turn"  # 64 tiles for 16 units
    few = kinds(64, ANY_GPU)
    assert few[0] != "turn" and "turn" in few
    assert set(kinds(512, ANY_CPU)) == {"item"}
    x = placeholder((256, 512), "float32", "x")
    space = stage_space(compute((512, 256), lambda i, j: x[j, i], "t"), Simplifier(), ANY_GPU)
    assert space[0][1] == Choice.of("turn") and {c.kind for _, c in space} == {"turn", "sector", "item"}
