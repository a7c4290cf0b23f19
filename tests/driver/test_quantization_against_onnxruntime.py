"""Our quantization of an ONNX model in float32 beside ONNX Runtime's own, by the same samples."""

from __future__ import annotations

import numpy as np
import pytest

import byoc
from fuzz.judge.onnx_runtime import session

onnx = pytest.importorskip("onnx")
quantization = pytest.importorskip("onnxruntime.quantization")
pytestmark = pytest.mark.needs_cc


def _samples(seeds: range) -> list[dict[str, np.ndarray]]:
    return [{"x": np.random.default_rng(s).standard_normal((1, 3, 24, 24)).astype("float32")} for s in seeds]


def _network(path):
    """Convolutions with ReLU and a residual sum, a pool, a mean and a classifier, with weights as a start has them."""
    helper, rng, weights = onnx.helper, np.random.default_rng(8), {}

    def weight(name: str, *shape: int) -> str:
        values = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        weights[name] = values.astype("float32")
        return name

    def conv(name: str, x: str, inputs: int, outputs: int, side: int) -> list:
        weights[f"{name}_b"] = rng.standard_normal(outputs).astype("float32") / 8
        pads = [side // 2] * 4
        return [
            helper.make_node(
                "Conv", [x, weight(f"{name}_w", outputs, inputs, side, side), f"{name}_b"], [name], name=name, pads=pads
            )
        ]

    nodes = [
        *conv("a", "x", 3, 16, 3),
        helper.make_node("Relu", ["a"], ["ar"]),
        helper.make_node("MaxPool", ["ar"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        *conv("b", "p", 16, 16, 3),
        helper.make_node("Relu", ["b"], ["br"]),
        *conv("c", "br", 16, 16, 1),
        helper.make_node("Add", ["c", "p"], ["s"]),
        helper.make_node("Relu", ["s"], ["sr"]),
        *conv("d", "sr", 16, 32, 3),
        helper.make_node("Relu", ["d"], ["dr"]),
        helper.make_node("GlobalAveragePool", ["dr"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", weight("m_w", 32, 40)], ["y"], name="m"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 24, 24])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 40])],
        [onnx.numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class _Reader(quantization.CalibrationDataReader):
    def __init__(self) -> None:
        self.left = iter(_samples(range(8)))

    def get_next(self):
        return next(self.left, None)


def test_we_lose_no_more_than_onnxruntime_does_with_the_same_samples(tmp_path):
    path, theirs = tmp_path / "m.onnx", tmp_path / "int8.onnx"
    _network(path)
    quantization.quantize_static(
        str(path),
        str(theirs),
        _Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )
    library = byoc.compile(path, precision="int8", calibration=_samples(range(8)))
    full, quantized = session(path), session(theirs)
    wanted, ours, peers = [], [], []
    for sample in _samples(range(100, 116)):
        wanted.append(full.run(None, sample)[0])
        ours.append(library.run(sample)[0] - wanted[-1])
        peers.append(quantized.run(None, sample)[0] - wanted[-1])
    assert 0 < np.linalg.norm(ours) <= 1.05 * np.linalg.norm(peers)
    assert np.linalg.norm(ours) < 0.03 * np.linalg.norm(wanted)
    answers = [(w.argmax(), (w + o).argmax()) for w, o in zip(wanted, ours, strict=True)]
    assert sum(a == b for a, b in answers) >= 15
