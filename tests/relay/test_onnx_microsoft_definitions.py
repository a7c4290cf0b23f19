"""Operators of ONNX Runtime's domain that it computes on graphics processors alone, by what they are made of."""

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx_single_node import feeds_of, ours, single_node

RNG = np.random.default_rng(8)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def plain(op: str, inputs: list[str], output: str, **attrs: object):
    return helper.make_node(op, inputs, [output], **attrs)


WITHOUT_KERNEL = {
    "BiasAdd": (
        [f32(2, 3, 32), f32(32), f32(2, 3, 32)],
        {},
        [plain("Add", ["x0", "x1"], "a"), plain("Add", ["a", "x2"], "y")],
    ),
    "BiasSplitGelu": (
        [f32(2, 3, 32), f32(32)],
        {},
        [
            plain("Add", ["x0", "x1"], "a"),
            helper.make_node("Split", ["a"], ["l", "r"], axis=2, num_outputs=2),
            plain("Gelu", ["r"], "g"),
            plain("Mul", ["l", "g"], "y"),
        ],
    ),
    "BiasSoftmax": (
        [f32(2, 4, 3, 5), f32(2, 1, 1, 5)],
        {"axis": 3, "is_inner_broadcast": 1},
        [plain("Add", ["x0", "x1"], "a"), plain("Softmax", ["a"], "y", axis=3)],
    ),
    "NhwcConv": (
        [f32(1, 6, 5, 4), f32(6, 4, 3, 3), f32(6)],
        {"pads": [1, 0, 1, 0]},
        [
            plain("Transpose", ["x0"], "t", perm=[0, 3, 1, 2]),
            plain("Conv", ["t", "x1", "x2"], "c", pads=[1, 0, 1, 0]),
            plain("Transpose", ["c"], "y", perm=[0, 2, 3, 1]),
        ],
    ),
    "NhwcFusedConv": (
        [f32(1, 6, 5, 4), f32(6, 4, 3, 3), f32(6), f32(1, 4, 3, 6)],
        {"activation": "Relu"},
        [
            plain("Transpose", ["x0"], "t", perm=[0, 3, 1, 2]),
            plain("Conv", ["t", "x1", "x2"], "c"),
            plain("Transpose", ["c"], "l", perm=[0, 2, 3, 1]),
            plain("Add", ["l", "x3"], "s"),
            plain("Relu", ["s"], "y"),
        ],
    ),
    "GroupNorm": (
        [f32(2, 5, 4, 8), f32(8), f32(8)],
        {"groups": 2, "activation": 1, "epsilon": 1e-3},
        [
            plain("Transpose", ["x0"], "t", perm=[0, 3, 1, 2]),
            plain("GroupNormalization", ["t", "x1", "x2"], "n", num_groups=2, epsilon=1e-3),
            plain("Sigmoid", ["n"], "s"),
            plain("Mul", ["n", "s"], "m"),
            plain("Transpose", ["m"], "y", perm=[0, 2, 3, 1]),
        ],
    ),
    "SkipGroupNorm": (
        [f32(2, 8, 4, 5), f32(8), f32(8), f32(2, 8), f32(8)],
        {"groups": 4, "activation": 0, "channels_last": 0},
        [
            plain("Add", ["x3", "x4"], "b"),
            plain("Unsqueeze", ["b", "axes"], "u"),
            plain("Add", ["x0", "u"], "t"),
            plain("GroupNormalization", ["t", "x1", "x2"], "y", num_groups=4),
        ],
    ),
}


@pytest.mark.parametrize("op", WITHOUT_KERNEL)
def test_an_operator_of_other_devices_is_what_onnxs_operators_compute(op):
    """ONNX Runtime has a kernel on graphics processors alone; its own kernels for ONNX's operators are the judge."""
    inputs, attrs, nodes = WITHOUT_KERNEL[op]
    fused = single_node(op, 1, inputs, (), 1, "com.microsoft", **attrs)
    values = [helper.make_tensor_value_info("y", 1, None)]
    axes = numpy_helper.from_array(np.array([2, 3]), "axes")
    graph = helper.make_graph(nodes, "g", fused.graph.input, values, [axes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feeds_of(inputs))
    (found,) = ours(fused, feeds_of(inputs))
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
