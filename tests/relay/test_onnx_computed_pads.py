"""Pad by numbers that a model computes, as PyTorch's exporter writes padding up to a multiple of a stride."""

import numpy as np
import onnx.parser
import pytest

import byoc
from byoc.errors import ImportModelError

onnxruntime = pytest.importorskip("onnxruntime")
HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'
WHOLE = 'g (float[B, 2, T] x, int64[6] p) => (float[] y) {{ y = Pad <mode: string = "{}"> (x, p) }}'
AXES = """g (float[B, 2, T] x, int64[2] p) => (float[] y) <float fill = {{2.5}}, int64[1] axes = {{-1}}> {{
    z = Pad <mode: string = "{}"> (x, p, fill, axes)
    y = Relu (z)
}}"""
CASES = [
    (WHOLE, "constant", [0, 1, 2, 0, 0, 3]),
    (WHOLE, "constant", [0, 0, -1, 0, 0, 2]),
    (WHOLE, "edge", [1, 0, 2, 0, 1, 3]),
    (WHOLE, "reflect", [0, 1, 2, 0, 0, 3]),
    (AXES, "constant", [1, 2]),
    (AXES, "edge", [3, -2]),
    (AXES, "reflect", [0, 4]),
]


@pytest.mark.parametrize("text, mode, pads", CASES)
def test_pads_that_are_inputs(text, mode, pads):
    model = onnx.parser.parse_model(HEAD + text.format(mode))
    library = byoc.compile(model, ["c"])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for length in (5, 8):
        x = np.random.default_rng(length).normal(0, 1, (3, 2, length)).astype("float32")
        feed = {"x": x, "p": np.array(pads, "int64")}
        np.testing.assert_array_equal(library.run(feed)[0], session.run(None, feed)[0])


def test_sizes_that_computed_pads_do_not_touch_stay_known():
    """Only the last axis is padded by a computed number: batch and channels keep their names."""
    text = """g (float[B, 2, T] x, int64[1] after) => (float[] y) <int64[5] none = {0, 0, 1, 0, 0}> {
        p = Concat <axis: int = 0> (none, after)
        y = Pad (x, p)
    }"""
    mod = byoc.relay.frontend.from_onnx(onnx.parser.parse_model(HEAD + text))
    mod = mod[0] if isinstance(mod, tuple) else mod
    assert [str(d) for d in byoc.relay.transform.InferType()(mod)["main"].body.checked_type.shape] == ["?B", "2", "?"]


def test_too_few_computed_pads_are_a_sentence():
    text = WHOLE.format("edge").replace("int64[6]", "int64[4]")
    with pytest.raises(ImportModelError, match="pads needs 6 numbers for 3 axes"):
        byoc.compile(onnx.parser.parse_model(HEAD + text), ["c"])
