"""Sizes and divisors that ONNX Runtime refuses are refused in a sentence, when importing or by the run."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx import ModelProto

import byoc
from byoc.errors import ImportModelError, UserError

WINDOWS = ("HannWindow", "HammingWindow", "BlackmanWindow")
X = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
TARGETS = ["json", pytest.param("c", marks=pytest.mark.needs_cc)]


def parsed(graph: str) -> ModelProto:
    return onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 18]>\n' + graph)


def session(proto: ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(proto.SerializeToString(), options)


def refused_by_onnx_runtime(proto: ModelProto, feed: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=r"ONNXRuntimeError"):
        session(proto).run(None, feed)


@pytest.mark.parametrize("operator", WINDOWS)
def test_a_window_of_a_negative_size_is_refused(operator):
    known = parsed(f"g (float x) => (float[K] y) <int64 n = {{-4}}> {{ y = {operator} (n) }}")
    refused_by_onnx_runtime(known, {"x": np.float32(0)})
    with pytest.raises(ImportModelError, match=rf"\({operator}\): a window has 0 elements or more, got a size of -4"):
        byoc.import_onnx(known)
    given = parsed(f"g (int64 n) => (float[K] y) {{ y = {operator} (n) }}")
    refused_by_onnx_runtime(given, {"n": np.array(-4)})
    for target in ["json", "c"] if shutil.which("cc") else ["json"]:
        with pytest.raises(UserError, match=rf"\({operator}\): the size is a whole number from 0 on, got -4"):
            byoc.compile(given, target).run({"n": np.array(-4)})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("attributes", ["", " <periodic: int = 0>", " <output_datatype: int = 11>"])
@pytest.mark.parametrize("operator", WINDOWS)
def test_other_windows_are_onnx_runtimes(operator, attributes, target):
    kind = "double" if "datatype" in attributes else "float"
    source = parsed(f"g (int64 n) => ({kind}[K] y) {{ y = {operator}{attributes} (n) }}")
    made, wanted = byoc.compile(source, target), session(source)
    for size in (0, 2, 9):
        feed = {"n": np.array(size)}
        found = made.run(feed)[0]
        np.testing.assert_allclose(found, wanted.run(None, feed)[0], rtol=0, atol=2e-6, strict=True)


@pytest.mark.parametrize("policy", ["stretch", "not_larger"])
@pytest.mark.parametrize("size", [0, -2])
def test_a_resize_to_no_elements_is_refused_where_there_are_some(size, policy):
    node = f'y = Resize <keep_aspect_ratio_policy: string = "{policy}"> (x, , , s)'
    known = parsed(f"g (float[1, 1, 4, 4] x) => (float[A, B, C, D] y) <int64[4] s = {{1, 1, {size}, 4}}> {{ {node} }}")
    refused_by_onnx_runtime(known, {"x": X})
    with pytest.raises(
        ImportModelError, match=r"\(Resize\): (a dimension of \d cannot be resized to|sizes must be pos)"
    ):
        byoc.import_onnx(known)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("policy", ["stretch", "not_larger"])
def test_a_resize_to_no_elements_that_the_run_asks_for_is_refused(policy, mode, target):
    attributes = f'keep_aspect_ratio_policy: string = "{policy}", mode: string = "{mode}", axes: ints = [2, 3]'
    source = parsed(f"""g (float[1, 1, 4, 4] x, int64[2] s) => (float[A, B, C, D] y) {{
        y = Resize <{attributes}> (x, , , s)
    }}""")
    made, judge = byoc.compile(source, target), session(source)
    for sizes in ([0, 4], [3, -2]):
        refused_by_onnx_runtime(source, {"x": X, "s": np.array(sizes)})
        with pytest.raises(
            UserError, match=r"\(Resize\): ('all sizes are positive'|sizes must be|a dimension of 4 can)"
        ):
            made.run({"x": X, "s": np.array(sizes)})
    feed = {"x": X, "s": np.array([3, 2])}
    np.testing.assert_allclose(made.run(feed)[0], judge.run(None, feed)[0], rtol=1e-5, atol=1e-6, strict=True)


def test_a_resize_by_scales_to_no_elements_runs_as_in_onnx_runtime():
    source = parsed("""g (float[1, 1, 4, 4] x) => (float[A, B, C, D] y) <float[4] s = {1, 1, 0.1, 1}> {
        y = Resize (x, , s)
    }""")
    found = byoc.compile(source, "json").run({"x": X})[0]
    assert found.shape == session(source).run(None, {"x": X})[0].shape == (1, 1, 0, 4)


@pytest.mark.parametrize("operator", ["Div", "Mod", "Mod <fmod: int = 1>"])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_a_division_of_integers_by_a_constant_0_is_refused(operator, dtype):
    source = parsed(f"g ({dtype}[2] a) => ({dtype}[2] y) <{dtype}[2] b = {{1, 0}}> {{ y = {operator} (a, b) }}")
    if "fmod" not in operator:
        refused_by_onnx_runtime(source, {"a": np.array([5, 7], dtype)})
    with pytest.raises(ImportModelError, match=rf"\({operator[:3]}\): integers are divided by a constant 0; correct"):
        byoc.import_onnx(source)


def test_floats_may_be_divided_by_a_constant_0():
    source = parsed("g (float[3] a) => (float[3] y) <float[3] b = {0, 0, -0}> { y = Div (a, b) }")
    a = np.array([1, 0, -1], "float32")
    np.testing.assert_array_equal(byoc.compile(source, "json").run({"a": a})[0], session(source).run(None, {"a": a})[0])


@pytest.mark.parametrize("target", TARGETS)
def test_a_division_of_integers_by_a_0_of_the_run_gives_0(target):
    """ONNX leaves it open, ONNX Runtime refuses the run; a division that looked would not be vectorised."""
    source = parsed("g (int64[3] a, int64[3] b) => (int64[3] q, int64[3] r) { q = Div (a, b) r = Mod (a, b) }")
    feed = {"a": np.array([5, -5, 7]), "b": np.array([0, 0, 2])}
    refused_by_onnx_runtime(source, feed)
    quotient, rest = byoc.compile(source, target).run(feed)
    assert quotient.tolist() == [0, 0, 3] and rest.tolist() == [0, 0, 1]


def test_nodes_of_one_name_are_told_apart_by_their_places():
    """ONNX's checker takes them, ONNX Runtime does not."""
    source = parsed("g (float[2] x) => (float[2] y) { a = Exp (x) y = Neg (a) }")
    for node in source.graph.node:
        node.name = "same"
    onnx.checker.check_model(source, full_check=True)
    with pytest.raises(Exception, match="two nodes with same node name"):
        session(source)
    x = np.array([0, 1], "float32")
    np.testing.assert_allclose(byoc.compile(source, "json").run({"x": x})[0], -np.exp(x), rtol=1e-6)
