"""Sizes that a run gives and no tensor can have: an error of the run in one sentence, as ONNX Runtime has one."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import byoc
from byoc.errors import UserError
from fuzz.judge.onnx_runtime import session

pytestmark = pytest.mark.needs_cc
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
X = np.ones(1, "float32")
CASES = {
    "tiled below 0": ("g (float[N] x, int64[1] s) => (float[] y) { y = Tile (x, s) }", {"x": X, "s": [-2]}),
    "tiled beyond": ("g (float[N] x, int64[1] s) => (float[] y) { y = Tile (x, s) }", {"x": X, "s": [1 << 62]}),
    "filled below 0": ("g (int64[2] s) => (float[] y) { y = ConstantOfShape (s) }", {"s": [-2, 3]}),
    "filled beyond": ("g (int64[2] s) => (float[] y) { y = ConstantOfShape (s) }", {"s": [1 << 62, 1 << 62]}),
    "expanded below 0": ("g (float[N] x, int64[1] s) => (float[] y) { y = Expand (x, s) }", {"x": X, "s": [-2]}),
    "a range beyond": (
        "g (int64 b) => (int64[] y) <int64 zero = {0}, int64 one = {1}> { y = Range (zero, b, one) }",
        {"b": 1 << 60},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_size_that_no_tensor_has_is_an_error_in_one_sentence(name: str) -> None:
    text, given = CASES[name]
    model = onnx.parser.parse_model(HEAD + text)
    feeds = {key: np.asarray(value) for key, value in given.items()}
    with pytest.raises(Exception, match=r".") as theirs:
        session(model).run(None, feeds)
    assert not isinstance(theirs.value, UserError)
    with pytest.raises(UserError, match=r"^[^\n]+$"):
        byoc.compile(model).run(feeds)
