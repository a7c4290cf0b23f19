"""Sequences and optionals, inside of a model and at its borders, compiled and saved, against ONNX Runtime."""

import numpy as np
import onnx
import onnxruntime
import pytest

import byoc
from byoc.errors import ImportModelError, InputError, PartitionError
from byoc.relay.interpreter import evaluate

RNG = np.random.default_rng(4)


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]>\n' + text)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def of_onnxruntime(proto: onnx.ModelProto, feeds: dict) -> list:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def assert_same(got: list, want: list) -> None:
    assert [type(g) for g in got] == [type(w) for w in want] and len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        if isinstance(one, list):
            assert_same(one, other)
        else:
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


KNOWN = model("""
g (float[N, 6] x) => (float[N, 2] y, float[N, 6] z, int64 l) {
  two = Constant<value = int64 {2}>()
  one = Constant<value = int64 {1}>()
  s = SplitToSequence<axis = 1>(x, two)
  a = SequenceAt(s, one)
  y = Relu(a)
  s2 = SequenceErase(s, one)
  s3 = SequenceInsert(s2, y)
  z = ConcatFromSequence<axis = 1>(s3)
  l = SequenceLength(s3)
}""")
GROWN = model("""
g (float[N, 6] x, int64 n, int64 p) => (float[M, 6] y, int64 l, float[N, 6] e, seq(float[N, 6]) r2) {
  c = Constant<value = bool {1}>()
  s = SequenceEmpty<dtype = 1>()
  r, v = Loop(n, c, s, x) <body = b (int64 i, bool going, seq(float[N, 6]) t, float[N, 6] u)
                                    => (bool on, seq(float[N, 6]) t2, float[N, 6] u2) {
     u2 = Tanh(u)
     w = Mul(u2, x)
     t2 = SequenceInsert(t, w)
     on = Identity(going)
  }>
  q = ConcatFromSequence<axis = 0>(r)
  y = Exp(q)
  l = SequenceLength(r)
  f = SequenceAt(r, p)
  e = Neg(f)
  d = SequenceErase(r, p)
  r2 = SequenceInsert(d, e, p)
}""")
BORDERS = model("""
g (seq(float[A, 3]) s, float[3, 4] w) => (float[M, 4] y, seq(float[A, 3]) t, int64 l) {
  zero = Constant<value = int64 {0}>()
  k = ConcatFromSequence<axis = 0>(s)
  m = MatMul(k, w)
  y = Tanh(m)
  f = SequenceAt(s, zero)
  g = Relu(f)
  t = SequenceInsert(s, g)
  l = SequenceLength(t)
}""")
CHOSEN = model("""
g (float[2, 6] x, bool c) => (seq(float[A, B]) r) {
  r = If(c) <then_branch = t () => (seq(float[A, B]) p) {
               two = Constant<value = int64 {2}>()
               p = SplitToSequence<axis = 1>(x, two) },
             else_branch = e () => (seq(float[A, B]) q) {
               h = Neg(x)
               q = SequenceConstruct(h, x) }>
}""")
CASES = {
    "known": (KNOWN, [{"x": numbers(n, 6)} for n in (1, 4)]),
    "grown": (
        GROWN,
        [{"x": numbers(n, 6), "n": np.array(k), "p": np.array(p)} for n, k, p in ((3, 1, 0), (3, 5, -1), (2, 30, 7))],
    ),
    "borders": (
        BORDERS,
        [{"s": [numbers(k, 3) for k in sizes], "w": numbers(3, 4)} for sizes in ((2,), (1, 5, 3))],
    ),
    "chosen": (CHOSEN, [{"x": numbers(2, 6), "c": np.array(c)} for c in (True, False)]),
}


@pytest.mark.needs_cc
@pytest.mark.parametrize("name", CASES)
def test_sequences_hold_what_those_of_onnxruntime_hold(tmp_path, name):
    proto, feeds = CASES[name]
    library = byoc.compile(proto)
    loaded = byoc.runtime.load(library.save(tmp_path / "m.byoc"))
    for given in feeds:
        want = of_onnxruntime(proto, given)
        assert_same(library.run(given), want)
        assert_same(loaded.run(given), want)


@pytest.mark.parametrize("name", ["known", "grown"])
def test_the_interpreter_says_the_same(name):
    proto, feeds = CASES[name]
    mod = byoc.import_onnx(proto)
    for given in feeds:
        found = evaluate(mod, given)
        assert_same([f if isinstance(f, list) else np.asarray(f) for f in found], of_onnxruntime(proto, given))


@pytest.mark.needs_cc
def test_a_sequence_of_a_known_length_is_straight_code():
    report = byoc.compile(KNOWN).report
    assert "control_flow" not in report and not report["host_fallbacks"]


@pytest.mark.needs_cc
def test_the_parts_around_sequences_are_generated_code():
    shown = byoc.compile(GROWN).report["control_flow"][0]
    assert shown["parts"] and not any(part["host_fallbacks"] for part in shown["parts"].values())


OPTIONAL = model("""
g (optional(float[3]) o, float[3] x) => (float[3] y) {
  h = OptionalHasElement(o)
  y = If(h) <then_branch = t () => (float[3] p) { e = OptionalGetElement(o)
                                                 p = Add(e, x) },
             else_branch = e () => (float[3] q) { q = Neg(x) }>
}""")


@pytest.mark.needs_cc
def test_an_optional_input_is_none_or_an_array():
    library, x, o = byoc.compile(OPTIONAL), numbers(3), numbers(3)
    np.testing.assert_allclose(library.run({"o": None, "x": x})[0], -x)
    np.testing.assert_allclose(library.run({"o": o, "x": x})[0], o + x)


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    "given, words",
    [
        ({"s": numbers(2, 3)}, "expected a list of arrays, got a ndarray"),
        ({"s": [numbers(2, 3), "no"]}, "a str among its elements is no array"),
        ({"s": []}, "position 0 is outside of a sequence of 0 elements"),
        ({"s": [numbers(2, 3), numbers(2, 4)]}, "the elements do not join along axis 0"),
        ({"s": [numbers(2, 3).astype("float64")]}, "expected dtype float32, got float64"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_sequence_that_does_not_fit_is_refused_in_a_sentence(given, words):
    with pytest.raises(InputError, match=words):
        byoc.compile(BORDERS).run({**given, "w": numbers(3, 4)})


@pytest.mark.parametrize("name", CASES)
def test_a_plan_has_the_operators_of_all_parts(name):
    plan = byoc.plan(CASES[name][0], ["json", "c"])
    assert plan.regions
    if name != "known":
        with pytest.raises(PartitionError, match="whose parts are planned one by one"):
            byoc.compile(CASES[name][0], plan=plan)


def test_a_position_outside_of_a_known_sequence_is_refused_when_importing():
    proto = model("""g (float[2] x) => (float[2] y) {
      two = Constant<value = int64 {2}>()
      s = SequenceConstruct(x, x)
      y = SequenceAt(s, two) }""")
    with pytest.raises(ImportModelError, match="position 2 is outside of a sequence of 2 elements"):
        byoc.import_onnx(proto)


def test_elements_of_two_ranks_are_refused():
    proto = model("""g (float[2] x, float[2, 2] z, int64 p) => (float[2] y) {
      s = SequenceConstruct(x, z)
      y = SequenceAt(s, p) }""")
    with pytest.raises(ImportModelError, match="one dtype and one rank"):
        byoc.import_onnx(proto)
