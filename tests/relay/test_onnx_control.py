"""If, Loop and Scan, compiled, saved and loaded in a new process, against ONNX Runtime."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
import pytest

import byoc
from byoc.errors import CompileError, ImportModelError, RunTimeoutError

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
RNG = np.random.default_rng(3)


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + text)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def of_onnxruntime(proto: onnx.ModelProto, feeds: dict) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def assert_same(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    assert [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in want]
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


BRANCHES = model("""
g (float[N, 8] x, bool c) => (float[M, 8] y, float[N, 8] z) {
  a = Mul(x, x)
  b, z = If(c) <then_branch = t () => (float[K, 8] r, float[N, 8] p) { r = Concat<axis=0>(a, x)
                                                                      p = Exp(a) },
                else_branch = e () => (float[N, 8] s, float[N, 8] q) { s = Sub(a, x)
                                                                      q = Neg(x) }>
  d = Relu(b)
  y = Mul(d, d)
}""")
RUNS = model("""
g (float[N, 8] x, int64 n, float[8, 8] w) => (float[N, 8] y, float[M, 8] z) {
  c = Constant<value = bool {1}>()
  a = Mul(x, x)
  p, q = Loop(n, c, a, x) <body = b (int64 i, bool going, float[N, 8] s, float[K, 8] t)
                                   => (bool on, float[N, 8] s2, float[L, 8] t2) {
     m = MatMul(s, w)
     u = Tanh(m)
     s2 = Add(u, a)
     t2 = Concat<axis=0>(t, x)
     f = Cast<to=1>(i)
     four = Constant<value = float {4.0}>()
     on = Less(f, four)
  }>
  y = Relu(p)
  z = Exp(q)
}""")
NESTED = model("""
g (float[4, 8] x, int64 n) => (float[4, 8] y) {
  c = Constant<value = bool {1}>()
  zero = Constant<value = float {0.0}>()
  y = Loop(n, c, x) <body = b (int64 i, bool going, float[4, 8] s) => (bool on, float[4, 8] s2) {
     m = ReduceSum<keepdims=0>(s)
     k = Less(m, zero)
     s2 = If(k) <then_branch = t () => (float[4, 8] r) { q = Softmax(s)
                                                        r = Add(q, x) },
                 else_branch = e () => (float[4, 8] r2) { r2 = Sub(s, x) }>
     on = Identity(going)
  }>
}""")
COLLECTED = model("""
g (float[4, 8] x, int64 n) => (float[4, 8] y, float[K, 4, 8] z, int64[K] w) {
  c = Constant<value = bool {1}>()
  y, z, w = Loop(n, c, x) <body = b (int64 i, bool going, float[4, 8] s)
                                    => (bool on, float[4, 8] s2, float[4, 8] o, int64 i2) {
     s2 = Tanh(s)
     o = Mul(s2, x)
     i2 = Mul(i, i)
     on = Identity(going)
  }>
}""")
SCANNED = model("""
g (float[B, 8] h, float[B, T, 8] x, float[T, B] m, float[8, 8] w) => (float[B, 8] y, float[B, T, 8] z, float[T, B] s) {
  y, z, s = Scan<num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [1, 0],
              scan_output_axes = [1, 0], scan_output_directions = [1, 0],
   body = b (float[B, 8] state, float[B, 8] e, float[B] f) => (float[B, 8] state2, float[B, 8] o, float[B] r) {
     p = MatMul(state, w)
     a = Add(p, e)
     state2 = Tanh(a)
     o = Neg(state2)
     g = ReduceSum<keepdims = 0>(o)
     r = Mul(f, g)
  }>(h, x, m)
}""")
SELECTED = model("""
g (float[4, 8] x, int64 n) => (float[4, 8] y) {
  zero = Constant<value = float {0.0}>()
  y = Loop(n, , x) <body = b (int64 i, bool going, float[4, 8] s) => (bool on, float[4, 8] s2) {
     m = ReduceSum<keepdims = 0>(s)
     k = Less(m, zero)
     s2 = If(k) <then_branch = t () => (float[4, 8] r) { q = Tanh(s)
                                                        r = Add(q, x) },
                 else_branch = e () => (float[4, 8] r2) { r2 = Sub(s, x) }>
     on = Identity(going)
  }>
}""")
CONSTANTS = model("""
g (float[N, 8] x, bool c) => (float[M] y, float[N, 8] z) {
  y, z = If(c) <then_branch = t () => (float[1] r, float[N, 8] p) { r = Constant<value = float[1] {1.0}>()
                                                                   p = Identity(x) },
                else_branch = e () => (float[3] s, float[N, 8] q) { s = Constant<value = float[3] {1.0, 2.0, 3.0}>()
                                                                   q = Neg(x) }>
}""")
UNCHANGED = model("""
g (float[N, 8] x, int64 n) => (float[N, 8] y, float[N, 8] z, int64 count) {
  zero = Constant<value = int64 {0}>()
  y, z, count = Loop(n, , x, x, zero) <body = b (int64 i, bool going, float[N, 8] s, float[N, 8] t, int64 k)
                                               => (bool on, float[N, 8] t1, float[N, 8] s1, int64 k2) {
     on = Identity(going)
     s1 = Identity(s)
     t1 = Neg(t)
     one = Constant<value = int64 {1}>()
     k2 = Add(k, one)
  }>
}""")
VECTORS = model("""
g (float[N, 8] x, int64[1] n, bool[1] c) => (float[N, 8] y) {
  y = Loop(n, c, x) <body = b (int64[1] i, bool[1] going, float[N, 8] s) => (bool[1] on, float[N, 8] s2) {
     on = Identity(going)
     f = Cast<to = 1>(i)
     s2 = Add(s, f)
  }>
}""")
NOTHING_CARRIED = model("""
g (float[N, 8] x, int64 n) => (float[K, N, 8] y) {
  c = Constant<value = bool {1}>()
  y = Loop(n, c) <body = b (int64 i, bool going) => (bool on, float[N, 8] s) {
     on = Identity(going)
     f = Cast<to = 1>(i)
     s = Mul(x, f)
  }>
}""")
DEEP = model("""
g (float[N, 8] x, int64 n, bool c) => (float[N, 8] y, float[K, L, N, 8] z) {
  w = Exp(x)
  y, z = Loop(n, , x) <body = b (int64 i, bool going, float[N, 8] s) => (bool on, float[N, 8] s2, float[L, N, 8] o) {
     two = Constant<value = int64 {2}>()
     s2, o = Loop(two, , s) <body = d (int64 j, bool more, float[N, 8] u) => (bool on2, float[N, 8] u2, float[N, 8] q) {
        v = If(c) <then_branch = t () => (float[N, 8] p) { p = Softmax(u) },
                   else_branch = e () => (float[N, 8] r) { r = Sub(u, w) }>
        u2 = Tanh(v)
        q = Mul(u2, w)
        on2 = Identity(more)
     }>
     on = Identity(going)
  }>
}""")
ENDLESS = model("""
g (float[1] x) => (float[1] y) {
  c = Constant<value = bool {1}>()
  y = Loop(, c, x) <body = b (int64 i, bool going, float[1] s) => (bool on, float[1] s2) { s2 = Tanh(s)
     on = Identity(going) }>
}""")
CASES = {
    "branches": (BRANCHES, [{"x": numbers(n, 8), "c": np.array(c)} for n in (1, 5) for c in (True, False)]),
    "runs": (
        RUNS,
        [{"x": numbers(n, 8), "n": np.array(k), "w": numbers(8, 8)} for n, k in ((3, 0), (3, 2), (5, 9), (1, 1))],
    ),
    "collected": (COLLECTED, [{"x": numbers(4, 8), "n": np.array(k)} for k in (0, 1, 12)]),
    "scanned": (
        SCANNED,
        [
            {"h": numbers(b, 8), "x": numbers(b, t, 8), "m": numbers(t, b), "w": numbers(8, 8) * np.float32(0.2)}
            for b, t in ((1, 1), (3, 5), (2, 20))
        ],
    ),
    "constants": (CONSTANTS, [{"x": numbers(2, 8), "c": np.array(c)} for c in (True, False)]),
    "unchanged": (UNCHANGED, [{"x": numbers(2, 8), "n": np.array(k)} for k in (0, 1, 4)]),
    "vectors": (VECTORS, [{"x": numbers(2, 8), "n": np.array([3]), "c": np.array([c])} for c in (True, False)]),
    "nothing carried": (NOTHING_CARRIED, [{"x": numbers(2, 8), "n": np.array(k)} for k in (1, 3)]),
    "deep": (
        DEEP,
        [{"x": numbers(2, 8), "n": np.array(k), "c": np.array(c)} for k in (1, 3) for c in (True, False)],
    ),
    "selected": (SELECTED, [{"x": numbers(4, 8), "n": np.array(k)} for k in (0, 1, 30)]),
    "nested": (NESTED, [{"x": numbers(4, 8), "n": np.array(k)} for k in (0, 1, 30)]),
}


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    "name, targets",
    [
        pytest.param(name, targets, marks=[pytest.mark.slow] if targets[0] == "json" and k % 2 else [])
        for k, name in enumerate(CASES)
        for targets in (["c"], ["json", "c"])
    ],
    ids=str,
)
def test_what_is_decided_when_the_model_runs_is_what_onnxruntime_decides(name, targets):
    proto, feeds = CASES[name]
    library = byoc.compile(proto, targets)
    assert library.report["control_flow"]
    for given in feeds:
        assert_same(library.run(given), of_onnxruntime(proto, given))


@pytest.mark.needs_cc
def test_straight_parts_are_whole_programs_of_generated_code():
    shown = byoc.compile(NESTED).report["control_flow"][0]
    (body,) = shown["parts"].values()
    assert not body["host_fallbacks"] and "node_by_node" not in body
    (choice,) = body["control_flow"]
    for branch in choice["parts"].values():
        assert not branch["host_fallbacks"] and "node_by_node" not in branch


@pytest.mark.needs_cc
def test_of_small_branches_in_a_loop_the_values_are_selected():
    (shown,) = byoc.compile(SELECTED).report["control_flow"]
    (body,) = shown["parts"].values()
    assert "control_flow" not in body and not body["host_fallbacks"]


@pytest.mark.needs_cc
def test_what_follows_a_size_that_is_known_only_then_is_generated_code():
    report = byoc.compile(BRANCHES).report
    (shown,) = report["control_flow"]
    assert not report["host_fallbacks"] and len(shown["parts"]) == 4
    assert not shown["parts"]["main_part_1"]["host_fallbacks"]


@pytest.mark.needs_cc
def test_each_part_has_a_plan_of_its_own():
    shown = byoc.compile(BRANCHES, ["json", "c"]).report["control_flow"][0]
    assert "virtual machine" in shown["runs on"]
    branches = [part for name, part in shown["parts"].items() if "then" in name or "else" in name]
    assert [branch["plan"]["targets"] for branch in branches] == [["json"]] * 2
    assert all(branch["regions"] for branch in branches)


LOADS = """
import json, sys
import numpy as np
import byoc.runtime
library = byoc.runtime.load(sys.argv[1])
given = dict(np.load(sys.argv[2]))
np.savez(sys.argv[3], *library.run(given))
print(json.dumps(sorted(n for n in sys.modules if n.startswith("byoc.relay"))))
"""


@pytest.mark.needs_cc
@pytest.mark.parametrize("name", CASES)
def test_a_saved_model_with_control_flow_runs_without_the_compiler(tmp_path, name):
    proto, feeds = CASES[name]
    path = byoc.compile(proto).save(tmp_path / "m.byoc")
    np.savez(tmp_path / "in.npz", **feeds[-1])
    words = [sys.executable, "-c", LOADS, path, tmp_path / "in.npz", tmp_path / "out.npz"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == []
    with np.load(tmp_path / "out.npz") as found:
        assert_same([found[key] for key in found.files], of_onnxruntime(proto, feeds[-1]))


@pytest.mark.needs_cc
def test_a_loop_that_never_ends_is_ended_by_the_time_limit_and_the_library_runs_again():
    library = byoc.compile(ENDLESS)
    for _ in range(2):
        with pytest.raises(RunTimeoutError):
            library.run({"x": numbers(1)}, timeout=0.1)


INTERRUPTED = """
import numpy as np
import byoc.runtime
library = byoc.runtime.load("PATH")
print("running", flush=True)
try:
    library.run({"x": np.ones(1, "float32")})
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.needs_cc
def test_a_loop_that_never_ends_is_ended_by_an_interrupt(tmp_path):
    path = byoc.compile(ENDLESS).save(tmp_path / "m.byoc")
    words = [sys.executable, "-c", INTERRUPTED.replace("PATH", str(path))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "running\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "interrupted\n"


@pytest.mark.needs_cc
def test_plain_c_of_a_model_with_control_flow_is_refused_with_its_node(tmp_path):
    with pytest.raises(CompileError, match="Loop_1: @Loop_1_loop_1 is decided when the model runs"):
        byoc.export_c(ENDLESS, tmp_path / "c")


@pytest.mark.parametrize(
    "text, words",
    [
        (
            """g (float[2] x, bool c, int64 n) => (float[2] y) {
                 y = Loop(n, , x) <body = b (int64 i, bool go, float[2] v) => (bool d, float[2] w) {
                   w = If(c) <then_branch = t () => (float[2] r) { r = Exp(v) },
                              else_branch = e () => (float s) { s = ReduceSum<keepdims=0>(v) }>
                   d = Identity(go) }> }""",
            "the branches give Tensor.* and float32 for output 'w': one type is needed",
        ),
        (
            """g (float[2] x, int64 n) => (float[2] y) {
                 y = Loop(n, , x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[1, 2] t) {
                   zero = Constant<value = int64[1] {0}>()
                   t = Unsqueeze(s, zero)
                   d = Identity(c) }> }""",
            "a carried value keeps its dtype and its rank",
        ),
        (
            """g (float[2] x, int64 n) => (float[2] y) {
                 y = Loop(n, , x) <body = b (int64 i, bool c) => (bool d) { d = Identity(c) }> }""",
            "1 values are carried, its body takes 0 and gives 0",
        ),
    ],
)
def test_control_flow_that_has_no_type_is_refused_with_its_reason(text, words):
    with pytest.raises(ImportModelError, match=words):
        byoc.compile(model(text))
