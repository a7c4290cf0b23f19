"""The statistics of values: numbers by hand, the first NaN, every backend, and the command."""

import json

import numpy as np
import onnx
import onnx.parser
import pytest

import byoc
from byoc.cli.main import main
from byoc.debug import statistics
from byoc.errors import UserError

MODEL = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17]>
    g (float[4] x) => (float[4] y) <float[4] two = {2, 2, 2, 2}> {
        [doubled] d = Mul(x, two)
        [root] r = Sqrt(d)
        [end] y = Tanh(r)
    }""")
X = np.array([0.5, 2, 8, 18], "float32")


def test_the_numbers_are_those_of_the_tensors():
    found = statistics(MODEL, ["json", "c"], inputs={"x": X})
    assert [r.nodes for r in found.rows] == [("doubled",), ("root",), ("end",)]
    doubled, root, _ = found.rows
    assert (doubled.mean, doubled.min, doubled.max) == (14.25, 1, 36)
    assert doubled.growth == pytest.approx(2) and doubled.std == pytest.approx(np.std(2 * X))
    assert (root.mean, root.min, root.max, root.nans, root.infinite) == (3.25, 1, 6, 0, 0)
    assert root.growth == pytest.approx(np.sqrt(np.mean([1, 4, 16, 36]) / np.mean(np.square(2 * X))), rel=1e-5)
    assert root.ave_grow_rate == pytest.approx((1 / 1 + 2 / 2 + 2 / 4) / 4, rel=1e-4)
    assert found.first_not_finite is None


@pytest.mark.needs_cc
def test_the_first_tensor_that_is_not_finite_is_named():
    found = statistics(MODEL, inputs={"x": -X})
    assert found.first_not_finite.nodes == ("root",) and found.first_not_finite.nans == 4
    assert "first tensor that is not finite: root (4 NaN, 0 infinite)" in str(found)


def test_of_a_library_the_values_between_its_parts_are_seen():
    found = statistics(byoc.compile(MODEL, ["json", "c"]), inputs={"x": X})
    assert [r.nodes for r in found.rows] == [("doubled", "root", "end")]
    with pytest.raises(UserError, match="the model has no input 'q'; its inputs are x"):
        statistics(MODEL, ["json", "c"], inputs={"q": X})


def test_the_command_prints_and_writes_them(tmp_path, capsys):
    model, path = tmp_path / "m.onnx", tmp_path / "v.json"
    onnx.save(MODEL, model)
    np.save(tmp_path / "x.npy", X)
    words = ["profile", str(model), "--values", "-t", "json,c", "-i", f"x={tmp_path / 'x.npy'}"]
    assert main([*words, "-o", str(path)]) == 0
    assert "ave_grow_rate" in capsys.readouterr().out
    shown = json.loads(path.read_text())
    assert [row["name"] for row in shown["tensors"]] == ["doubled", "root", "end"]
    assert shown["tensors"][0]["growth"] == pytest.approx(2)
    for more, text in (
        (["--vm"], "the values of a graph are looked at"),
        (["--strict"], "where backend_options has no meaning"),
        (["-o", "v.html"], "values are written as .json"),
        (["--compare", str(path)], "byoc compare holds the values of two runs"),
    ):
        assert main([*words, *more]) == 2 and text in capsys.readouterr().err
