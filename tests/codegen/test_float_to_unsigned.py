"""Floats that a uint32 or uint64 does not hold: the same integers from every generator, whatever the length."""

import numpy as np
import pytest
from exported import build, export, make_model, run
from onnx import TensorProto, helper

import byoc
from byoc.runtime.kernels.core.registry import get_kernel

pytestmark = pytest.mark.optimized

FLOATS = [5.9, -1, -5.5, -0.0, 3e9, 2**32, 1e10, -1e10, 2**62, 9.3e18, 1.8e19, 2**64, np.nan, np.inf, -np.inf]
LOWEST = -(2**63)
HELD = [5, -1, -5, 0, 3 * 10**9, 2**32, 10**10, -(10**10), 2**62]  # by a signed integer of 64 bits
EXPECTED = {
    "uint32": [n % 2**32 for n in HELD] + [0] * 6,
    "uint64": [n % 2**64 for n in HELD]
    + [int(np.float32(9.3e18)), int(np.float32(1.8e19)), 0, LOWEST % 2**64, 0, LOWEST % 2**64],
}
every_dtype = pytest.mark.parametrize("dtype", list(EXPECTED))
every_length = pytest.mark.parametrize("length", [1, 15, 37, 64])


def _case(dtype, length):
    """Casts of as many floats, and of each value alone as often, with what they give."""
    floats = [np.resize(np.array(FLOATS, "float32"), length), np.full(length, -5.5, "float32")]
    wanted = [np.resize(np.array(EXPECTED[dtype], dtype), length), np.full(length, -5 % 2 ** int(dtype[4:]), dtype)]
    nodes = [helper.make_node("Cast", [f"x{k}"], [f"y{k}"], to=getattr(TensorProto, dtype.upper())) for k in (0, 1)]
    shape = (length,)
    model = make_model(nodes, [(f"x{k}", "float32", shape) for k in (0, 1)], [(f"y{k}", dtype, shape) for k in (0, 1)])
    return model, floats, wanted


@every_dtype
def test_the_numpy_kernel_says_what_the_integer_is(dtype):
    for source in ("float32", "float64"):
        got = get_kernel("cast")(np.array(FLOATS[:9], source), dtype=dtype)
        np.testing.assert_array_equal(got, np.array(EXPECTED[dtype][:9], dtype))
    np.testing.assert_array_equal(get_kernel("cast")(np.array(FLOATS, "float32"), dtype=dtype), EXPECTED[dtype])
    assert get_kernel("cast")(np.array(-5.5, "float32"), dtype=dtype).shape == ()


@pytest.mark.needs_cc
@every_dtype
@every_length
def test_compiled_code_gives_the_same_integer(dtype, length):
    model, floats, wanted = _case(dtype, length)
    library = byoc.compile(model.SerializeToString())
    for got, expected in zip(library.run({"x0": floats[0], "x1": floats[1]}), wanted, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.needs_opencl
@every_dtype
def test_opencl_gives_the_same_integer(dtype):
    model, floats, wanted = _case(dtype, 37)
    library = byoc.compile(model.SerializeToString(), targets=["opencl", "c"])
    for got, expected in zip(library.run({"x0": floats[0], "x1": floats[1]}), wanted, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.needs_cc
@every_dtype
@pytest.mark.parametrize("portable", [False, True], ids=["vectors", "portable"])
def test_exported_c_gives_the_same_integer_without_undefined_behaviour(dtype, portable, tmp_path):
    model, floats, wanted = _case(dtype, 37)
    export(model, tmp_path, portable=portable)
    build(tmp_path, portable, "CFLAGS=-O1 -fsanitize=float-cast-overflow -fsanitize-undefined-trap-on-error")
    for got, expected in zip(run(tmp_path, floats, wanted).values(), wanted, strict=True):
        np.testing.assert_array_equal(got, expected)
