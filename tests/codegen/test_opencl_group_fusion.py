"""Kernels of GPUs that take what stands around them: epilogues past reshapes, sums of parts, tensors without memory."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc

pytestmark = [pytest.mark.needs_opencl, pytest.mark.needs_cc]
GPU = {"opencl": {"schedules": "gpu"}}


def model(nodes, inputs, outputs, weights=()):
    """An ONNX model of *nodes* (kind, inputs, output, attributes)."""
    made = [helper.make_node(kind, ins, [out], **attributes) for kind, ins, out, attributes in nodes]
    infos = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in d.items()] for d in (inputs, outputs)]
    graph = helper.make_graph(made, "g", *infos, [numpy_helper.from_array(a, n) for n, a in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def draw(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def kernels_and_outputs(data, inputs):
    """The schedules of the kernels, and what the model gives, after a look at what C gives."""
    library = byoc.compile(data, targets=["opencl"], backend_options=GPU)
    plans = [plan for m in library.module.walk() if m.type_key == "opencl" for plan in m.plans]
    got, wanted = library.run(inputs), byoc.compile(data, targets=["c"]).run(inputs)
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    return [launch.variants[0].schedule for plan in plans for launch in plan.launches], got


def test_a_product_takes_what_is_elementwise_behind_its_reshape():
    data = model(
        [
            ("Reshape", ["x", "flat"], "rows", {}),
            ("MatMul", ["rows", "w"], "p", {}),
            ("Reshape", ["p", "deep"], "r", {}),
            ("Add", ["r", "x"], "s", {}),
            ("Sigmoid", ["s"], "g", {}),
            ("Mul", ["s", "g"], "y", {}),
        ],
        {"x": [4, 48, 64]},
        {"y": [4, 48, 64]},
        [("w", draw(64, 64)), ("flat", np.array([192, 64])), ("deep", np.array([4, 48, 64]))],
    )
    schedules, _ = kernels_and_outputs(data, {"x": draw(4, 48, 64)})
    assert len(schedules) == 1 and schedules[0].startswith("product")


def test_of_two_products_that_are_added_one_takes_the_sum():
    data = model(
        [
            ("MatMul", ["x", "v"], "p", {}),
            ("MatMul", ["x", "w"], "q", {}),
            ("Add", ["p", "q"], "s", {}),
            ("Relu", ["s"], "y", {}),
        ],
        {"x": [192, 64]},
        {"y": [192, 64]},
        [("v", draw(64, 64)), ("w", draw(64, 64) + 1)],
    )
    schedules, _ = kernels_and_outputs(data, {"x": draw(192, 64)})
    assert len(schedules) == 2 and all(s.startswith("product") for s in schedules)


def test_a_stage_that_two_read_is_computed_once():
    data = model(
        [("MatMul", ["x", "w"], "p", {}), ("Relu", ["p"], "y", {}), ("Sigmoid", ["p"], "z", {})],
        {"x": [192, 64]},
        {"y": [192, 64], "z": [192, 64]},
        [("w", draw(64, 64))],
    )
    schedules, _ = kernels_and_outputs(data, {"x": draw(192, 64)})
    assert sum(s.startswith("product") for s in schedules) == 1


def test_the_parts_of_a_deep_sum_end_in_the_kernel_of_the_norm_behind_them():
    data = model(
        [
            ("MatMul", ["h", "w"], "p", {}),
            ("Add", ["p", "x"], "s", {}),
            ("LayerNormalization", ["s", "scale", "shift"], "n", {"axis": -1}),
            ("Add", ["s", "n"], "y", {}),
        ],
        {"h": [24, 1024], "x": [24, 64]},
        {"y": [24, 64]},
        [("w", draw(1024, 64) / 32), ("scale", draw(64)), ("shift", draw(64) + 1)],
    )
    schedules, _ = kernels_and_outputs(data, {"h": draw(24, 1024), "x": draw(24, 64)})
    assert [s[:4] for s in schedules] == ["prod", "rows"] or [s[:4] for s in schedules] == ["prod", "rows", "item"]


@pytest.mark.parametrize("outputs", [["y"], ["y", "z"], ["p", "y"]])
def test_reshaped_results_lie_where_they_were_computed(outputs):
    shapes = {"p": [192, 64], "y": [4, 48, 64], "z": [2, 96, 64]}
    data = model(
        [("MatMul", ["x", "w"], "p", {}), ("Reshape", ["p", "deep"], "y", {}), ("Reshape", ["p", "half"], "z", {})],
        {"x": [192, 64]},
        {n: shapes[n] for n in outputs},
        [("w", draw(64, 64)), ("deep", np.array([4, 48, 64])), ("half", np.array([2, 96, 64]))],
    )
    schedules, _ = kernels_and_outputs(data, {"x": draw(192, 64)})
    assert len(schedules) == len(outputs)  # the second result of the same elements is a copy


def test_a_result_that_is_an_input_in_another_shape_is_copied():
    data = model(
        [("Reshape", ["x", "deep"], "y", {}), ("Exp", ["y"], "z", {})],
        {"x": [192, 64]},
        {"y": [4, 48, 64], "z": [4, 48, 64]},
        [("deep", np.array([4, 48, 64]))],
    )
    x = draw(192, 64)
    _, (y, _) = kernels_and_outputs(data, {"x": x})
    np.testing.assert_array_equal(y, x.reshape(4, 48, 64))
