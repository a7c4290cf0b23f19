"""ONNX Runtime's LSTM with weights of 8 bits against ONNX Runtime.

Of inputs that 8 bits hold exactly, one step is ONNX Runtime's own to a rounding of float32; over several steps the
layer is ONNX Runtime's LSTM with dequantised weights, since only ONNX Runtime rounds the hidden state between them.
"""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from byoc.errors import ImportModelError
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.interpreter import evaluate

BATCH, INPUTS, HIDDEN = 3, 16, 8


def draw(kind: str, per_channel: bool, direction: str, steps: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(steps)
    directions = 2 if direction == "bidirectional" else 1
    limits, middle = np.iinfo(kind), 0 if kind == "int8" else 128
    scales = (directions, 4 * HIDDEN) if per_channel else (directions,)
    values = {
        "W": rng.integers(limits.min, limits.max, (directions, INPUTS, 4 * HIDDEN)).astype(kind),
        "R": rng.integers(limits.min, limits.max, (directions, HIDDEN, 4 * HIDDEN)).astype(kind),
        "B": rng.normal(size=(directions, 8 * HIDDEN)).astype("float32"),
        "h": rng.integers(0, 256, (directions, BATCH, HIDDEN)).astype("float32") / 256,
        "c": rng.normal(size=(directions, BATCH, HIDDEN)).astype("float32"),
        "W_scale": (rng.random(scales) * 0.004 + 0.001).astype("float32"),
        "W_zero": np.full(scales, middle + (0 if per_channel else 3), kind),
        "R_scale": (rng.random(scales) * 0.004 + 0.001).astype("float32"),
        "R_zero": np.full(scales, middle, kind),
        "x": rng.integers(0, 256, (steps, BATCH, INPUTS)).astype("float32") / 64,
    }
    values["h"][:, :, 0], values["h"][:, :, 1] = 0, 255 / 256  # the range of 8 bits, whose scale is a power of two
    values["x"][:, :, 0], values["x"][:, :, 1] = 0, 255 / 64
    return values


def model(operator: str, domain: str, values: dict, names: list[str], direction: str):
    node = helper.make_node(
        operator, names, ["Y", "Y_h", "Y_c"], domain=domain, hidden_size=HIDDEN, direction=direction
    )
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in node.output]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, values["x"].shape)
    held = [numpy_helper.from_array(values[n], n) for n in names if n and n != "x"]
    graph = helper.make_graph([node], "g", [given], outputs, held)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


QUANTISED = ["x", "W", "R", "B", "", "h", "c", "", "W_scale", "W_zero", "R_scale", "R_zero"]


def quantised(values: dict, direction: str):
    return model("DynamicQuantizeLSTM", "com.microsoft", values, QUANTISED, direction)


def dequantised(values: dict, direction: str):
    def floats(name: str) -> np.ndarray:
        shape = (-1, 1, values[f"{name}_scale"].shape[-1] if values[f"{name}_scale"].ndim > 1 else 1)
        zero, scale = (values[f"{name}_{part}"].reshape(shape) for part in ("zero", "scale"))
        return np.ascontiguousarray(
            ((values[name].astype("int32") - zero.astype("int32")).astype("float32") * scale).transpose(0, 2, 1)
        )

    plain = {**values, "W": floats("W"), "R": floats("R")}
    return model("LSTM", "", plain, ["x", "W", "R", "B", "", "h", "c"], direction)


def by_onnxruntime(made, values: dict) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": values["x"]})


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_layer_with_weights_of_8_bits_is_onnx_runtimes(kind, per_channel, direction, request):
    if kind == "int8":
        request.getfixturevalue("exact_bytes")
    for steps, other in ((1, quantised), (5, dequantised)):
        values = draw(kind, per_channel, direction, steps)
        found = evaluate(import_onnx(quantised(values, direction)), {"x": values["x"]})
        for got, want in zip(found, by_onnxruntime(other(values, direction), values), strict=True):
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=2e-5)


def test_weights_of_another_type_are_refused():
    values = draw("int8", False, "forward", 1)
    values["W"] = values["W"].astype("float32")
    with pytest.raises(ImportModelError, match="input 1 is int8 or uint8 of three dimensions, got .*float32"):
        import_onnx(quantised(values, "forward"))
