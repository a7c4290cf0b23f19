"""``byoc opt``: the simplified graph as ONNX again computes what the model does, by ONNX Runtime."""

import json
import pathlib

import numpy as np
import onnx
import onnx.parser
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


OPSET = '<ir_version: 8, opset_import: ["" : 17]>\n'
TEXTS = {
    "a decoder's mask over a cache": (
        """g (int64[B, T] ids, float[B, P, 4] past) => (float[] y, float[] all) <float[9, 4] table, int64 one = {1},
            int64 zero = {0}, int64[1] first = {0}, float low = {-1000.0}> {
            e = Gather (table, ids)
            all = Concat <axis: int = 1> (past, e)
            shape = Shape (all)
            total = Gather (shape, one)
            kept = Shape (past)
            before = Gather (kept, one)
            places = Range (zero, total, one)
            length = Sub (total, before)
            own = Range (zero, length, one)
            own_places = Add (own, before)
            rows = Unsqueeze (own_places, ones)
            is_seen = LessOrEqual (places, rows)
            k = Transpose <perm: ints = [0, 2, 1]> (all)
            scores = MatMul (e, k)
            masked = Where (is_seen, scores, low)
            p = Softmax (masked)
            y = MatMul (p, all)
        }""",
        lambda n: {"ids": np.arange(2 * n).reshape(2, n) % 9 - 4, "past": normal(2, n - 1, 4)},
    ),
    "shapes that are computed": (
        """g (float[N, C, H, W] x, int64[2] pair) => (float[] y, float[] z, float[] w) <int64[1] rest = {-1},
            int64[3] keep = {0, 0, -1}> {
            y = Reshape (x, keep)
            z0 = Reshape (x, pair)
            z = Softmax (z0)
            f = Flatten <axis: int = 2> (x)
            s = Shape (x)
            t = ConstantOfShape (s)
            w = Add (t, x)
        }""",
        lambda n: {"x": normal(2, n, 3, 2), "pair": np.array([-1, n])},
    ),
    "slices, tiles and sums": (
        """g (float[N, S] x, int64[1] end, int64[2] often) => (float[] y, float[] z, float[] c, int64[] q)
            <int64[1] begin = {0}, int64[1] axis = {1}, int64 one = {1}, int64 three = {3}> {
            y0 = Slice (x, begin, end, axis)
            y = Exp (y0)
            z = Tile (x, often)
            c = CumSum (x, one)
            s = Shape (x)
            q = Div (s, three)
        }""",
        lambda n: {"x": normal(3, n + 1), "end": np.array([n]), "often": np.array([2, n])},
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_models_of_free_sizes_are_written_and_run_the_same(name):
    ort = pytest.importorskip("onnxruntime")
    text, feeds = TEXTS[name]
    source = onnx.parser.parse_model(OPSET + text.replace("<float[9, 4] table, ", "<"))
    if "table" in text:
        source.graph.initializer.extend(
            [numpy_helper.from_array(normal(9, 4), "table"), numpy_helper.from_array(np.array([1]), "ones")]
        )
    made = byoc.opt(source, check=False).model
    first, second = (ort.InferenceSession(m.SerializeToString()) for m in (source, made))
    for size in (3, 1, 6):
        given = feeds(size)
        for found, wanted in zip(second.run(None, given), first.run(None, given), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, strict=True)


def test_an_index_outside_is_an_error_of_what_is_written_too():
    ort = pytest.importorskip("onnxruntime")
    source = onnx.parser.parse_model(OPSET + "g (float[N, 2] x, int64[K] i) => (float[] y) { y = Gather (x, i) }")
    session = ort.InferenceSession(byoc.opt(source, check=False).model.SerializeToString())
    x = normal(3, 2)
    np.testing.assert_array_equal(session.run(None, {"x": x, "i": np.array([-3, 2])})[0], x[[-3, 2]])
    for outside in (3, -4, -6):
        with pytest.raises(Exception, match="out of data bounds"):
            session.run(None, {"x": x, "i": np.array([outside])})


def test_what_is_quantised_is_compared_as_the_model_says(tmp_path):
    """ONNX Runtime's own simplifications round what stands between two scales otherwise."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    constants = {"w": normal(8, 3, 3, 3), "v": normal(5, 8, 1, 1)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "a", pads=[1] * 4),
        helper.make_node("Sigmoid", ["a"], ["b"], "b"),
        helper.make_node("Conv", ["b", "v"], ["c"], "c"),
        helper.make_node("Softmax", ["c"], ["y"], "y", axis=1),
    ]
    plain, quantized = tmp_path / "plain.onnx", tmp_path / "quantized.onnx"
    onnx.save(model(nodes, {"x": ["N", 3, "H", "W"]}, {"y": ["N", 5, "H", "W"]}, constants), plain)

    class Samples(quantization.CalibrationDataReader):
        left = 2

        def get_next(self):
            self.left -= 1
            return {"x": normal(1, 3, 8, 8)} if self.left >= 0 else None

    quantization.quantize_static(plain, quantized, Samples(), per_channel=True)
    assert byoc.opt(quantized).agreement.difference < 1e-4


def test_an_input_that_is_an_output_keeps_its_name_and_no_name_is_given_twice():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])
    relu = helper.make_node("Relu", ["x"], ["y"])
    opsets = [helper.make_opsetid("", 18)]
    made = byoc.opt(helper.make_model(helper.make_graph([relu], "g", [x], [y, x]), opset_imports=opsets, ir_version=8))
    assert [o.name for o in made.model.graph.output] == ["y", "x"] and not made.agreement.difference
    twice = helper.make_model(helper.make_graph([relu], "g", [x], [y, y]), opset_imports=opsets, ir_version=8)
    with pytest.raises(CompileError, match="two outputs are called 'y', which ONNX does not allow"):
        byoc.opt(twice)


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
    old = model([helper.make_node("Hardmax", ["x"], ["v"])], {"x": [3, 3]}, {"v": [3, 3]})
    old.opset_import[0].version = 11
    with pytest.raises(CompileError, match="has no rule, and its node does not stay as it is: Hardmax of opset 11, "):
        byoc.opt(old)


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
