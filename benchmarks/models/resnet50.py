"""ResNet-50 with seeded random weights as an ONNX file, for which nothing has to be installed or downloaded.

The network of torchvision (``v1.5``: the stride is that of the 3 x 3 convolution), with batch norms of random
statistics, so that folding them wrongly shows. Source: He et al., "Deep Residual Learning for Image Recognition", 2015.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BLOCKS, CLASSES, EXPANSION, OPSET = (3, 4, 6, 3), 1000, 4, 17


class Writer:
    """An ONNX graph that grows node by node, with weights from one generator of random numbers."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, values: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.astype("float32"), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], **attributes: object) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], f"{kind}_{len(self.nodes)}", **attributes))
        return output

    def conv(self, x: str, before: int, after: int, kernel: int, stride: int = 1) -> str:
        """A convolution without bias, and its batch norm."""
        scale = np.sqrt(2 / (before * kernel * kernel))
        weight = self.weight(self.rng.standard_normal((after, before, kernel, kernel)) * scale)
        shape = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4}
        y = self.node("Conv", [x, weight], **shape)
        numbers = [self.rng.uniform(0.5, 1.5, after), self.rng.normal(0, 0.1, after)]
        numbers += [self.rng.normal(0, 0.1, after), self.rng.uniform(0.5, 1.5, after)]
        return self.node("BatchNormalization", [y, *(self.weight(n) for n in numbers)])

    def bottleneck(self, x: str, before: int, width: int, stride: int) -> str:
        y = self.node("Relu", [self.conv(x, before, width, 1)])
        y = self.node("Relu", [self.conv(y, width, width, 3, stride)])
        y = self.conv(y, width, width * EXPANSION, 1)
        if stride > 1 or before != width * EXPANSION:
            x = self.conv(x, before, width * EXPANSION, 1, stride)
        return self.node("Relu", [self.node("Add", [y, x])])


def resnet50(batch: int = 1, size: int = 224, seed: int = 0) -> onnx.ModelProto:
    """The model: ``image: f32[batch, 3, size, size] -> scores: f32[batch, 1000]``."""
    out = Writer(seed)
    x = out.node("Relu", [out.conv("image", 3, 64, 7, 2)])
    x = out.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, count in enumerate(BLOCKS):
        width = 64 << stage
        for block in range(count):
            x = out.bottleneck(x, channels, width, 2 if stage and not block else 1)
            channels = width * EXPANSION
    x = out.node("Flatten", [out.node("GlobalAveragePool", [x])])
    weight = out.weight(out.rng.standard_normal((CLASSES, channels)) / np.sqrt(channels))
    bias = out.weight(out.rng.normal(0, 0.1, CLASSES))
    x = out.node("Gemm", [x, weight, bias], transB=1)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, 3, size, size])
    scores = helper.make_tensor_value_info(x, TensorProto.FLOAT, [batch, CLASSES])
    graph = helper.make_graph(out.nodes, "resnet50", [image], [scores], out.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="the ONNX file to write")
    parser.add_argument("--size", type=int, default=224, help="rows and columns of the image")
    arguments = parser.parse_args()
    onnx.save(resnet50(size=arguments.size), arguments.output)
