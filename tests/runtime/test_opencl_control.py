"""What a library reports of regions on a device inside of control flow: those that the host computed, and how."""

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import byoc
from byoc.errors import UserError
from byoc.kernels import KERNELS, OpenCLSource, kernel
from byoc.runtime.errors import DeviceError

pytestmark = pytest.mark.needs_opencl
RNG = np.random.default_rng(4)
WEIGHT = RNG.standard_normal((64, 64)).astype("float32") / 8
BROKEN = "__kernel void KERNEL(__global const float *x, __global float *out SIZES) { out[0] = undeclared; }"


def looped() -> ModelProto:
    """``x`` of (n, 64), ``k`` times through a product and a sine."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])
    flags = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("c", "d")]
    k = helper.make_tensor_value_info("k", TensorProto.INT64, [])
    h, g = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64]) for name in "hg")
    inner = [
        helper.make_node("MatMul", ["h", "w"], ["m"]),
        helper.make_node("Sin", ["m"], ["g"]),
        helper.make_node("Identity", ["c"], ["d"]),
    ]
    body = helper.make_graph(
        inner, "body", [helper.make_tensor_value_info("i", TensorProto.INT64, []), flags[0], h], [flags[1], g]
    )
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])
    node = helper.make_node("Loop", ["k", "", "x"], ["y"], body=body)
    graph = helper.make_graph([node], "g", [x, k], [y], [numpy_helper.from_array(WEIGHT, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def given() -> dict[str, np.ndarray]:
    return {"x": RNG.standard_normal((3, 64)).astype("float32"), "k": np.array(2)}


def test_a_region_of_a_loop_that_the_host_computed_is_reported(tmp_path: Path) -> None:
    with KERNELS.temporary():
        kernel("sin", "opencl/float/any")(OpenCLSource(BROKEN))
        loaded = byoc.load(byoc.compile(looped(), targets=["opencl"], fallback=True).save(tmp_path / "m.byoc"))
    inputs = given()
    want = np.sin(np.sin(inputs["x"] @ WEIGHT) @ WEIGHT)
    np.testing.assert_allclose(loaded.run(inputs)[0], want, rtol=1e-4, atol=1e-5)
    (record,) = loaded.fallbacks
    assert record.target == "opencl_kernels" and record.exception == DeviceError.__name__, record
    assert "undeclared" in record.message


def test_kernels_that_a_loop_chose_are_reported_and_only_a_plain_prepare_makes_them_ready() -> None:
    library = byoc.compile(looped(), targets=["opencl"], fallback=True)
    with pytest.raises(UserError, match=r"control flow cannot be prepared in the background: use library.prepare\(\)"):
        library.prepare_in_background(given())
    library.prepare(given())
    assert library.variants and library.device_counts["kernels"]
