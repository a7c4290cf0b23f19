"""Sizes that only the run finds: those that exporters declare have names, checked when the model runs, and others too.

What follows is generated code, in this process and from a saved artefact.
"""

import numpy as np
import onnx.parser
import pytest

import byoc
from byoc.errors import UserError
from byoc.ir.types import Any, TensorType
from byoc.relay.analysis import infer_expr
from byoc.relay.expr import Var
from byoc.relay.frontend.onnx.declared_sizes import DeclaredSizes

pytestmark = pytest.mark.needs_cc
onnxruntime = pytest.importorskip("onnxruntime")
HEAD = '<ir_version: 8, opset_import: ["" : 19]>\n'
RNG = np.random.default_rng(11)

# Wav2Vec2-Conformer: of 2*5-1 relative positions those from 5-T to 4+T, beside scores of 2*T-1 columns
RELATIVE = """g (float[B, T, 4] x, float[B, T, M] z) => (float[] y) <int64[1] five = {5}, int64[1] four = {4},
    int64[1] zero = {0}, int64[1] one = {1}, float[9, 4] table> {
    t = Shape <start: int = 1, end: int = 2> (x)
    from = Sub (five, t)
    until = Add (four, t)
    cut = Slice (table, from, until, zero, one)
    turned = Transpose <perm: ints = [1, 0]> (cut)
    scores = MatMul (x, turned)
    e = Exp (scores)
    y = Add (e, z)
}"""


def relative(declared: str = "2*T - 1"):
    model = onnx.parser.parse_model(HEAD + RELATIVE)
    del model.graph.value_info[:]
    table = RNG.normal(0, 0.3, (9, 4)).astype("float32")
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    cut = onnx.helper.make_tensor_value_info("cut", onnx.TensorProto.FLOAT, [declared, 4])
    model.graph.value_info.append(cut)
    return model


def feed(batch: int, length: int):
    shapes = {"x": (batch, length, 4), "z": (batch, length, 2 * length - 1)}
    return {name: RNG.normal(0, 1, shape).astype("float32") for name, shape in shapes.items()}


def on_numpy(library) -> set[str]:
    parts = library.report["control_flow"][0]["parts"].values()
    return {name.removeprefix("tvmgen_default_fused_") for part in parts for name in part["host_fallbacks"]}


def agree(got, want) -> None:
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("declared", ["2*T - 1", "", "T*(1 + 1) - 1"])
def test_what_follows_a_size_that_the_run_finds_is_generated_code(declared, tmp_path, artifact_runner):
    model = relative(declared)
    library = byoc.compile(model)
    assert on_numpy(library) == {"dyn_strided_slice"}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = [feed(2, 3), feed(1, 5), feed(3, 1)]
    loaded = artifact_runner.run(library.save(tmp_path / "m.byoc"), feeds)
    for given, again in zip(feeds, loaded, strict=True):
        want = session.run(None, given)
        agree(library.run(given), want)
        agree(again, want)


def test_a_declared_size_that_is_not_so_is_refused_when_the_model_runs():
    with pytest.raises(UserError, match=r"\(2\*T\)"):
        byoc.compile(relative("2*T")).run(feed(2, 3))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2*T - 1", "(2*T-1)"),
        ("((T//4)) + 1", "(div(T,4)+1)"),
        ("T + (PythonMod(-T, 8))", "(8*T-8*div(7*T,8))"),
        ("Mod(T, 8)", "(T-8*div(T,8))"),
        ("Min(2048, T)", "(min(2048,T))"),
        ("Max(1, T, B)", "(max(1,B,T))"),
        ("T**2", "(T*T)"),
        ("B", "B"),
        ("u0 + T", ""),
        ("T//B", ""),
        ("T**9", ""),
        ("7", ""),
        ("True", ""),
        ("T.real", ""),
        ("__import__('os')", ""),
        ("2 *", ""),
        ("(" * 500 + "T" + ")" * 500, ""),
        ("-" * 990 + "T", ""),
        ("T" * 2000, ""),
    ],
)
def test_expressions_of_the_inputs_sizes_are_taken_and_nothing_else(text, size):
    value = onnx.helper.make_tensor_value_info("v", onnx.TensorProto.FLOAT, [text, 3])
    param = Var("x", TensorType([Any("B"), Any("T")]))
    infer_expr(param)
    named = DeclaredSizes([value], [param]).named("v", Var("v", TensorType([Any(), Any()])))
    assert infer_expr(named) == TensorType([Any(size), Any()])


def test_other_ranks_and_sizes_that_are_known_are_left():
    value = onnx.helper.make_tensor_value_info("v", onnx.TensorProto.FLOAT, ["T"])
    declared = DeclaredSizes([value], [Var("x", TensorType([Any("T")]))])
    for own in (Var("v", TensorType([Any(), Any()])), Var("v", TensorType([5])), Var("v", TensorType([Any("N")]))):
        assert declared.named("v", own) is own


def test_the_places_of_what_is_not_zero_go_on_in_generated_code(tmp_path, artifact_runner):
    text = """g (float[B, S] x) => (float[] y, float[] z) <int64[1] one = {1}> {
        p = NonZero (x)
        q = Transpose <perm: ints = [1, 0]> (p)
        r = GatherND (x, q)
        c = Cast <to: int = 1> (q)
        e = Exp (c)
        s = ReduceSum <keepdims: int = 0> (e, one)
        y = Add (s, r)
        z = Tanh (x)
    }"""
    model = onnx.parser.parse_model(HEAD + text)
    library = byoc.compile(model)
    assert on_numpy(library) == set()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = [{"x": np.array(x, "float32")} for x in ([[1, 0, 2], [0, 3, 0]], [[5]], [[0, 0]])]
    loaded = artifact_runner.run(library.save(tmp_path / "m.byoc"), feeds)
    for given, again in zip(feeds, loaded, strict=True):
        want = session.run(None, given)
        agree(library.run(given), want)
        agree(again, want)


def test_products_of_matrices_of_sizes_that_the_run_finds():
    text = """g (float[S] x, float[2, 3, S, 4] t) => (float[] y) <int64[1] two = {2}> {
        p = NonZero (x)
        wide = Gather <axis: int = 2> (t, p)
        rows = Squeeze (wide, two)
        turned = Transpose <perm: ints = [0, 1, 3, 2]> (rows)
        scores = MatMul (rows, turned)
        shares = Softmax (scores)
        y = MatMul (shares, rows)
    }"""
    model = onnx.parser.parse_model(HEAD + text)
    library = byoc.compile(model)
    assert on_numpy(library) == set()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for x in ([1, 0, 2, 0, 3], [0, 1]):
        given = {"x": np.array(x, "float32"), "t": RNG.normal(0, 1, (2, 3, len(x), 4)).astype("float32")}
        agree(library.run(given), session.run(None, given))


def test_a_size_that_two_calls_find_is_refused_where_it_is_not_one():
    text = """g (float[N] x, float[M] v) => (float[] y) <int64[1] one = {1}> {
        p = NonZero (x)
        q = NonZero (v)
        a = Cast <to: int = 1> (p)
        b = Cast <to: int = 1> (q)
        y = Add (a, b)
    }"""
    library = byoc.compile(onnx.parser.parse_model(HEAD + text))
    ones = np.ones(3, "float32")
    agree(library.run({"x": ones, "v": ones}), [np.array([[0, 2, 4]], "float32")])
    agree(library.run({"x": ones[:1], "v": ones}), [np.array([[0, 1, 2]], "float32")])
    with pytest.raises(UserError, match="of two tensors that belong together differ"):
        library.run({"x": ones[:2], "v": ones})


def test_what_follows_a_decision_of_unnamed_sizes_and_a_slice_of_it_is_generated_code(tmp_path, artifact_runner):
    text = """g (float[N] x, bool all, int64[1] last) => (float[m] y) <int64[1] zero = {0}> {
        kept = If (all) <then_branch = t () => (float[k] a) { a = Exp (x) },
            else_branch = e () => (float[k] b) {
                positive = Less (none, x) b = Compress <axis: int = 0> (x, positive) }>
        doubled = Add (kept, kept)
        cut = Slice (doubled, zero, last)
        e = Exp (cut)
        y = Add (e, e)
    }"""
    model = onnx.parser.parse_model(HEAD + text.replace("{0}>", "{0}, float none = {0}>"))
    library = byoc.compile(model)
    assert on_numpy(library) == {"dyn_strided_slice"}  # which finds the size
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x = np.array([1, -2, 3, -4, 5], "float32")
    given = [{"x": x, "all": np.array(c), "last": np.array([n])} for c, n in ((True, 4), (False, 2), (False, 9))]
    wanted = [session.run(None, feeds) for feeds in given]
    for feeds, want in zip(given, wanted, strict=True):
        agree(library.run(feeds), want)
    for got, want in zip(artifact_runner.run(library.save(tmp_path / "m.byoc"), given), wanted, strict=True):
        agree(got, want)


def test_a_part_over_a_multiple_of_a_size_that_it_makes_again(tmp_path, artifact_runner):
    """A part that is given ``2 * B`` elements knows B from that."""
    text = """g (float[B, 2] x, float[N] v) => (float[B, 2] y) <int64[1] all = {-1}> {
        flat = Reshape (x, all)
        e = Exp (flat)
        p = NonZero (v)
        c = Cast <to: int = 1> (p)
        s = ReduceSum <keepdims: int = 0> (c)
        t = Mul (e, s)
        shape = Shape (x)
        back = Reshape (t, shape)
        y = Softmax (back)
    }"""
    model = onnx.parser.parse_model(HEAD + text)
    library = byoc.compile(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = [{"x": RNG.normal(0, 1, (b, 2)).astype("float32"), "v": np.array([1, 0, 2], "float32")} for b in (3, 1)]
    for given, again in zip(feeds, artifact_runner.run(library.save(tmp_path / "m.byoc"), feeds), strict=True):
        want = session.run(None, given)
        agree(library.run(given), want)
        agree(again, want)
