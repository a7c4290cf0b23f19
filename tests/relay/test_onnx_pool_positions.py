"""The second output of MaxPool over a free batch and free images, against ONNX Runtime at several sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import byoc

BATCH, SIZES = ("n", 2, 7, 6), ("n", 2, "h", "w")
WINDOWS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 2, 1]},
    {"kernel_shape": [3, 3], "strides": [1, 2], "pads": [2, 1, 2, 1], "storage_order": 1},
    {"kernel_shape": [2, 2], "dilations": [2, 3], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [2, 2], "strides": [3, 3], "auto_pad": "SAME_LOWER"},
]


def _model(shape: tuple[object, ...], attributes: dict[str, Any]) -> bytes:
    rank = len(shape)
    node = helper.make_node("MaxPool", ["x"], ["y", "at"], "pool", **attributes)
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank),
        helper.make_tensor_value_info("at", TensorProto.INT64, [None] * rank),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    graph = helper.make_graph([node], "pool", inputs, outputs)
    opsets = [helper.make_opsetid("", 12)]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return model.SerializeToString()


def _is_right_for(model: bytes, shapes: list[tuple[int, ...]]) -> None:
    library = byoc.compile(model)
    session = onnxruntime.InferenceSession(model)
    rng = np.random.default_rng(0)
    for shape in shapes:
        x = rng.integers(-3, 3, shape).astype("float32")  # few values, so that the greatest stand several times
        for ours, theirs in zip(library.run({"x": x}), session.run(None, {"x": x}), strict=True):
            np.testing.assert_array_equal(ours, theirs)


# a batch alone that is free: every other window by default
SHAPED = [
    pytest.param(shape, window, id=f"{name}-{window}", marks=[pytest.mark.slow] if shape is BATCH and k % 2 else [])
    for name, shape in (("free batch", BATCH), ("free images", SIZES))
    for k, window in enumerate(WINDOWS)
]


@pytest.mark.parametrize("shape, attributes", SHAPED)
def test_positions_in_images_of_free_sizes_are_onnx_runtimes(
    shape: tuple[object, ...], attributes: dict[str, Any]
) -> None:
    sizes = [(7, 6), (7, 6)] if shape is BATCH else [(7, 6), (9, 8), (12, 7)]
    _is_right_for(_model(shape, attributes), [(n + 1, 2, *size) for n, size in enumerate(sizes)])


def test_positions_in_rows_and_in_volumes_of_free_sizes_are_onnx_runtimes() -> None:
    _is_right_for(_model(("n", 3, "w"), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}), [(1, 3, 5), (2, 3, 8)])
    window = {"kernel_shape": [2, 2, 3], "strides": [2, 1, 2], "pads": [0, 1, 1, 0, 1, 1]}
    _is_right_for(_model(("n", 1, "d", "h", "w"), window), [(1, 1, 4, 3, 5), (2, 1, 5, 6, 7)])
