"""Lengths of sequences, and TopK's k, that are more than there is: errors just where they are ONNX Runtime's."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import byoc
from byoc.driver.vm import compile_module
from byoc.errors import ImportModelError, IndexOutsideError, KernelError
from byoc.runtime import cpu
from byoc.runtime.vm import VirtualMachine
from fuzz.judge.onnx_runtime import session
from fuzz.judge.oracle import ORT_ERRORS

pytestmark = pytest.mark.needs_cc
STEPS, BATCH, SIZE = 4, 2, 3
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
OPERATORS = ["ReverseSequence", *GATES]
TARGETS = [["c"], ["json", "c"], pytest.param(["opencl", "c"], marks=pytest.mark.needs_opencl)]
value = helper.make_tensor_value_info


def saved(node, inputs, outputs, weights=()):
    graph = helper.make_graph([node], "g", inputs, outputs, [onnx.numpy_helper.from_array(w, n) for n, w in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def model_of(op, steps=STEPS, lengths=None):
    x = value("x", TensorProto.FLOAT, [steps, BATCH, SIZE])
    dtype = "int64" if op == "ReverseSequence" else "int32"
    asked = value("l", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [BATCH])
    weights = [] if lengths is None else [("l", np.array(lengths, dtype))]
    inputs = [x, asked] if lengths is None else [x]
    out = [helper.make_empty_tensor_value_info("y")]
    if op == "ReverseSequence":
        return saved(helper.make_node(op, ["x", "l"], ["y"], name="here"), inputs, out, weights)
    rng = np.random.default_rng(0)
    weights += [(n, rng.standard_normal((1, GATES[op] * SIZE, SIZE)).astype("float32")) for n in "wr"]
    return saved(
        helper.make_node(op, ["x", "w", "r", "", "l"], ["y"], name="here", hidden_size=SIZE), inputs, out, weights
    )


def wanted_of(model, inputs):
    """What ONNX Runtime gives, None where it refuses.

    Its ReverseSequence reads in front of its memory for a length of 0 in versions such as 1.23, the last for Python
    3.10: which numbers are wanted is said by numpy.
    """
    try:
        wanted = session(model).run(None, inputs)
    except ORT_ERRORS:
        return None
    if model.graph.node[0].op_type == "ReverseSequence":
        wanted = [inputs["x"].copy()]
        for k, length in enumerate(inputs["l"]):
            wanted[0][:length, k] = wanted[0][:length, k][::-1]
    return wanted


@pytest.mark.parametrize("steps", [STEPS, "T"])
@pytest.mark.parametrize("targets", TARGETS, ids=lambda t: t[0])
@pytest.mark.parametrize("op", OPERATORS)
def test_every_backend_refuses_the_lengths_that_onnxruntime_refuses(op, targets, steps):
    model = model_of(op, steps)
    library, x = byoc.compile(model, targets=targets), np.random.default_rng(1).random((STEPS, BATCH, SIZE), "float32")
    refused = 0
    for given in ((4, 2), (0, 1), (5, 1), (1, -1), (2**31 - 1, 4), (-(2**31), 4), (3, 3)):
        inputs = {"x": x, "l": np.array(given, "int64" if op == "ReverseSequence" else "int32")}
        wanted = wanted_of(model, inputs)
        if wanted is not None:
            np.testing.assert_allclose(library.run(inputs)[0], wanted[0], rtol=1e-5, atol=1e-6)
            continue
        refused += 1
        wrong = next(v for v in given if not 0 <= v <= STEPS)
        with pytest.raises(IndexOutsideError) as caught:
            library.run(inputs)
        assert str(caught.value) == (
            f"node here ({op}), length along axis 0: {wrong} is outside a dimension of 4; give lengths from 0 to 4"
        )
    assert refused == 4


@pytest.mark.parametrize("op", OPERATORS)
def test_a_length_that_is_known_is_refused_when_importing(op):
    for lengths in ((4, 5), (-1, 4)):
        with pytest.raises(ImportModelError, match="a length of .* is outside an axis of 4; give lengths from 0 to 4"):
            byoc.compile(model_of(op, lengths=lengths))
    library = byoc.compile(model_of(op, "T", (4, 1)))
    library.run({"x": np.zeros((4, BATCH, SIZE), "float32")})
    with pytest.raises(IndexOutsideError, match="4 is outside a dimension of 3"):
        library.run({"x": np.zeros((3, BATCH, SIZE), "float32")})


def test_the_machine_refuses_a_length_too():
    machine = VirtualMachine(compile_module(byoc.import_onnx(model_of("LSTM"))), cpu())
    with pytest.raises(IndexOutsideError, match="length along axis 0: 9 is outside"):
        machine.run(x=np.zeros((STEPS, BATCH, SIZE), "float32"), l=np.array([9, 1], "int32"))


@pytest.mark.parametrize("targets", TARGETS, ids=lambda t: t[0])
def test_more_than_there_are_cannot_be_the_largest(targets):
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], name="here", axis=1)
    model = saved(
        node,
        [value("x", TensorProto.FLOAT, [2, 5]), value("k", TensorProto.INT64, [1])],
        [helper.make_empty_tensor_value_info("v"), helper.make_empty_tensor_value_info("i")],
    )
    library, x = byoc.compile(model, targets=targets), np.random.default_rng(1).random((2, 5), "float32")
    for k in (0, 1, 5):
        inputs = {"x": x, "k": np.array([k])}
        for found, wanted in zip(library.run(inputs), wanted_of(model, inputs), strict=True):
            np.testing.assert_array_equal(found, wanted)
    inputs = {"x": x, "k": np.array([6])}
    assert wanted_of(model, inputs) is None
    generated, kernel = (
        "node here .*: k, length along axis 1: 6 is outside a dimension of 5",
        "topk: k is 6, axis 1 has 5",
    )
    with pytest.raises((IndexOutsideError, KernelError), match=f"{generated}|{kernel}"):
        library.run(inputs)
