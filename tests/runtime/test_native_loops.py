"""Loops whose turns follow each other in native code, against ONNX Runtime and against the machine's own turns."""

import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

import byoc
from byoc.errors import InputError
from byoc.runtime.control import ControlModule
from byoc.runtime.library import Library
from byoc.runtime.vm import loops

pytestmark = pytest.mark.needs_cc
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
RECURRENT = """
g (float[B, 8] h, float[T, B, 8] x, int64 n)
    => (float[B, 8] last, float[K, B, 8] all, float[K, B, 8] again, int64[K] at) {
  w = Constant<value_float = 0.5>()
  last, all, again, at = Loop(n, , h) <body = b (int64 i, bool going, float[B, 8] s)
                                    => (bool on, float[B, 8] s2, float[B, 8] o, float[B, 8] o2, int64 at) {
     e = Gather<axis = 0>(x, i)
     k = Mul(s, w)
     a = Add(k, e)
     s2 = Tanh(a)
     o = Identity(s2)
     o2 = Neg(s2)
     at = Mul(i, i)
     on = Identity(going)
  }>
}"""
UNTIL = """
g (float[B, 8] x) => (float[B, 8] y, int64 count, float[K, B, 8] z) {
  c = Constant<value = bool {1}>()
  zero = Constant<value = int64 {0}>()
  y, count, z = Loop(, c, x, zero) <body = b (int64 i, bool going, float[B, 8] s, int64 k)
                                 => (bool on, float[B, 8] s2, int64 k2, float[B, 8] o) {
     half = Constant<value = float {0.99}>()
     s2 = Mul(s, half)
     o = Neg(s2)
     one = Constant<value = int64 {1}>()
     k2 = Add(k, one)
     m = ReduceMax<keepdims = 0>(s2)
     least = Constant<value = float {0.1}>()
     on = Greater(m, least)
  }>
}"""


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + text)


def feeds(count: int, batch: int = 2, steps: int | None = None) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(count)
    shapes = {"h": (batch, 8), "x": (count if steps is None else steps, batch, 8)}
    return {k: rng.standard_normal(s).astype("float32") for k, s in shapes.items()} | {"n": np.array(count)}


def of_onnxruntime(proto: onnx.ModelProto, given: dict) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, given)


def assert_same(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    assert [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in want]
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The outputs of each library that is called from now on for a single run."""
    calls: list[tuple[str, ...]] = []
    compute = Library.compute

    def noted(self, inputs):
        calls.append(tuple(str(s.shape) for s in self.outputs))
        return compute(self, inputs)

    monkeypatch.setattr(Library, "compute", noted)
    return calls


@pytest.mark.parametrize("threads", [1, 2])
def test_turns_follow_each_other_without_a_call_of_the_library_for_each(monkeypatch, threads):
    proto = model(RECURRENT)
    library = byoc.compile(proto)
    library.threads = threads
    for count in (0, 1, 2, 31, 32, 33, 200, 7):
        given = feeds(count)
        calls = counted(monkeypatch)
        got = library.run(given)
        assert len(calls) <= 3, "the model, and what stands around the loop"
        monkeypatch.undo()
        assert_same(got, of_onnxruntime(proto, given))
        assert all(not np.may_share_memory(one, other) for one in got for other in given.values())


def test_a_loop_whose_number_of_turns_is_found_by_itself_gives_what_onnxruntime_gives():
    proto = model(UNTIL)
    library = byoc.compile(proto)
    for start in (0.05, 0.5, 3.0, 1000.0):
        given = {"x": np.full((3, 8), start, "float32")}
        got = library.run(given)
        assert_same(got, of_onnxruntime(proto, given))
        assert int(got[1]) == len(got[2])


def test_what_is_given_is_what_the_machine_gives_turn_by_turn(monkeypatch):
    library = byoc.compile(model(RECURRENT))
    given = feeds(40)
    together = library.run(given)
    monkeypatch.setattr(Library, "loop", lambda *_: None)
    calls = counted(monkeypatch)
    apart = library.run(given)
    assert len(calls) > 40
    assert [a.tobytes() for a in together] == [a.tobytes() for a in apart]


def test_results_of_one_run_stay_when_the_next_one_is_made():
    library = byoc.compile(model(RECURRENT))
    first = library.run(feeds(50))
    kept = [a.copy() for a in first]
    library.run(feeds(51))
    library.run(feeds(20))
    assert [a.tobytes() for a in first] == [a.tobytes() for a in kept]


def test_an_index_outside_in_a_later_turn_names_its_node_and_the_library_runs_again():
    library = byoc.compile(model(RECURRENT))
    with pytest.raises(InputError, match="Gather"):
        library.run(feeds(10, steps=6))
    assert_same(library.run(feeds(6)), of_onnxruntime(model(RECURRENT), feeds(6)))


def test_a_value_that_stays_the_same_and_one_that_changes_places_are_carried():
    proto = model("""
g (float[4] a, float[4] b, int64 n) => (float[4] y, float[4] z) {
  y, z = Loop(n, , a, b) <body = b (int64 i, bool going, float[4] s, float[4] t)
                              => (bool on, float[4] s2, float[4] t2) {
     s2 = Identity(t)
     t2 = Sub(s, t)
     on = Identity(going)
  }>
}""")
    library = byoc.compile(proto)
    for count in (1, 2, 5):
        given = {"a": np.arange(4, dtype="float32"), "b": np.ones(4, "float32"), "n": np.array(count)}
        assert_same(library.run(given), of_onnxruntime(proto, given))


LOADS = """
import json, sys
import numpy as np
import byoc.runtime
from byoc.runtime.library import Library
library = byoc.runtime.load(sys.argv[1])
compute, calls = Library.compute, []
Library.compute = lambda self, inputs: calls.append(1) or compute(self, inputs)
np.savez(sys.argv[3], *library.run(dict(np.load(sys.argv[2]))))
print(len(calls))
"""


def test_a_saved_loop_runs_natively_in_a_new_process(tmp_path):
    path = byoc.compile(model(RECURRENT)).save(tmp_path / "m.byoc")
    np.savez(tmp_path / "in.npz", **feeds(64))
    words = [sys.executable, "-c", LOADS, path, tmp_path / "in.npz", tmp_path / "out.npz"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) <= 3
    with np.load(tmp_path / "out.npz") as found:
        assert_same([found[key] for key in found.files], of_onnxruntime(model(RECURRENT), feeds(64)))


def test_threads_of_a_library_are_those_of_its_parts():
    library = byoc.compile(model(RECURRENT))
    library.threads = 1
    (control,) = (m for m in library.module.walk() if isinstance(m, ControlModule))
    assert [part.executor().threads for part in control.parts.values()] == [1] * len(control.parts)


def test_of_the_functions_of_a_loop_the_one_that_calls_itself_is_found():
    library = byoc.compile(model(RECURRENT))
    (control,) = (m for m in library.module.walk() if isinstance(m, ControlModule))
    functions = control.program.functions
    found = [loops.body_of(f, k, control.program.live_constants) for k, f in enumerate(functions)]
    (body,) = (b for b in found if b is not None)
    assert body.decides == 1 and body.call.collected and body.call.carried
