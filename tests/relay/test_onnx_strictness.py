"""What ONNX does not allow and a converter would take: too many inputs, other repeats than axes, negative sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import byoc
from byoc.errors import ImportModelError

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model(
    operator: str, inputs: Sequence[str], constants: dict[str, np.ndarray] | None = None, opset: int = 17
) -> ModelProto:
    """One node named ``one``, over ``x: f32[2, 3]`` and, where it is read, ``r: int64[2]``."""
    given = [helper.make_tensor_value_info("x", FLOAT, [2, 3])]
    if "r" in inputs and "r" not in (constants or {}):
        given.append(helper.make_tensor_value_info("r", INT64, [2]))
    weights = [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    output = helper.make_tensor_value_info("y", FLOAT, None)
    graph = helper.make_graph([helper.make_node(operator, inputs, ["y"], "one")], "g", given, [output], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def session(proto: ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(proto.SerializeToString(), options)


@pytest.mark.parametrize(
    "operator, inputs, most", [("Relu", ["x", "x"], 1), ("Add", ["x", "x", "x"], 2), ("Relu", ["x", ""], 1)]
)
def test_more_inputs_than_the_operator_has_are_refused(operator, inputs, most):
    proto = model(operator, inputs)
    with pytest.raises(Exception, match=r"INVALID_GRAPH|not in range"):
        session(proto)
    wanted = rf"node one \({operator}\): {operator} of opset 17 has at most {most} input"
    with pytest.raises(ImportModelError, match=wanted):
        byoc.import_onnx(proto)


def test_operators_that_take_any_number_of_inputs_are_not():
    proto = model("Sum", ["x"] * 5)
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(byoc.compile(proto, "json")(x), session(proto).run(None, {"x": x})[0])


@pytest.mark.parametrize("repeats", [[2], [1, 2, 2], []])
def test_tile_has_one_repeat_for_each_axis(repeats):
    proto = model("Tile", ["x", "r"], {"r": np.array(repeats, "int64")})
    with pytest.raises(Exception, match="incorrect number of values"):
        session(proto)
    with pytest.raises(ImportModelError, match=r"node one \(Tile\): repeats .* for each of the 2 axes is needed"):
        byoc.import_onnx(proto)


@pytest.mark.parametrize("count", [1, 3])
def test_tile_has_one_repeat_of_the_run_for_each_axis(count):
    proto = model("Tile", ["x", "r"])
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_value = count
    with pytest.raises(ImportModelError, match=rf"node one \(Tile\): repeats has the type .*{count}.* 2 axes"):
        byoc.import_onnx(proto)


def test_tile_by_right_repeats_runs():
    proto = model("Tile", ["x", "r"])
    feed = {"x": np.arange(6, dtype="float32").reshape(2, 3), "r": np.array([2, 3])}
    np.testing.assert_array_equal(byoc.compile(proto, "json").run(feed)[0], session(proto).run(None, feed)[0])


@pytest.mark.parametrize("kind", ["input", "output", "value"])
def test_a_negative_size_is_refused_with_its_place(kind):
    proto = model("Relu", ["x"])
    value = helper.make_tensor_value_info({"input": "x", "output": "y", "value": "w"}[kind], FLOAT, [2, -3])
    proto.graph.node.append(helper.make_node("Relu", ["x"], ["w"]))
    if kind == "value":
        proto.graph.value_info.append(value)
    else:
        getattr(proto.graph, kind)[0].CopyFrom(value)
    with pytest.raises(ImportModelError, match=rf"{kind} '{value.name}' has the size -3 along axis 1: a size is"):
        byoc.import_onnx(proto)


def test_a_size_of_minus_one_in_an_input_is_free_as_in_onnx_runtime():
    proto = model("Relu", ["x"])
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    library = byoc.compile(proto, "json")
    for rows in (1, 4):
        x = np.arange(rows * 3, dtype="float32").reshape(rows, 3) - 2
        np.testing.assert_array_equal(library(x), session(proto).run(None, {"x": x})[0])
