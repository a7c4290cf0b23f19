"""Instructions that a driver's OpenCL compiler does not take: marked in source, put into the binary, or done without.

On a device of compute capability 9.0 the tests that need one run products by them; elsewhere a driver that gives no
such binary builds the other code of the same source.
"""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.opencl import backend
from byoc.ir.types import TensorType
from byoc.relay.expr import Function, Var
from byoc.runtime.opencl import build
from byoc.runtime.opencl.devices import open_device
from byoc.runtime.opencl.drivers import newer_ptx

SOURCE = f"""
__kernel void marked(__global float *out) {{
#ifdef {newer_ptx.MACRO}
  out[get_global_id(0)] = 2.0f; /* {newer_ptx.MARK} */
#else
  out[get_global_id(0)] = 1.0f;
#endif
}}
"""
PTX = b".version 9.0\n.target sm_90, debug\n.entry f()\n{\n\t//sm_90a wgmma.fence.sync.aligned;\n}\n"


def test_marked_comments_become_instructions_of_a_named_target():
    made = newer_ptx.with_instructions(PTX)
    assert made == PTX.replace(b"sm_90,", b"sm_90a,").replace(b"//sm_90a ", b"")


@pytest.mark.parametrize(
    "binary",
    [
        b"",
        PTX.replace(b"//sm_90a ", b"// "),
        PTX.replace(b"sm_90,", b"sm_80,"),
        PTX.replace(b"sm_90,", b"sm_90a,"),
        PTX.replace(b"sm_90,", b"sm_100,"),
        PTX.replace(b".target sm_90, debug\n", b""),
    ],
    ids=["nothing", "no mark", "an older device", "named already", "a newer device", "no target"],
)
def test_another_binary_is_left_alone(binary):
    assert newer_ptx.with_instructions(binary) is None


def run(program) -> np.ndarray:
    cl, opened = build.import_pyopencl(), open_device()
    out = np.zeros(4, "float32")
    with cl.CommandQueue(opened.context) as queue:
        buffer = cl.Buffer(opened.context, cl.mem_flags.READ_WRITE, out.nbytes)
        program.marked(queue, (4,), None, buffer)
        cl.enqueue_copy(queue, out, buffer)
    return out


@pytest.mark.needs_opencl
@pytest.mark.parametrize("has", [True, False], ids=["the device has them", "it has not"])
@pytest.mark.parametrize("make", [build.build_program, build.build_trial], ids=["kept", "trial"])
def test_a_driver_that_does_not_take_them_builds_the_other_code(monkeypatch, tmp_path, make, has):
    """PoCL's binary is no PTX; on NVIDIA's devices the mark, which is no assembly here, is in none."""
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path))
    opened = open_device()
    device = dataclasses.replace(opened, info=dataclasses.replace(opened.info, warpgroups=has))
    build._built.cache_clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):  # from source, then from the cache
            np.testing.assert_array_equal(run(make(SOURCE, device)), np.ones(4, "float32"))
            build._built.cache_clear()
    told = [w for w in said if "takes no instructions of its own target in a binary" in str(w.message)]
    assert bool(told) == has


@pytest.fixture
def hopper() -> None:
    if build.why_unavailable() is not None or not open_device().info.warpgroups:
        pytest.skip("no OpenCL device of NVIDIA's compute capability 9.0 is here")


@pytest.mark.needs_opencl
@pytest.mark.parametrize(("rows", "columns", "terms"), [(256, 384, 512), (200, 136, 96), (1024, 768, 3072)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("constant", [True, False], ids=["weights", "two inputs"])
def test_four_warps_multiply_together_on_a_device_that_can(hopper, rows, columns, terms, dtype, constant):
    rng = np.random.default_rng(4)
    x, w = (rng.standard_normal(s).astype(dtype) for s in ((rows, terms), (columns, terms)))
    left = Var("x", TensorType(x.shape, dtype))
    right = relay.const(w) if constant else Var("w", TensorType(w.shape, dtype))
    function = Function([left] if constant else [left, right], relay.nn.dense(left, right, out_dtype="float32"))
    options = {"products": "tf32"} if dtype == "float32" else {"half": "memory"}
    module = backend.compile_functions({"f": fuse_body(function)}, options)
    out = np.full((rows, columns), np.nan, "float32")
    module["f"](*([x] if constant else [x, w]), out)
    want = x.astype("float64") @ w.astype("float64").T
    np.testing.assert_allclose(out, want, rtol=0, atol=2e-3 * np.abs(want).max())
    source = module.get_source()
    if rows == 1024:
        assert newer_ptx.MARK in source
    if newer_ptx.MARK in source:
        binary = build._binary(build.import_pyopencl(), build.build_program(source, open_device()))
        assert b"wgmma.mma_async" in binary and newer_ptx.MARK.encode() not in binary
