"""ONNX Runtime's LSTM with weights of 8 bits against ONNX Runtime.

ONNX Runtime rounds the inputs, and the hidden state at each step, to 8 bits by their range: that of the states over the
rows of one thread, so that it is asked with one.
"""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
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
    held = [numpy_helper.from_array(values[n], n) for n in names if n in values and n != "x"]
    graph = helper.make_graph([node], "g", [given], outputs, held)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


QUANTISED = ["x", "W", "R", "B", "", "h", "c", "", "W_scale", "W_zero", "R_scale", "R_zero"]


def quantised(values: dict, direction: str):
    return model("DynamicQuantizeLSTM", "com.microsoft", values, QUANTISED, direction)


def by_onnxruntime(made, values: dict) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": values["x"]})


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_layer_with_weights_of_8_bits_is_onnx_runtimes(kind, per_channel, direction, request):
    if kind == "int8":
        request.getfixturevalue("exact_bytes")
    for steps in (1, 5):
        values = draw(kind, per_channel, direction, steps)
        found = evaluate(import_onnx(quantised(values, direction)), {"x": values["x"]})
        for got, want in zip(found, by_onnxruntime(quantised(values, direction), values), strict=True):
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=2e-5)


@pytest.mark.needs_cc
def test_a_compiled_layer_rounds_inputs_and_states_as_onnx_runtime_does():
    """Free steps and batch, states that start at zeros; an LSTM in floats is hundreds of times as far away."""
    values = draw("uint8", False, "bidirectional", 4)
    del values["h"], values["c"]
    made = quantised(values, "bidirectional")
    made.graph.node[0].input[5] = made.graph.node[0].input[6] = ""
    for axis, free in enumerate(("steps", "batch")):
        made.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = free
    library = byoc.compile(made, ["c"])
    assert not library.report["host_fallbacks"]
    for shape in ((6, 1), (11, 3)):
        values["x"] = np.random.default_rng(5).normal(size=(*shape, INPUTS)).astype("float32")
        for got, want in zip(library.run({"x": values["x"]}), by_onnxruntime(made, values), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=5e-6)


def test_weights_of_another_type_are_refused():
    values = draw("int8", False, "forward", 1)
    values["W"] = values["W"].astype("float32")
    with pytest.raises(ImportModelError, match="input 1 is int8 or uint8 of three dimensions, got .*float32"):
        import_onnx(quantised(values, "forward"))
