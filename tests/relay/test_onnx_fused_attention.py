"""ONNX Runtime's Attention and QAttention against ONNX Runtime."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc.errors import ImportModelError
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.interpreter import evaluate

BATCH, LENGTH, INPUTS, HEADS, HIDDEN, BEFORE = 2, 5, 12, 4, 16, 3
ORDER = {
    "Attention": ["x", "w", "b", "mask", "past", "added"],
    "QAttention": ["x", "w", "b", "x_scale", "w_scale", "mask", "x_zero", "w_zero", "past"],
}


def model(operator: str, given: dict, fixed=("w", "b", "w_scale", "x_scale", "w_zero", "x_zero"), **attrs):
    names = [name if name in given else "" for name in ORDER[operator]]
    while not names[-1]:
        names.pop()
    outputs = ["y", "present"] if "past" in given else ["y"]
    node = helper.make_node(operator, names, outputs, domain="com.microsoft", num_heads=HEADS, **attrs)
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(given[n].dtype), given[n].shape)
        for n in names
        if n and n not in fixed
    ]
    graph = helper.make_graph(
        [node],
        "g",
        values,
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(given[n], n) for n in names if n in fixed],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), {v.name: given[v.name] for v in values}


def inputs(operator: str, channels: bool = False) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    given = {"b": rng.normal(size=3 * HIDDEN).astype("float32")}
    if operator == "Attention":
        given["x"] = rng.normal(size=(BATCH, LENGTH, INPUTS)).astype("float32")
        given["w"] = rng.normal(size=(INPUTS, 3 * HIDDEN)).astype("float32")
        return given
    given["x"] = rng.integers(0, 256, (BATCH, LENGTH, INPUTS)).astype("uint8")
    # of 7 bits: on some processors ONNX Runtime saturates the sum of two products at 16 bits
    given["w"] = rng.integers(-63, 64, (INPUTS, 3 * HIDDEN)).astype("int8")
    given["x_scale"], given["x_zero"] = np.float32(0.02), np.uint8(120)
    given["w_scale"] = (rng.random(3 * HIDDEN) * 0.01 + 0.005).astype("float32") if channels else np.float32(0.01)
    given["w_zero"] = np.zeros(3 * HIDDEN, "int8") if channels else np.int8(3)
    return {name: np.asarray(value) for name, value in given.items()}


def check(operator: str, given: dict, **attrs) -> None:
    made, feeds = model(operator, given, **attrs)
    want = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    got = evaluate(import_onnx(made), feeds)
    for found, wanted in zip(got if isinstance(got, list) else [got], want, strict=True):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-5, atol=2e-5)


RNG = np.random.default_rng(6)
PAST = RNG.normal(size=(2, BATCH, HEADS, BEFORE, HIDDEN // HEADS)).astype("float32")
MASKS = {
    "none": None,
    "of each key": RNG.integers(0, 2, (BATCH, LENGTH)).astype("int32"),
    "of each pair": RNG.integers(0, 2, (BATCH, LENGTH, LENGTH)).astype("int32"),
    "ends": np.array([3, 5], "int32"),
    "ends and starts": np.array([4, 5, 1, 2], "int32"),
}


@pytest.mark.parametrize("operator", ORDER)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_with_a_mask_is_onnx_runtimes(operator, mask, unidirectional):
    given = inputs(operator)
    if MASKS[mask] is not None:
        given["mask"] = MASKS[mask]
    check(operator, given, unidirectional=unidirectional)


@pytest.mark.parametrize("operator", ORDER)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_behind_a_past_is_onnx_runtimes(operator, unidirectional):
    check(operator, {**inputs(operator), "past": PAST}, unidirectional=unidirectional)


def test_scales_for_each_column_a_scale_and_scores_that_are_added():
    check("QAttention", inputs("QAttention", channels=True), scale=0.3)
    added = RNG.normal(size=(1, HEADS, LENGTH, LENGTH)).astype("float32")
    check("Attention", {**inputs("Attention"), "added": added}, scale=0.3)


@pytest.mark.needs_cc
@pytest.mark.parametrize("operator", ORDER)
def test_no_part_of_it_runs_on_numpy_kernels(operator):
    given = {**inputs(operator), "mask": MASKS["of each key"]}
    made, feeds = model(operator, given, unidirectional=1)
    library = byoc.compile(made)
    want = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    assert not library.report.get("host_fallbacks")
    np.testing.assert_allclose(library.run(feeds)[0], want[0], rtol=5e-5, atol=5e-5)


@pytest.mark.needs_cc
@pytest.mark.parametrize("operator", ORDER)
@pytest.mark.parametrize("other", [{"mask": MASKS["of each key"]}, {"past": PAST}], ids=["mask", "past"])
def test_batch_and_lengths_may_be_free(operator, other):
    made, feeds = model(operator, {**inputs(operator), **other}, unidirectional=1)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    want = session.run(None, feeds)
    free = {"x": ["N", "S", INPUTS], "mask": ["N", "S"], "past": [2, "N", HEADS, "P", HIDDEN // HEADS]}
    for value in made.graph.input:
        element = value.type.tensor_type.elem_type
        value.CopyFrom(helper.make_tensor_value_info(value.name, element, free[value.name]))
    for found in (evaluate(import_onnx(made), feeds), byoc.compile(made).run(feeds)):
        for got, wanted in zip(found if isinstance(found, list) else [found], want, strict=True):
            np.testing.assert_allclose(np.asarray(got), wanted, rtol=5e-5, atol=5e-5)


def test_what_is_not_supported_is_refused():
    given = inputs("Attention")
    with pytest.raises(ImportModelError, match="do_rotary is not supported"):
        import_onnx(model("Attention", given, do_rotary=1)[0])
    with pytest.raises(ImportModelError, match=r"48 columns of queries, keys and values are no 4 heads of sizes"):
        import_onnx(model("Attention", given, qkv_hidden_sizes=[16, 12, 20])[0])
    with pytest.raises(ImportModelError, match="a mask of type .* is not supported for scores"):
        import_onnx(model("Attention", {**given, "mask": np.ones(8, "int32")})[0])
