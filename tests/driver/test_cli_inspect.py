"""``byoc inspect``: what an artefact holds, and a model as it is imported, simplified and asked about."""

import json
import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from byoc.cli.main import main

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    return code, *capsys.readouterr()


@pytest.mark.needs_cc
def test_inspect_shows_an_artifact(capsys, artifact):
    code, out, _ = run(capsys, "inspect", artifact, "--source")
    assert code == 0
    shown = ("input   image: float32[batch, 1, 8, 8]", "output  probabilities: float32[batch, 10]", "json: tvmgen_")
    for text in shown:
        assert text in out
    assert '"op": "kernel"' in out and "int32_t tvmgen_default_fused" in out
    data = json.loads(run(capsys, "inspect", artifact, "--json")[1])
    assert (data["schema_version"], data["problems"], data["requires"]) == (1, {}, ["c", "json"])


def test_inspect_shows_a_model(capsys):
    code, out, _ = run(capsys, "inspect", DIGITS)
    assert code == 0 and "output  probabilities: float32[batch, 10]" in out
    data = json.loads(run(capsys, "inspect", DIGITS, "--json")[1])
    assert data["operators"]["nn.conv2d"] == 3
    text = run(capsys, "inspect", DIGITS, "--text")[1]
    assert "nn.conv2d(" in text and "def @main(" in text


def test_inspect_shows_the_graph_that_a_backend_of_integers_is_asked_about(capsys, tmp_path):
    weight = numpy_helper.from_array(np.eye(4, dtype="int8"), "weight")
    scale = numpy_helper.from_array(np.float32(0.5), "scale")
    zero = numpy_helper.from_array(np.int8(0), "zero")
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["weight", "scale", "zero"], ["w"]),
        helper.make_node("MatMul", ["d", "w"], ["p"]),
        helper.make_node("QuantizeLinear", ["p", "scale", "zero"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "scale", "zero"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight, scale, zero])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "q.onnx")
    assert "qnn." not in run(capsys, "inspect", str(tmp_path / "q.onnx"), "--text")[1]
    assert "qnn.dense(" in run(capsys, "inspect", str(tmp_path / "q.onnx"), "--text", "-t", "int8_npu,c")[1]


@pytest.mark.parametrize(
    ("file", "options", "message"),
    [
        ("none", [], "there is no such file"),
        ("", [], "this is a folder"),
        ("text.onnx", [], "text.onnx: is not an ONNX model"),
        ("text.byoc", [], "text.byoc: not a byoc artefact"),
        ("text.onnx", ["--source"], "--source is for artefacts"),
        ("text.byoc", ["--text"], "--text is for ONNX models"),
        ("text.byoc", ["-t", "c"], "--target is for ONNX models"),
    ],
)
def test_inspect_says_what_is_wrong_with_a_file(capsys, tmp_path, file, options, message):
    for name in ("text.onnx", "text.byoc"):
        (tmp_path / name).write_text("hello, text\n" * 9)
    code, _, err = run(capsys, "inspect", tmp_path / file, *options)
    assert code == 2 and message in err
