"""Decisions and loops inside of straight code, made by native code, against ONNX Runtime."""

import numpy as np
import onnx
import onnxruntime
import pytest

import byoc
from byoc.errors import InputError, RunTimeoutError, UserError
from byoc.runtime.json.engine import JsonEngine
from byoc.runtime.library import Library

pytestmark = pytest.mark.needs_cc
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
DECIDED = """
g (float[B, 8] h, float[T, B, 8] x, float[8, 8] w, int64 n) => (float[B, 8] last) {
  zero = Constant<value = float {0.0}>()
  last = Loop(n, , h) <body = b (int64 i, bool going, float[B, 8] s) => (bool on, float[B, 8] s2) {
     e = Gather<axis = 0>(x, i)
     m = ReduceMean<keepdims = 0>(e)
     open = Greater(m, zero)
     s2, r = If(open) <then_branch = t () => (float[B, 8] p, float r) { d = MatMul(s, w)
                                                                    p = Tanh(d)
                                                                    r = ReduceSum<keepdims = 0>(p) },
                    else_branch = f () => (float[B, 8] q, float r2) { y = MatMul(e, w)
                                                          r2 = ReduceMax<keepdims = 0>(y)
                                                          few = Less(r2, zero)
                                                          q = If(few) <then_branch = v () => (float[B, 8] u) {
                                                                          u = Softmax(y) },
                                                                      else_branch = z () => (float[B, 8] k) {
                                                                          k = Sigmoid(s) }> }>
     on = Identity(going)
  }>
}"""
NESTED = """
g (float[B, 8] h, float[8, 8] w, int64 n, int64[T] m) => (float[B, 8] last, float[K, B, 8] all) {
  last, all = Loop(n, , h) <body = b (int64 i, bool going, float[B, 8] s) => (bool on, float[B, 8] s3, float[B, 8] o) {
     count = Gather<axis = 0>(m, i)
     s2, t = Loop(count, , s, s) <body = c (int64 j, bool more, float[B, 8] u, float[B, 8] v)
                                       => (bool on2, float[B, 8] u2, float[B, 8] v2) {
        d = MatMul(u, w)
        u2 = Tanh(d)
        v2 = Identity(v)
        on2 = Identity(more)
     }>
     s3 = Add(s2, t)
     o = Relu(s3)
     on = Identity(going)
  }>
}"""


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + text)


def of_onnxruntime(proto: onnx.ModelProto, given: dict) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, given)


def agrees(library: Library, proto: onnx.ModelProto, given: dict) -> None:
    for got, want in zip(library.run(given), of_onnxruntime(proto, given), strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def decided(steps: int, batch: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(steps + batch)
    shapes = {"h": (batch, 8), "x": (steps, batch, 8), "w": (8, 8)}
    return {k: rng.standard_normal(s).astype("float32") for k, s in shapes.items()} | {"n": np.array(steps)}


@pytest.fixture
def computed(monkeypatch):
    """How often a library was run from Python."""
    calls: list[int] = []
    compute = Library.compute
    monkeypatch.setattr(Library, "compute", lambda self, inputs: calls.append(1) or compute(self, inputs))
    return calls


@pytest.mark.parametrize("threads", [1, 3])
def test_branches_are_chosen_without_a_call_of_python_for_each(computed, threads):
    proto = model(DECIDED)
    library = byoc.compile(proto)
    library.threads = threads
    for steps, batch in ((1, 1), (60, 2), (60, 2), (3, 5), (200, 1)):
        computed.clear()
        agrees(library, proto, decided(steps, batch))
        assert len(computed) <= 14, "a few calls after the sizes have changed, and then none"


@pytest.mark.optimized  # a hundred turns, whose roundings without fused operations add up to more than the tolerance
def test_a_loop_in_a_loop_is_native_where_it_runs_and_where_it_does_not(computed):
    proto = model(NESTED)
    library = byoc.compile(proto)
    for counts in ([1], [0, 3, 1, 0, 4], [0] * 9, [2] * 50):
        given = decided(len(counts), 2) | {"m": np.array(counts)}
        del given["x"]
        computed.clear()
        agrees(library, proto, given)
        assert len(computed) <= 10


def test_an_index_outside_in_a_branch_names_its_node_and_the_library_runs_again():
    proto = model("""
g (float[5] x, int64[T] at, int64 n) => (float last) {
  zero = Constant<value = float {0.0}>()
  two = Constant<value = int64 {2}>()
  last = Loop(n, , zero) <body = b (int64 i, bool going, float s) => (bool on, float s2) {
     k = Gather<axis = 0>(at, i)
     much = Greater(i, two)
     e = If(much) <then_branch = t () => (float p) { [inner] p = Gather<axis = 0>(x, k) },
                   else_branch = f () => (float q) { q = ReduceSum<keepdims = 0>(x) }>
     s2 = Add(s, e)
     on = Identity(going)
  }>
}""")
    library = byoc.compile(proto)
    good = {"x": np.arange(5, dtype="float32"), "at": np.array([0, 9, 9, 2, 4, 3]), "n": np.array(6)}
    for _ in range(2):
        agrees(library, proto, good)
        with pytest.raises(InputError, match="inner.*7"):
            library.run({**good, "at": np.array([0, 0, 0, 1, 2, 7])})


def test_a_loop_without_an_end_inside_of_another_is_ended_by_the_time_limit():
    proto = model("""
g (float[2] x, bool[T] c) => (float[2] y) {
  three = Constant<value = int64 {3}>()
  y = Loop(three, , x) <body = b (int64 i, bool going, float[2] s) => (bool on, float[2] s2) {
     k = Gather<axis = 0>(c, i)
     s2 = Loop(, k, s) <body = d (int64 j, bool more, float[2] u) => (bool on2, float[2] u2) { u2 = Tanh(u)
        on2 = Identity(k) }>
     on = Identity(going) }>
}""")
    library = byoc.compile(proto)
    given = {"x": np.ones(2, "float32"), "c": np.array([False, False, True])}
    for _ in range(2):
        with pytest.raises(RunTimeoutError):
            library.run(given, timeout=0.2)
        np.testing.assert_array_equal(library.run({**given, "c": np.zeros(3, bool)})[0], given["x"])


def test_a_branch_that_is_no_whole_program_stays_with_the_machine_and_refuses_as_elsewhere():
    proto = model("""
g (float[4] x, int64[T] parts, int64 n) => (float[4] y) {
  one = Constant<value = int64 {1}>()
  shape = Constant<value = int64[1] {4}>()
  zero = Constant<value = int64[1] {0}>()
  y = Loop(n, , x) <body = b (int64 i, bool going, float[4] s) => (bool on, float[4] s2) {
     k = Gather<axis = 0>(parts, i)
     much = Greater(k, one)
     s2 = If(much) <then_branch = t () => (float[4] p) { v = Unsqueeze(k, zero)
                                                        e, f = TopK<axis = 0>(s, v)
                                                        g = ReduceSum<keepdims = 0>(e)
                                                        p = Add(g, s) },
                    else_branch = f () => (float[4] q) { q = Softmax(s) }>
     on = Identity(going)
  }>
}""")
    library = byoc.compile(proto)
    given = {"x": np.arange(4, dtype="float32"), "parts": np.array([1, 2, 1, 3]), "n": np.array(4)}
    for _ in range(2):
        agrees(library, proto, given)
        with pytest.raises(UserError, match="k, length along axis 0: 9 is outside a dimension of 4"):
            library.run({**given, "parts": np.array([1, 2, 1, 9])})


def test_a_numpy_kernel_in_a_native_branch_is_called_back_and_what_it_raises_is_raised(monkeypatch):
    proto = model("""
g (float[4] x, bool[T] c, int64 n) => (float[4] y) {
  square = Constant<value = int64[2] {2, 2}>()
  y = Loop(n, , x) <body = b (int64 i, bool going, float[4] s) => (bool on, float[4] s2) {
     much = Gather<axis = 0>(c, i)
     s2 = If(much) <then_branch = t () => (float[4] p) { e = Reshape(s, square)
                                                        f = Det(e)
                                                        p = Add(f, s) },
                    else_branch = f () => (float[4] q) { q = Softmax(s) }>
     on = Identity(going)
  }>
}""")
    library = byoc.compile(proto)
    given = {"x": np.arange(4, dtype="float32"), "c": np.array([1, 1, 1, 0, 1], bool), "n": np.array(5)}
    agrees(library, proto, given)
    calls = []
    run = JsonEngine.__call__

    def counted(self, inputs, *more):
        calls.append(1)
        if len(calls) == 3:
            raise InputError("the third call")
        return run(self, inputs, *more)

    monkeypatch.setattr(JsonEngine, "__call__", counted)
    with pytest.raises(InputError, match="the third call"):
        library.run(given)
    monkeypatch.undo()
    agrees(library, proto, given)
