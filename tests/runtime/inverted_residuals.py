"""A network as MobileNetV2: pointwise products that widen, depthwise convolutions, pointwise ones that narrow, sums."""

import numpy as np
import onnx
from onnx import TensorProto, helper

BLOCKS = ((16, 1, 1), (24, 6, 2), (24, 6, 1), (32, 6, 2), (32, 6, 1), (32, 6, 1), (64, 6, 2), (64, 6, 1))


def inverted_residuals(size: int = 64, batch: int | str = 1, blocks=BLOCKS) -> onnx.ModelProto:
    """``x: f32[batch, 3, size, size] -> y: f32[batch, 10]``; each block is (channels, widening, stride)."""
    rng = np.random.default_rng(0)
    nodes, constants = [], []

    def weight(name, *shape):
        values = rng.standard_normal(shape).astype("float32") / np.sqrt(np.prod(shape[1:]))
        constants.append(onnx.numpy_helper.from_array(values.astype("float32"), name))
        return name

    def convolution(source, inner, outer, kernel, stride=1, groups=1, clipped=True):
        name = f"c{len(nodes)}"
        weights = weight(f"w{len(nodes)}", outer, inner // groups, kernel, kernel)
        sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4, "group": groups}
        nodes.append(helper.make_node("Conv", [source, weights], [name], name=name, **sizes))
        if not clipped:
            return name
        nodes.append(helper.make_node("Clip", [name, "low", "high"], [f"r{name}"], name=f"r{name}"))
        return f"r{name}"

    constants += [onnx.numpy_helper.from_array(np.float32(v), n) for n, v in (("low", 0.0), ("high", 6.0))]
    value, channels = convolution("x", 3, 16, 3, 2), 16
    for outer, widening, stride in blocks:
        inner = channels * widening
        found = convolution(value, channels, inner, 1) if widening > 1 else value
        found = convolution(found, inner, inner, 3, stride, inner)
        found = convolution(found, inner, outer, 1, clipped=False)
        if stride == 1 and outer == channels:
            nodes.append(helper.make_node("Add", [value, found], [f"sum_{found}"], name=f"sum_{found}"))
            found = f"sum_{found}"
        value, channels = found, outer
    value = convolution(value, channels, 128, 1)
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["mean"], name="mean"))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat"], name="flat"))
    nodes.append(helper.make_node("Gemm", ["flat", weight("classes", 10, 128)], ["y"], name="classes", transB=1))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, size, size])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 10])
    graph = helper.make_graph(nodes, "inverted_residuals", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
