"""A model in float64: every floating-point input, constant and cast made float64, so that rounding does not count."""

from __future__ import annotations

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, numpy_helper

from fuzz.case import Feeds
from fuzz.judge.oracle import NotApplicable, evaluate, is_float, opset_of, read_names, run_node

# their float operations are stated one by one, each rounded once: every IEEE 754 implementation has the same numbers
STATED = frozenset(
    [
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "QLinearMatMul",
        "QLinearConv",
        "Mod",
        "IsNaN",
        "IsInf",
    ]
)
PICKS = frozenset(["MaxPool", "GlobalMaxPool", "Relu", "Max", "Min", "ReduceMax", "ReduceMin"])
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def in_float64(model: ModelProto, feeds: Feeds) -> tuple[ModelProto, Feeds]:
    """*model* and *feeds* with float64 wherever they have a narrower floating-point type."""
    wide = ModelProto()
    wide.CopyFrom(model)
    _widen_graph(wide.graph)
    return wide, {name: widened(value) for name, value in feeds.items()}


def values_in_float64(model: ModelProto, feeds: Feeds) -> Feeds:
    """Every value of *model* with its floats in float64, node by node, as :func:`fuzz.judge.oracle.evaluate`.

    Nodes that read no float, and those whose rounding ONNX states, compute in their own types; so does a node that
    picks elements and that nothing here has in float64. Raises NotApplicable where a node cannot be computed.
    """
    own, (wide, values) = evaluate(model, feeds), in_float64(model, feeds)
    values |= {w.name: numpy_helper.to_array(w) for w in wide.graph.initializer}
    opset = opset_of(model)
    for node, wide_node in zip(model.graph.node, wide.graph.node, strict=True):
        names = [n for n in read_names(node) if n in own]
        narrow = {n: values[n].astype(own[n].dtype) for n in names}
        if node.op_type in STATED or not any(is_float(own[n].dtype) for n in names):
            found = run_node(node, opset, narrow)
        else:
            try:
                found = run_node(wide_node, opset, values)
            except NotApplicable:
                if node.op_type not in PICKS:
                    raise
                found = run_node(node, opset, narrow)
        values.update(zip([n for n in node.output if n], map(widened, found), strict=True))
    return values


def widened(value: np.ndarray) -> np.ndarray:
    """A floating-point array as float64, others as they are."""
    return value.astype("float64") if value.dtype.kind == "f" or str(value.dtype) == "bfloat16" else value


def _widen_graph(graph: GraphProto) -> None:
    for weight in graph.initializer:
        _widen_tensor(weight)
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type in FLOATS:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            _widen_attribute(node.op_type, attribute)


def _widen_attribute(operator: str, attribute: AttributeProto) -> None:
    if attribute.type == AttributeProto.TENSOR:
        _widen_tensor(attribute.t)
    elif attribute.type == AttributeProto.GRAPH:
        _widen_graph(attribute.g)
    elif attribute.name in ("to", "dtype") and attribute.i in FLOATS:
        attribute.i = TensorProto.DOUBLE


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in FLOATS:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float64"), tensor.name))
