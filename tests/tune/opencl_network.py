"""A small network for OpenCL: two convolutions, one of which no tile divides, a product and a softmax."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def network():
    """The bytes of an ONNX model ``x: f32[1, 3, 17, 17] -> y: f32[1, 10]``."""
    rng = np.random.default_rng(0)
    shapes = {"w0": (16, 3, 3, 3), "w1": (21, 16, 3, 3), "w2": (21 * 17 * 17, 10)}
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype("float32") / 30, n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "w2"], ["e"]),
        helper.make_node("Softmax", ["e"], ["y"]),
    ]
    ends = (("x", [1, 3, 17, 17]), ("y", [1, 10]))
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in ends)
    graph = helper.make_graph(nodes, "network", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def example():
    """An input of the network."""
    return np.random.default_rng(1).standard_normal((1, 3, 17, 17)).astype("float32")
