"""``byoc opt`` leaves a node as it was where the simplified graph is not written as ONNX; held to ONNX Runtime."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import ModelProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

import byoc
from byoc.driver.models.against_onnxruntime import difference
from byoc.errors import CompileError, InternalError, UserError

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def parsed(text: str, opset: int = 18, more: str = "") -> ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}{more}]>\n' + text)


def session(model: ModelProto) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options)


def written(source: ModelProto, *feeds: dict[str, Any]) -> list[str]:
    """The operators of what is written of *source*, which gives on *feeds* what *source* gives."""
    made = byoc.opt(source).model
    onnx.checker.check_model(made, full_check=True)
    first, second = session(source), session(made)
    for feed in feeds:
        assert difference(second.run(None, feed), first.run(None, feed)) < 1e-5
    return [node.op_type for node in made.graph.node]


def test_pools_that_round_up_stay_and_what_is_around_them_is_simplified():
    source = parsed("""g (float[N, 2, H, W] x) => (float[N, 2, P, Q] y) <float one = {1}> {
        a = Mul (x, one)
        m = MaxPool <kernel_shape: ints = [3, 3], strides: ints = [2, 2], ceil_mode: int = 1> (a)
        p = AveragePool <kernel_shape: ints = [2, 2], strides: ints = [2, 2], ceil_mode: int = 1> (m)
        y = Add (p, one)
    }""")
    feeds = [{"x": normal(1, 2, h, w)} for h, w in ((8, 9), (7, 6))]
    assert written(source, *feeds) == ["MaxPool", "AveragePool", "Add"]
    ports = byoc.opt(source, check=False).model.graph
    assert [d.dim_param for d in ports.input[0].type.tensor_type.shape.dim] == ["N", "", "H", "W"]


def test_gathers_in_batches_stay():
    source = parsed("""g (float[B, N, 4] x, int64[B, K, 1] i) => (float[B, K, 4] y) {
        e = Exp (x)
        y = GatherND <batch_dims: int = 1> (e, i)
    }""")
    feed = {"x": normal(2, 3, 4), "i": np.array([[[0], [-1]], [[2], [1]]])}
    assert written(source, feed) == ["Exp", "GatherND"]


SEQUENCE = """g (float[N] x, int64 n) => (seq(float[N]) y, float[M] z) <bool going = {1}, int64 zero = {0}> {
    s = SequenceEmpty ()
    e = Exp (x)
    y = Loop (n, going, s) <body = b (int64 i, bool c, seq(float[N]) v) => (bool d, seq(float[N]) w) {
        d = Identity (c)
        f = Cast <to: int = 1> (i)
        t = Add (e, f)
        w = SequenceInsert (v, t, zero)
    }>
    z = ConcatFromSequence <axis: int = 0> (y)
}"""
PAIR = """g (seq(float[N]) s, int64 n) => (seq(float[N]) y, int64 k) <bool going = {1}> {
    y = Loop (n, going, s) <body = b (int64 i, bool c, seq(float[N]) v) => (bool d, seq(float[N]) w) {
        d = Identity (c)
        e = SequenceAt (v, i)
        w = SequenceInsert (v, e)
    }>
    k = SequenceLength (y)
}"""
INTEGERS = """g (int64[N] x, int64 n) => (seq(int64[N]) y) <bool going = {1}> {
    s = SequenceEmpty <dtype: int = 7> ()
    t = SequenceConstruct (x, x)
    r = SequenceInsert (s, x)
    y = Loop (n, going, t) <body = b (int64 i, bool c, seq(int64[N]) v) => (bool d, seq(int64[N]) w) {
        d = Identity (c)
        w = SequenceErase (v)
    }>
}"""


def test_loops_that_carry_sequences_stay_with_what_they_read_from_around_them():
    feeds = [{"x": normal(3), "n": np.array(n)} for n in (1, 4)]
    assert written(parsed(SEQUENCE), *feeds) == ["Exp", "SequenceEmpty", "Loop", "ConcatFromSequence"]
    feeds = [{"s": [normal(2), normal(2)], "n": np.array(n)} for n in (0, 2)]
    assert written(parsed(PAIR), *feeds) == ["Loop", "SequenceLength"]
    feeds = [{"x": np.array([3, 4]), "n": np.array(n)} for n in (0, 1)]
    assert written(parsed(INTEGERS), *feeds) == ["SequenceConstruct", "Loop"]


def test_a_scan_that_is_not_a_loop_of_relays_stays_in_a_branch_and_reads_from_two_graphs_around():
    source = parsed("""g (float[N] x, bool b, int64 n) => (float[M] y) <bool going = {1}> {
        u = Sin (x)
        y = If (b) <
            then_branch = t () => (p) {
                q = Cos (u)
                s = SequenceEmpty ()
                r = Loop (n, going, s) <body = l (int64 i, bool c, seq(float[N]) v) => (bool d, seq(float[N]) w) {
                    d = Identity (c)
                    a = Mul (q, u)
                    w = SequenceInsert (v, a)
                }>
                p = ConcatFromSequence <axis: int = 0> (r)
            },
            else_branch = e () => (o) { o = Elu (u) }
        >
    }""")
    feeds = [{"x": normal(3), "b": np.array(b), "n": np.array(2)} for b in (True, False)]
    assert written(source, *feeds) == ["Sin", "If"]


def test_nodes_inside_of_the_models_functions_stay_with_the_attributes_of_their_callers():
    source = parsed(
        """g (float[N, 3] x) => (float[N, 3] y) {
            a = own.bend <slope: float = 0.5> (x)
            y = own.bend <slope: float = 2.0> (a)
        }
        <domain: "own", opset_import: ["" : 18]>
        bend <slope> (v) => (w) {
            n = Neg (v)
            w = Elu <alpha: float = @slope> (n)
        }""",
        more=', "own" : 1',
    )
    assert written(source, {"x": normal(2, 3)}) == ["Neg", "Elu", "Neg", "Elu"]
    made = byoc.opt(source, check=False).model
    assert [a.f for node in made.graph.node for a in node.attribute] == [0.5, 2.0]
    assert not made.functions and [o.domain for o in made.opset_import] == [""]


def test_numbers_are_drawn_anew_in_each_run_of_what_is_written():
    source = parsed("""g (float[3, 4] x) => (float[3, 4] y, float[3, 4] z, float[3, 4] e) {
        y = RandomNormalLike (x)
        z = RandomNormalLike (x)
        e = Exp (x)
    }""")
    made = byoc.opt(source)
    assert made.agreement is not None and not made.agreement.problem
    x = normal(3, 4)
    run = session(made.model)
    (first, second, exact), (again, _, _) = run.run(None, {"x": x}), run.run(None, {"x": x})
    assert (first != second).all() and (first != again).all()
    np.testing.assert_allclose(exact, np.exp(x), rtol=1e-6)
    trained = parsed("""g (float[3, 4] x) => (float[3, 4] y) <float r = {0.5}, bool on = {1}, bool off = {0}> {
        a = Dropout (x, r, off)
        y = Dropout (a, r, on)
    }""")
    made = byoc.opt(trained)
    assert [node.op_type for node in made.model.graph.node] == ["Dropout"]
    assert "1 of 1 outputs are other numbers in each run of the model" in str(made)


def test_outputs_that_a_node_leaves_out_stay_left_out():
    source = parsed("g (int64[N] x) => (int64[K] y, int64[K] c) { y, , , c = Unique (x) }")
    assert written(source, {"x": np.array([3, 1, 3, 2])}) == ["Unique"]
    assert byoc.opt(source, check=False).model.graph.node[0].output[1] == ""


def test_a_node_that_calls_a_function_of_the_model_inside_is_refused_with_what_to_do():
    source = parsed(
        """g (float[N] x, int64 n) => (seq(float[N]) y) <bool go = {1}> {
            s = SequenceEmpty ()
            y = Loop (n, go, s) <body = b (int64 i, bool c, seq(float[N]) v) => (bool d, seq(float[N]) w) {
                d = Identity (c)
                q = own.bend (x)
                w = SequenceInsert (v, q)
            }>
        }
        <domain: "own", opset_import: ["" : 18]>
        bend (a) => (b) { b = Elu (a) }""",
        more=', "own" : 1',
    )
    with pytest.raises(CompileError, match=r"does not stay as it is: a graph inside of Loop calls .* onnx\.inliner"):
        byoc.opt(source)


def test_texts_and_labels_stay():
    labels = parsed(
        """g (int64[N] x) => (string[N] y) {
            a = Abs (x)
            y = ai.onnx.ml.LabelEncoder <keys_int64s: ints = [1, 2], values_strings: strings = ["one", "two"],
                default_string: string = "many"> (a)
        }""",
        more=', "ai.onnx.ml" : 3',
    )
    assert written(labels, {"x": np.array([1, -2, 7])}) == ["Abs", "LabelEncoder"]
    made = byoc.opt(labels, check=False).model
    assert {o.domain: o.version for o in made.opset_import} == {"": 18, "ai.onnx.ml": 3}
    joined = parsed("g (string[N] x, string[N] y) => (string[N] z) { z = StringConcat (x, y) }", 20)
    feed = {"x": np.array(["a", "b"], object), "y": np.array(["c", ""], object)}
    assert written(joined, feed) == ["StringConcat"]


def test_forests_of_scikit_learn_are_written_behind_what_scales_them():
    ensemble = pytest.importorskip("sklearn.ensemble")
    pipeline, preprocessing = pytest.importorskip("sklearn.pipeline"), pytest.importorskip("sklearn.preprocessing")
    to_onnx = pytest.importorskip("skl2onnx").to_onnx
    x = normal(60, 4)
    named = np.where(x[:, 0] > 0, "yes", "no")
    for forest, target in (
        (ensemble.RandomForestClassifier(4, random_state=0), named),
        (ensemble.GradientBoostingRegressor(n_estimators=4, random_state=0), x[:, 1]),
        (ensemble.IsolationForest(n_estimators=3, random_state=0), None),
    ):
        whole = pipeline.make_pipeline(preprocessing.StandardScaler(), forest).fit(x, target)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = to_onnx(whole, x[:1], target_opset={"": 18, "ai.onnx.ml": 3})
        made = byoc.opt(source)
        assert made.agreement is not None and not made.agreement.problem
        assert any(node.op_type.startswith("TreeEnsemble") for node in made.model.graph.node)
        given = {source.graph.input[0].name: x}
        assert difference(session(made.model).run(None, given), session(source).run(None, given)) < 1e-5


def test_a_node_of_an_older_opset_stays_where_the_written_opset_calls_it_alike():
    assert written(parsed("g (float[N, 5] x) => (float[N, 5] y) { y = Elu (x) }", 7), {"x": normal(2, 5)}) == ["Elu"]
    stated = parsed("g (float[3, 5] x) => (float[3, 5] y) { y = Hardmax <axis: int = 1> (x) }", 11)
    assert written(stated, {"x": normal(3, 5)}) == ["Hardmax"]
    default = parsed("g (float[3, 2, 5] x) => (float[3, 2, 5] y) { y = Hardmax (x) }", 11)
    with pytest.raises(CompileError, match="Hardmax of opset 11, which opset 18 has in another form"):
        byoc.opt(default)


def test_what_is_written_has_the_opset_of_the_model_where_that_is_newer():
    newer = parsed("g (float8e4m3fn[N] x) => (float[N] y) { y = Cast <to: int = 1> (x) }", 21)
    made = byoc.opt(newer, check=False).model
    assert made.opset_import[0].version == 21
    onnx.checker.check_model(made, full_check=True)
    older = parsed("g (float[N] x) => (float[N] y) { y = Exp (x) }", 9)
    assert byoc.opt(older).model.opset_import[0].version == 18


def _cases() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for kind in ("node", "simple") for case in load_model_tests(kind=kind)}


def _outcome(case: Any) -> str:
    """What ``byoc opt`` says of a case of ONNX's own suite, whose inputs both models are run on."""
    source = case.model if case.model is not None else onnx.load(f"{case.model_dir}/model.onnx")
    try:
        made = byoc.opt(source)
    except InternalError:
        raise
    except UserError as error:
        return f"refused: {error}"
    if not case.data_sets:
        return "written"
    given = {value.name: array for value, array in zip(source.graph.input, case.data_sets[0][0], strict=False)}
    given = {n: a.astype(object) if getattr(a, "dtype", np.dtype("i")).kind in "US" else a for n, a in given.items()}
    try:
        wanted = session(source).run(None, given)
    except Exception:  # ONNX Runtime's own classes
        return "not run by ONNX Runtime"
    apart = difference(session(made.model).run(None, given), wanted)
    assert apart <= 1e-3 or case.name.startswith("test_training_dropout"), (case.name, apart)
    return "written"


def test_a_sample_of_onnxs_own_models_is_written():
    cases = _cases()
    found = {name: _outcome(cases[name]) for name in random.Random(0).sample(sorted(cases), 60)}
    assert [name for name, what in found.items() if what.startswith("refused")] == []
    assert list(found.values()).count("written") > 40


@pytest.mark.slow
def test_all_of_onnxs_own_models_are_written_or_refused_by_name():
    found = {name: _outcome(case) for name, case in _cases().items()}
    refused = {name: what for name, what in found.items() if what.startswith("refused")}
    assert len(found) > 1000 and len(refused) <= 8, refused
    written_ones = [name for name, what in found.items() if what == "written"]
    assert len(written_ones) > 0.6 * len(found)


def test_constants_that_a_node_which_stays_reads_are_written():
    weights = numpy_helper.from_array(normal(3, 2), "w")
    source = parsed("g (float[N, 3] x) => (float[N, 2] y) { p = MatMul (x, w) y = Selu (p) }")
    source.graph.initializer.append(weights)
    assert written(source, {"x": normal(4, 3)}) == ["MatMul", "Selu"]
    slopes = parsed("""g (float[3, N, 2] x, int64[3, K, 1] i) => (float[3, K] y) {
        z = GatherND <batch_dims: int = 1> (c, i)
        y = ReduceSum <keepdims: int = 0> (z, a)
    }""")
    slopes.graph.initializer.append(numpy_helper.from_array(normal(3, 4, 2), "c"))
    slopes.graph.initializer.append(numpy_helper.from_array(np.array([-1]), "a"))
    feed = {"x": normal(3, 1, 2), "i": RNG.integers(-4, 4, (3, 5, 1))}
    assert written(slopes, feed) == ["GatherND", "ReduceSum"]
