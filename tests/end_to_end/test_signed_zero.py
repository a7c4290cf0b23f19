"""The sign of zero: the negative of 0 is -0, whose reciprocal is an infinity below, as ONNX Runtime has it."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import byoc

pytestmark = pytest.mark.optimized

X = np.array([0.0, -0.0, 1.0, np.inf, -np.inf] * 7, "float32")


@pytest.mark.parametrize("backend", ["c", "opencl", "json"])
def test_the_reciprocal_of_the_negative_of_zero_is_an_infinity_below(backend):
    nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Reciprocal", ["n"], ["y"])]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [35]) for name in "xny"]
    model = helper.make_model(
        helper.make_graph(nodes, "g", value[:1], value[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    negative, reciprocal = byoc.compile(model.SerializeToString(), targets=[backend, "c"]).run({"x": X})
    np.testing.assert_array_equal(np.signbit(negative), ~np.signbit(X))
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(reciprocal, 1 / -X)
