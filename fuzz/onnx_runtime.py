"""ONNX Runtime as an oracle: quiet, on one thread, and with exact sums of bytes on every processor.

On x86 processors without VNNI instructions ONNX Runtime adds products of unsigned by signed bytes two by two in 16 bits,
which saturate: 255 * 127 + 255 * 127 becomes 32767. Its products of unsigned by unsigned bytes are exact everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import onnxruntime
from onnx import ModelProto, NodeProto

# operator -> where its inputs are: data, weights, zero point of the weights. ConvInteger is exact as it is
PRODUCTS_OF_BYTES = {"MatMulInteger": (0, 1, 3), "QLinearMatMul": (0, 3, 5), "QLinearConv": (0, 3, 5)}
EXACT_PRODUCTS = "session.x64quantprecision"  # constant signed weights become unsigned ones when a graph is optimised


def session(model: ModelProto | str | os.PathLike[str], optimised: bool = True) -> onnxruntime.InferenceSession:
    """ONNX Runtime on *model*, or on the file of that name; without optimisations unless *optimised*."""
    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry(EXACT_PRODUCTS, "1")
    data = model.SerializeToString() if isinstance(model, ModelProto) else os.fspath(model)
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def unsigned_products(node: NodeProto, feeds: Mapping[str, np.ndarray]) -> tuple[NodeProto, dict[str, np.ndarray]]:
    """*node* and its *feeds* with int8 weights of uint8 data as uint8: 128 more, and so is their zero point.

    The numbers that the node stands for are the same. A node of another operator, or of other types, is given back.
    """
    found = dict(feeds)
    if node.op_type not in PRODUCTS_OF_BYTES:
        return node, found
    data, weights, zero = PRODUCTS_OF_BYTES[node.op_type]
    values = feeds[node.input[weights]]
    if feeds[node.input[data]].dtype != np.uint8 or values.dtype != np.int8:
        return node, found
    given = node.input[zero] if len(node.input) > zero else ""
    names = [*node.input, *[""] * (zero + 1 - len(node.input))]
    names[weights], names[zero] = "unsigned weights", "unsigned zero"
    found["unsigned weights"] = _unsigned(values)
    found["unsigned zero"] = _unsigned(feeds[given] if given else np.zeros((), np.int8))
    changed = NodeProto()
    changed.CopyFrom(node)
    del changed.input[:]
    changed.input.extend(names)
    return changed, {n: v for n, v in found.items() if n in names}


def _unsigned(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.astype(np.int16) + 128).astype(np.uint8)
