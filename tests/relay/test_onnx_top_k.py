"""TopK takes as many as k says, none for 0, whether k is known when compiling or only when it runs."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc.errors import KernelError
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.interpreter import evaluate

X = np.random.default_rng(0).normal(size=(3, 5)).astype("float32")


def model(k: int | None, axis: int = -1) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)]
    known = [] if k is None else [numpy_helper.from_array(np.array([k], "int64"), "k")]
    if k is None:
        inputs.append(helper.make_tensor_value_info("k", TensorProto.INT64, [1]))
    outputs = [
        helper.make_tensor_value_info("v", TensorProto.FLOAT, None),
        helper.make_tensor_value_info("i", TensorProto.INT64, None),
    ]
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=axis)
    graph = helper.make_graph([node], "g", inputs, outputs, known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8)


@pytest.mark.needs_cc
def test_a_k_of_0_gives_nothing() -> None:
    values, places = byoc.compile(model(0, axis=0))(X)
    assert (values.shape, places.shape, places.dtype) == ((0, 5), (0, 5), np.dtype("int64"))


@pytest.mark.parametrize("k", [0, 1, 5])
def test_a_k_that_the_run_gives_is_taken_at_its_word(k: int) -> None:
    values, places = evaluate(import_onnx(model(None)), [X, np.array([k])])
    np.testing.assert_array_equal(values, -np.sort(-X, 1)[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(X, places, 1), values)


def test_a_k_beyond_the_axis_is_refused_when_it_runs() -> None:
    with pytest.raises(KernelError, match="topk: k is 6, axis 1 has 5 elements"):
        evaluate(import_onnx(model(None)), [X, np.array([6])])
