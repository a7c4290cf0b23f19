"""``byoc opt``: the simplified graph as ONNX again computes what the model does, by ONNX Runtime."""

import json
import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import byoc
from byoc.cli.main import main
from byoc.driver.models.against_onnxruntime import Agreement, difference
from byoc.errors import CompileError, ImportModelError, UserError
from byoc.relay.onnx_writer.tidy import tidied

ROOT = pathlib.Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
MODELS = ROOT.parent / "shared" / "models"
RNG = np.random.default_rng(0)


def model(nodes, inputs, outputs, constants=(), name="g"):
    def typed(values):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in values.items()]

    tensors = [numpy_helper.from_array(a, n) for n, a in dict(constants).items()]
    graph = helper.make_graph(nodes, name, typed(inputs), typed(outputs), tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def normal(*shape):
    return RNG.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("name", ["face_rfb_320", "mnist", "style_candy"])
def test_a_model_from_the_field_is_written_smaller_and_runs_the_same(name, tmp_path, capsys):
    path = MODELS / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    pytest.importorskip("onnxruntime")
    sizes = ["--shape", "inputImage=1,3,720,720"] if name == "style_candy" else []
    written = tmp_path / "better.onnx"
    assert main(["opt", str(path), "-o", str(written), "--json", *sizes]) == 0
    shown = json.loads(capsys.readouterr().out)
    before, after = onnx.load(path), onnx.load(written)
    assert shown["source_nodes"] == len(before.graph.node) > shown["nodes"] == len(after.graph.node)
    assert shown["onnxruntime"]["largest_difference"] < 1e-4
    weights = {t.name for t in before.graph.initializer}
    assert [v.name for v in after.graph.input] == [v.name for v in before.graph.input if v.name not in weights]
    assert [v.name for v in after.graph.output] == [v.name for v in before.graph.output]
    onnx.checker.check_model(after, full_check=True)


def test_free_sizes_keep_their_names_and_may_be_fixed():
    def sizes(**options):
        value = byoc.opt(DIGITS, **options).model.graph.input[0]
        return value.name, [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]

    assert sizes() == ("image", ["batch", 1, 8, 8])
    assert sizes(shapes={"image": [3, 1, 8, 8]}) == ("image", [3, 1, 8, 8])


def test_weights_lie_in_a_file_of_their_own_where_that_is_asked_for(tmp_path, capsys):
    written = tmp_path / "digits.onnx"
    assert main(["opt", str(DIGITS), "-o", str(written), "--external-data"]) == 0
    out = capsys.readouterr().out
    assert f"wrote {written} (" in out and f"wrote {written}.data (" in out
    assert (tmp_path / "digits.onnx.data").stat().st_size > written.stat().st_size
    x = normal(2, 1, 8, 8)
    given = {"image": x}
    wanted = ReferenceEvaluator(onnx.load(DIGITS)).run(None, given)[0]
    np.testing.assert_allclose(byoc.compile(written, targets="json").run(given)[0], wanted, rtol=1e-4, atol=1e-6)


def test_without_an_output_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = byoc.opt(DIGITS, check=False)
    assert made.written == () and made.agreement is None and list(tmp_path.iterdir()) == []
    assert str(made) == f"13 nodes became {len(made.model.graph.node)}"


def test_what_cannot_be_is_said(tmp_path):
    with pytest.raises(UserError, match="this is the model itself; write to another file"):
        byoc.opt(DIGITS, DIGITS)
    with pytest.raises(UserError, match="the folder cannot be written"):
        byoc.opt(DIGITS, tmp_path / "missing" / "m.onnx")
    with pytest.raises(ImportModelError, match="there is no such file"):
        byoc.opt(tmp_path / "none.onnx")
    sort = model([helper.make_node("TopK", ["x", "k"], ["v", "i"])], {"x": [4]}, {"v": [2]}, {"k": np.array([2])})
    with pytest.raises(CompileError, match="has what is not written as ONNX: .* has no rule"):
        byoc.opt(sort)


def test_the_difference_is_in_parts_of_the_largest_element():
    one = np.array([1.0, -10.0, np.nan, np.inf])
    assert difference([one], [one.copy()]) == 0
    assert difference([one + np.array([0.5, 0, 0, 0])], [one]) == 0.05
    assert difference([one], [np.array([1.0, -10.0, np.nan, 3.0])]) == np.inf
    assert difference([one], [one.astype("float32")]) == np.inf
    assert str(Agreement(problem="it is not there")) == "not run by ONNX Runtime: it is not there"


def same(before, inputs):
    after = tidied(before)
    onnx.checker.check_model(after, full_check=True)
    wanted, found = (ReferenceEvaluator(m).run(None, inputs) for m in (before, after))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    return [node.op_type for node in after.graph.node]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("operator, shape", [("Conv", (4, 3, 3, 3)), ("ConvTranspose", (3, 4, 3, 3))])
def test_a_bias_becomes_the_convolutions(operator, shape, swapped):
    terms = ["bias", "c"] if swapped else ["c", "bias"]
    nodes = [helper.make_node(operator, ["x", "w"], ["c"]), helper.make_node("Add", terms, ["y"])]
    outputs = {"y": [1, 4, None, None]}
    before = model(nodes, {"x": [1, 3, 8, 8]}, outputs, {"w": normal(*shape), "bias": normal(4, 1, 1)})
    assert same(before, {"x": normal(1, 3, 8, 8)}) == [operator]


def test_what_is_no_bias_or_is_read_elsewhere_stays_an_addition():
    convolution = helper.make_node("Conv", ["x", "w"], ["c"])
    nodes = [convolution, helper.make_node("Add", ["c", "b"], ["y"])]
    inputs, x = {"x": [1, 3, 8, 8]}, {"x": normal(1, 3, 8, 8)}
    for shape in ((1, 1, 6), (6,), (4, 6, 6), (1, 1, 1)):
        before = model(nodes, inputs, {"y": [1, 4, 6, 6]}, {"w": normal(4, 3, 3, 3), "b": normal(*shape)})
        assert same(before, x) == ["Conv", "Add"]
    two = {"y": [1, 4, 6, 6], "c": [1, 4, 6, 6]}
    assert same(model(nodes, inputs, two, {"w": normal(4, 3, 3, 3), "b": normal(4, 1, 1)}), x) == ["Conv", "Add"]


def test_constants_of_constants_are_made_and_outputs_named_by_their_makers():
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("Identity", ["r"], ["y"]),
        helper.make_node("Identity", ["r"], ["again"]),
        helper.make_node("Identity", ["x"], ["as_it_is"]),
    ]
    outputs = {"y": [2, 3], "again": [2, 3], "as_it_is": [2, 4]}
    before = model(nodes, {"x": [2, 4]}, outputs, {"w": normal(3, 4), "unused": normal(5)})
    assert same(before, {"x": normal(2, 4)}) == ["MatMul", "Relu", "Identity", "Identity"]
    assert [t.name for t in tidied(before).graph.initializer] == ["t"]


def test_names_of_the_model_do_not_meet_those_of_the_writer():
    nodes = [helper.make_node("Relu", ["relu_2"], ["a"]), helper.make_node("Exp", ["a"], ["relu_1"])]
    before = model(nodes, {"relu_2": [3]}, {"relu_1": [3]})
    after = byoc.opt(before).model
    x = normal(3)
    np.testing.assert_allclose(ReferenceEvaluator(after).run(None, {"relu_2": x})[0], np.exp(np.maximum(x, 0)), 1e-6)
