"""Loops whose carried values change their sizes from turn to turn, in native code, against ONNX Runtime."""

import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

import byoc
from byoc.errors import InputError
from byoc.runtime.dso.growing_loop import GrowingLoop
from byoc.runtime.dso.native_program import NativeProgram
from byoc.runtime.library import Library

pytestmark = pytest.mark.needs_cc
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
BODY = "<body = b (int64 i, bool going, float[K, 4] s) => (bool on, float[L, 4] s2)"
DECODER = """
g (int64[B, 1] token, int64 n) => (int64[B, M] tokens, float[B, C, 8] keys) {
  shape = Shape<end = 1>(token)
  sizes = Constant<value = int64[2] {0, 8}>()
  whole = Concat<axis = 0>(shape, sizes)
  none = ConstantOfShape(whole)
  tokens, keys = Loop(n, , token, none) <body = b (int64 i, bool going, int64[B, S] t, float[X, P, 8] c)
                                       => (bool on, int64[Y, R] t2, float[Z, Q, 8] c2) {
     one = Constant<value = int64[1] {1}>()
     front = Constant<value = int64[1] {-1}>()
     end = Constant<value = int64[1] {9223372036854775807}>()
     last = Slice(t, front, end, one)
     e = Gather(embedding, last)
     q = MatMul(e, wq)
     k = MatMul(e, wk)
     c2 = Concat<axis = 1>(c, k)
     turned = Transpose<perm = [0, 2, 1]>(c2)
     scores = MatMul(q, turned)
     p = Softmax<axis = -1>(scores)
     y = MatMul(p, c2)
     a = Add(y, e)
     logits = MatMul(a, wo)
     next = ArgMax<axis = -1, keepdims = 0>(logits)
     t2 = Concat<axis = 1>(t, next)
     on = Identity(going)
  }>
}"""
JOINED = f"""
g (float[N, 4] x, int64 n) => (float[M, 4] y) {{
  y = Loop(n, , x) {BODY} {{
     h = Constant<value = float {{0.5}}>()
     m = ReduceMean<axes = [0], keepdims = 1>(s)
     w = Add(m, h)
     s2 = Concat<axis = 0>(s, w)
     on = Identity(going)
  }}>
}}"""
WINDOW = f"""
g (float[N, 4] x, int64 n) => (float[M, 4] y) {{
  y = Loop(n, , x) {BODY} {{
     h = Constant<value = float {{0.5}}>()
     m = ReduceMean<axes = [0], keepdims = 1>(s)
     w = Add(m, h)
     j = Concat<axis = 0>(s, w)
     from = Constant<value = int64[1] {{-5}}>()
     to = Constant<value = int64[1] {{9223372036854775807}}>()
     front = Constant<value = int64[1] {{0}}>()
     s2 = Slice(j, from, to, front)
     on = Identity(going)
  }}>
}}"""
LESS = f"""
g (float[N, 4] x, int64 n) => (float[M, 4] y) {{
  y = Loop(n, , x) {BODY} {{
     one = Constant<value = int64[1] {{1}}>()
     to = Constant<value = int64[1] {{9223372036854775807}}>()
     front = Constant<value = int64[1] {{0}}>()
     t = Slice(s, one, to, front)
     s2 = Neg(t)
     on = Identity(going)
  }}>
}}"""
DOUBLED = f"""
g (float[N, 4] x, int64 n) => (float[M, 4] y) {{
  y = Loop(n, , x) {BODY} {{
     h = Neg(s)
     s2 = Concat<axis = 0>(s, h)
     on = Identity(going)
  }}>
}}"""
COLLECTING = """
g (float[N, 4] x, int64 n) => (float[M, 4] y, float[T, 4] z) {
  y, z = Loop(n, , x) <body = b (int64 i, bool going, float[K, 4] s) => (bool on, float[L, 4] s2, float[4] o) {
     front = Constant<value = int64[1] {0}>()
     o = ReduceMean<axes = [0], keepdims = 0>(s)
     row = Unsqueeze(o, front)
     s2 = Concat<axis = 0>(s, row)
     on = Identity(going)
  }>
}"""
LIST = f"""
g (float[N, 4] x, float[A, 4] table, int64 n) => (float[M, 4] y) {{
  y = Loop(n, , x) {BODY} {{
     front = Constant<value = int64[1] {{0}}>()
     e = Gather<axis = 0>(table, i)
     w = Unsqueeze(e, front)
     s2 = Concat<axis = 0>(s, w)
     on = Identity(going)
  }}>
}}"""


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + text)


def decoder() -> onnx.ModelProto:
    proto, rng = model(DECODER), np.random.default_rng(0)
    for name, shape in {"embedding": (20, 8), "wq": (8, 8), "wk": (8, 8), "wo": (8, 20)}.items():
        weight = rng.standard_normal(shape).astype("float32")
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    return proto


def rows(count: int, turns: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(turns).standard_normal((count, 4)).astype("float32"), "n": np.array(turns)}


def of_onnxruntime(proto: onnx.ModelProto, given: dict) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, given)


def assert_same(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    assert [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in want]
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.fixture
def native_runs(monkeypatch) -> list[int]:
    """The runs of each loop that native code made."""
    found: list[int] = []
    run = GrowingLoop.run

    def noted(self, loop, *more):
        status = run(self, loop, *more)
        found.append(loop.done)
        return status

    monkeypatch.setattr(GrowingLoop, "run", noted)
    return found


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", [JOINED, WINDOW, COLLECTING], ids=["joined", "window", "collecting"])
def test_turns_of_new_sizes_follow_each_other_in_native_code(native_runs, text, threads):
    proto = model(text)
    library = byoc.compile(proto)
    library.threads = threads
    turns = (1, 2, 31, 33, 200, 7, 33)
    for count in turns:
        assert_same(library.run(rows(3, count)), of_onnxruntime(proto, rows(3, count)))
    assert native_runs == list(turns)


def test_a_decoder_whose_caches_grow_runs_its_turns_in_native_code(native_runs):
    proto = decoder()
    library = byoc.compile(proto)
    for batch, count in ((1, 3), (2, 40), (2, 41), (1, 100)):
        given = {"token": np.full((batch, 1), 7), "n": np.array(count)}
        assert_same(library.run(given), of_onnxruntime(proto, given))
    assert native_runs == [3, 40, 41, 100]


def test_a_value_of_which_each_turn_takes_a_row_away_ends_where_none_is_left(native_runs):
    proto = model(LESS)
    library = byoc.compile(proto)
    for count in (3, 40, 50):
        assert_same(library.run(rows(50, count)), of_onnxruntime(proto, rows(50, count)))
    assert native_runs == [3, 40, 50]


def test_a_value_that_doubles_has_a_table_for_each_turn(native_runs):
    proto = model(DOUBLED)
    library = byoc.compile(proto)
    for count in (1, 5, 12):
        assert_same(library.run(rows(2, count)), of_onnxruntime(proto, rows(2, count)))
    assert native_runs == [1, 5, 12]


def test_results_of_one_run_stay_when_the_next_one_is_made():
    library = byoc.compile(model(JOINED))
    first = library.run(rows(3, 50))
    kept = [a.copy() for a in first]
    for count in (50, 51, 20):
        library.run(rows(3, count) | {"x": np.zeros((3, 4), "float32")})
    assert [a.tobytes() for a in first] == [a.tobytes() for a in kept]


def test_what_native_code_gives_is_what_the_machine_gives_turn_by_turn(monkeypatch):
    library = byoc.compile(decoder())
    given = {"token": np.full((2, 1), 3), "n": np.array(40)}
    together = library.run(given)
    monkeypatch.setattr(Library, "loop", lambda *_: None)
    assert [a.tobytes() for a in together] == [a.tobytes() for a in library.run(given)]


def test_an_index_outside_in_a_later_turn_names_its_node_and_the_library_runs_again(native_runs):
    proto = model(LIST)
    library = byoc.compile(proto)
    table = {"table": np.ones((6, 4), "float32")}
    with pytest.raises(InputError, match="Gather"):
        library.run(rows(2, 10) | table)
    given = rows(2, 6) | table
    assert_same(library.run(given), of_onnxruntime(proto, given))
    assert native_runs == [6, 6]


LOADS = """
import json, sys
import numpy as np
import byoc.runtime
from byoc.runtime.dso.growing_loop import GrowingLoop
library = byoc.runtime.load(sys.argv[1])
run, done = GrowingLoop.run, []
GrowingLoop.run = lambda self, loop, *more: (run(self, loop, *more), done.append(loop.done))[0]
np.savez(sys.argv[3], *library.run(dict(np.load(sys.argv[2]))))
print(json.dumps(done))
"""


def test_a_saved_decoder_runs_natively_in_a_new_process(tmp_path):
    proto = decoder()
    path = byoc.compile(proto).save(tmp_path / "m.byoc")
    given = {"token": np.full((2, 1), 5), "n": np.array(64)}
    np.savez(tmp_path / "in.npz", **given)
    words = [sys.executable, "-c", LOADS, path, tmp_path / "in.npz", tmp_path / "out.npz"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == [64]
    with np.load(tmp_path / "out.npz") as found:
        assert_same([found[key] for key in found.files], of_onnxruntime(proto, given))


def test_an_old_artefact_whose_library_has_no_such_function_goes_turn_by_turn(monkeypatch):
    proto = model(JOINED)
    library = byoc.compile(proto)
    monkeypatch.setattr(NativeProgram, "growing_runner", lambda *_: None)
    assert_same(library.run(rows(3, 40)), of_onnxruntime(proto, rows(3, 40)))
