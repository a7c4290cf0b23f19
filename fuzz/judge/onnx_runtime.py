"""ONNX Runtime as an oracle: quiet, on one thread, and with exact sums of bytes of every sign on every processor.

On x86 processors without VNNI instructions ONNX Runtime adds products of unsigned by signed bytes two by two in 16
bits, which saturate: 255 * 127 + 255 * 127 becomes 32767. Its products of unsigned by unsigned bytes are exact
everywhere. It has no kernel for signed data with unsigned weights, and ONNX's reference, which has, is no oracle for
these: it rounds in float64 after the zero point was added, where ONNX says that ``x / y_scale`` is rounded half to
even, so that of ties the odd zero points go the other way. So a product of bytes is asked for in unsigned bytes
whatever its types are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime
from onnx import ModelProto, NodeProto

# operator -> where its bytes are, each value with its zero point; ConvInteger is exact as it is
PRODUCTS_OF_BYTES = {
    "MatMulInteger": ((0, 2), (1, 3)),
    "QLinearMatMul": ((0, 2), (3, 5)),
    "QLinearConv": ((0, 2), (3, 5)),
}
OUTPUT_ZERO = {"QLinearMatMul": 7, "QLinearConv": 7}  # the zero point of an output that is bytes too
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


@dataclass(frozen=True)
class UnsignedProduct:
    """A node over unsigned bytes, and its *feeds*. *is_shifted*: its output is 128 more than the signed node's."""

    node: NodeProto
    feeds: dict[str, np.ndarray]
    is_shifted: bool = False

    def outputs(self, found: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What the node that was given has for outputs, where this one's are *found*."""
        return [_moved(v, np.int8, -128) for v in found] if self.is_shifted else list(found)


def unsigned_product(node: NodeProto, feeds: Mapping[str, np.ndarray]) -> UnsignedProduct:
    """*node* with its signed bytes as unsigned ones: 128 more, and so are their zero points.

    The numbers that the node stands for are the same. A node of another operator is given back as it is.
    """
    found = dict(feeds)
    if node.op_type not in PRODUCTS_OF_BYTES:
        return UnsignedProduct(node, found)
    pairs = PRODUCTS_OF_BYTES[node.op_type]
    names = [*node.input, *[""] * (pairs[-1][1] + 1 - len(node.input))]
    for data, zero in pairs:
        if feeds[names[data]].dtype == np.int8:
            point = feeds[names[zero]] if names[zero] else np.zeros((), np.int8)
            _replace(names, found, data, _moved(feeds[names[data]], np.uint8, 128))
            _replace(names, found, zero, _moved(point, np.uint8, 128))
    at = OUTPUT_ZERO.get(node.op_type)
    is_shifted = False
    if at is not None and feeds[names[at]].dtype == np.int8:
        _replace(names, found, at, _moved(feeds[names[at]], np.uint8, 128))
        is_shifted = True
    while names and not names[-1]:
        names.pop()
    changed = NodeProto()
    changed.CopyFrom(node)
    del changed.input[:]
    changed.input.extend(names)
    return UnsignedProduct(changed, {n: v for n, v in found.items() if n in names}, is_shifted)


def _replace(names: list[str], feeds: dict[str, np.ndarray], at: int, value: np.ndarray) -> None:
    """Make *value* the input at a place, under a name of its own: others may read the same value as signed bytes."""
    names[at] = f"unsigned {at}"
    feeds[names[at]] = value


def _moved(values: np.ndarray, dtype: type[np.generic], by: int) -> np.ndarray:
    return np.asarray(values.astype(np.int16) + by).astype(dtype)
