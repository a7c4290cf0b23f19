"""The multiply-adds of an ONNX model, counted from its graph: convolutions, matrix products, recurrent layers.

Everything else (additions, activations, norms) is not counted, by anyone's code. Shapes come from the file, or else
from ONNX's own inference. Bodies of control flow are not entered: a model that has some is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx

Shape = Sequence[int]
Shapes = Mapping[str, Shape]
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def multiply_adds(path: Path) -> int:
    """The multiply-adds of one run. Raises ValueError where a shape is unknown or an operator has a body of its own."""
    model = onnx.load(path, load_external_data=False)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    shapes = _known_shapes(model.graph)
    if not _complete(model.graph, shapes):
        shapes = _known_shapes(onnx.shape_inference.infer_shapes(model, data_prop=True).graph)
    if not _complete(model.graph, shapes):
        raise ValueError(f"{path}: the shape of a product is unknown; export the model with fixed sizes")
    return sum(RULES[node.op_type](node, shapes) for node in model.graph.node if node.op_type in RULES)


def _complete(graph: onnx.GraphProto, shapes: Shapes) -> bool:
    needed = [name for n in graph.node if n.op_type in RULES for name in (*n.input[:4], n.output[0]) if name]
    return all(name in shapes for name in needed)


def _known_shapes(graph: onnx.GraphProto) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {w.name: tuple(w.dims) for w in graph.initializer}
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                shapes[node.output[0]] = tuple(attribute.t.dims)
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim):
            shapes[value.name] = tuple(d.dim_value for d in kind.shape.dim)
    return shapes


def _convolution(node: onnx.NodeProto, shapes: Shapes) -> int:
    return math.prod(shapes[node.output[0]]) * math.prod(shapes[node.input[1]][1:])


def _quantized(node: onnx.NodeProto, shapes: Shapes) -> int:
    return math.prod(shapes[node.output[0]]) * math.prod(shapes[node.input[3]][1:])


def _transposed(node: onnx.NodeProto, shapes: Shapes) -> int:
    return math.prod(shapes[node.input[0]]) * math.prod(shapes[node.input[1]][1:])


def _matmul(node: onnx.NodeProto, shapes: Shapes) -> int:
    return math.prod(shapes[node.output[0]]) * shapes[node.input[0]][-1]


def _gemm(node: onnx.NodeProto, shapes: Shapes) -> int:
    across = any(a.name == "transA" and a.i for a in node.attribute)
    return math.prod(shapes[node.output[0]]) * shapes[node.input[0]][0 if across else 1]


def _recurrent(node: onnx.NodeProto, shapes: Shapes) -> int:
    """W: [directions, gates * hidden, inputs]; the recurrent matrix has the same rows and ``hidden`` columns."""
    directions, rows, inputs = shapes[node.input[1]]
    steps = math.prod(shapes[node.input[0]][:2])
    return steps * directions * rows * (inputs + rows // GATES[node.op_type])


def _body(node: onnx.NodeProto, shapes: Shapes) -> int:
    raise ValueError(f"{node.op_type} {node.name}: what its body does is not counted")


RULES: dict[str, Callable[[onnx.NodeProto, Shapes], int]] = {
    "Conv": _convolution,
    "ConvInteger": _convolution,
    "QLinearConv": _quantized,
    "ConvTranspose": _transposed,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "Gemm": _gemm,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "Loop": _body,
    "Scan": _body,
    "If": _body,
}
