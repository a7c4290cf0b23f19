"""Infinite weights of transposed convolutions meet data alone, never zeros between or around it, on every backend."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_opencl, pytest.mark.optimized]
CASES = {
    "strided": ([1, 4, 5, 6], [4, 3, 3, 3], {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    "stride 1": ([1, 4, 5, 6], [4, 3, 3, 3], {"pads": [1, 1, 1, 1]}),
    "depthwise": ([2, 4, 5, 6], [4, 1, 4, 4], {"strides": [2, 2], "group": 4, "pads": [1, 1, 1, 1]}),
    "one axis, dilated": ([1, 4, 5], [4, 2, 3], {"strides": [3], "dilations": [2]}),
    "three axes, groups": ([1, 4, 3, 4, 3], [4, 2, 2, 3, 2], {"strides": [2, 1, 2], "group": 2}),
}


@pytest.mark.parametrize("constant", [True, False], ids=["constant", "run time"])
@pytest.mark.parametrize("name", CASES)
def test_infinite_weights_give_what_onnx_runtime_gives(name, constant):
    data, kernel, attributes = CASES[name]
    rng = np.random.default_rng(0)
    x, w = rng.uniform(0.1, 1, data).astype("float32"), rng.standard_normal(kernel).astype("float32")
    w.reshape(-1)[::7] = np.inf
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", data), ("w", kernel))]
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)],
        "g",
        inputs[: 1 if constant else 2],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w")] if constant else [],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    feeds = {"x": x} if constant else {"x": x, "w": w}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, feeds)
    assert np.isinf(want).any() and not np.isnan(want).any()
    for targets in (["c"], ["opencl", "c"], ["json", "c"]):
        (got,) = byoc.compile(model, targets).run(feeds)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_winograds_method_is_not_used_for_weights_whose_sums_are_no_numbers():
    weights = np.ones((16, 16, 3, 3), "float32")
    weights[3, 4, 1, 1] = np.inf
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 30, 30])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (got,) = byoc.compile(model, ["c"]).run({"x": np.ones((1, 16, 30, 30), "float32")})
    assert np.isposinf(got[0, 3]).all() and (np.delete(got[0], 3, 0) == 144).all()
