"""Recurrent models with control flow: ours against ONNX Runtime, in turns, after their outputs agree.

``python -m benchmarks.models.control_flow --hidden 256 --steps 100``; the figures are milliseconds of a call, the
median of the turns of each engine, and the ratio of both. The forms:

- ``small``: a gated recurrent unit in a Loop, with an If between two updates of a few operators;
- ``branches``: an If in a Loop whose branches are products of matrices;
- ``nested``: a Loop of four turns in a Loop;
- ``scan``: a recurrent unit in a Scan;
- ``bilstm``: an LSTM forwards and one backwards, each a Loop over products of the sequence that are made before it, as
  Keras's models are converted: its body is a product of a vector and a matrix, and gates;
- ``sliced``: a Loop that carries the sequence through all runs and takes a slice of it in each;
- ``growing``: a Loop that joins what it has found so far along an axis;
- ``caches``: a Loop that attends to keys of all its runs, which it joins, as a decoder with caches does.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import byoc

AIM = 1.5  # times ONNX Runtime's time
TURNS, SECONDS = 11, 0.25
LOOP = """<ir_version: 8, opset_import: ["" : 17]>
g (float[B, H] h, float[T, B, H] x) => (float[B, H] last, float[T, B, H] all) {
  yes = Constant<value = bool {1}>()
  shape = Shape(x)
  zero = Constant<value = int64 {0}>()
  nought = Constant<value = float {0.0}>()
  half = Constant<value = float {0.5}>()
  four = Constant<value = int64 {4}>()
  steps = Gather(shape, zero)
  last, all = Loop(steps, yes, h) <body = b (int64 i, bool going, float[B, H] s)
                                         => (bool on, float[B, H] s2, float[B, H] o) {
     e = Gather<axis = 0>(x, i)
     %s
     o = Relu(s2)
     on = Identity(going)
  }>
}"""
SMALL = (
    LOOP
    % """xz = MatMul(e, wz)
     hz = MatMul(s, uz)
     az = Add(xz, hz)
     z = Sigmoid(az)
     xn = MatMul(e, wn)
     hn = MatMul(s, un)
     an = Add(xn, hn)
     n = Tanh(an)
     m = ReduceMean<keepdims = 0>(z)
     open = Greater(m, half)
     s2 = If(open) <then_branch = t () => (float[B, H] p) { d = Sub(n, s)
                                                           k = Mul(z, d)
                                                           p = Add(s, k) },
                    else_branch = f () => (float[B, H] q) { y = Mul(z, n)
                                                           q = Add(y, s) }>"""
)
BRANCHES = (
    LOOP
    % """m = ReduceMean<keepdims = 0>(e)
     open = Greater(m, nought)
     s2 = If(open) <then_branch = t () => (float[B, H] p) { d = MatMul(s, wz)
                                                           k = Add(d, e)
                                                           p = Tanh(k) },
                    else_branch = f () => (float[B, H] q) { y = MatMul(s, wn)
                                                           q = Sigmoid(y) }>"""
)
NESTED = (
    LOOP
    % """s1 = Add(s, e)
     s2 = Loop(four, yes, s1) <body = c (int64 j, bool more, float[B, H] u) => (bool on2, float[B, H] u2) {
        v = MatMul(u, wz)
        u2 = Tanh(v)
        on2 = Identity(more) }>"""
)
SCAN = """<ir_version: 8, opset_import: ["" : 17]>
g (float[B, H] h, float[T, B, H] x) => (float[B, H] last, float[T, B, H] all) {
  last, all = Scan<num_scan_inputs = 1, body = b (float[B, H] s, float[B, H] e) => (float[B, H] s2, float[B, H] o) {
     d = MatMul(s, wz)
     y = MatMul(e, wn)
     k = Add(d, y)
     s2 = Tanh(k)
     o = Relu(s2)
  }>(h, x)
}"""
LSTM = """lastN, cN, seqN = Loop(steps, yes, h, h) <body = bN (int64 i, bool going, float[B, H] s, float[B, H] c)
                                         => (bool on, float[B, H] s2, float[B, H] c2, float[B, H] o) {
     place = PLACE
     e = Gather<axis = 0>(px, place)
     r = MatMul(s, uN)
     a = Add(e, r)
     gi, gf, gc, go = Split<axis = 1>(a)
     si = Sigmoid(gi)
     sf = Sigmoid(gf)
     tc = Tanh(gc)
     so = Sigmoid(go)
     kept = Mul(sf, c)
     new = Mul(si, tc)
     c2 = Add(kept, new)
     t2 = Tanh(c2)
     s2 = Mul(so, t2)
     o = Identity(s2)
     on = Identity(going)
  }>"""
BILSTM = """<ir_version: 8, opset_import: ["" : 17]>
g (float[B, H] h, float[T, B, H] x) => (float[B, H] last, float[T, B, K] all) {
  yes = Constant<value = bool {1}>()
  shape = Shape(x)
  zero = Constant<value = int64 {0}>()
  one = Constant<value = int64 {1}>()
  steps = Gather(shape, zero)
  most = Sub(steps, one)
  px = MatMul(x, w4)
  FORWARDS
  BACKWARDS
  last = Add(lastf, lastb)
  all = Concat<axis = -1>(seqf, seqb)
}"""
SLICED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[B, H] h, float[T, B, H] x) => (float[B, H] last, float[T, B, H] all) {
  yes = Constant<value = bool {1}>()
  shape = Shape(x)
  zero = Constant<value = int64 {0}>()
  steps = Gather(shape, zero)
  last, seq, all = Loop(steps, yes, h, x) <body = b (int64 i, bool going, float[B, H] s, float[T, B, H] v)
                                         => (bool on, float[B, H] s2, float[T, B, H] same, float[B, H] o) {
     front = Constant<value = int64[1] {0}>()
     one = Constant<value = int64[1] {1}>()
     start = Unsqueeze(i, front)
     end = Add(start, one)
     part = Slice(v, start, end, front)
     e = Squeeze(part, front)
     same = Identity(v)
     d = MatMul(s, wz)
     k = Add(d, e)
     s2 = Tanh(k)
     o = Relu(s2)
     on = Identity(going)
  }>
}"""
GROWING = """<ir_version: 8, opset_import: ["" : 17]>
g (float[B, H] h, float[T, B, H] x) => (float[B, H] last, float[T, B, H] all) {
  yes = Constant<value = bool {1}>()
  shape = Shape(x)
  zero = Constant<value = int64 {0}>()
  front = Constant<value = int64[1] {0}>()
  steps = Gather(shape, zero)
  none = Slice(x, front, front, front)
  last, all = Loop(steps, yes, h, none) <body = b (int64 i, bool going, float[B, H] s, float[N, B, H] found)
                                         => (bool on, float[B, H] s2, float[M, B, H] more) {
     e = Gather<axis = 0>(x, i)
     d = MatMul(s, wz)
     k = Add(d, e)
     s2 = Tanh(k)
     row = Unsqueeze(s2, front)
     more = Concat<axis = 0>(found, row)
     on = Identity(going)
  }>
}"""
CACHES = GROWING.replace(
    """     d = MatMul(s, wz)
     k = Add(d, e)
     s2 = Tanh(k)
     row = Unsqueeze(s2, front)
     more = Concat<axis = 0>(found, row)
""",
    """     q = MatMul(s, wz)
     k = MatMul(e, wn)
     row = Unsqueeze(k, front)
     more = Concat<axis = 0>(found, row)
     one = Constant<value = int64[1] {1}>()
     q1 = Unsqueeze(q, one)
     keys = Transpose<perm = [1, 2, 0]>(more)
     scores = MatMul(q1, keys)
     p = Softmax<axis = -1>(scores)
     values = Transpose<perm = [1, 0, 2]>(more)
     y = MatMul(p, values)
     y1 = Squeeze(y, one)
     a = Add(y1, e)
     s2 = Tanh(a)
""",
)
FORMS = {
    "small": SMALL,
    "branches": BRANCHES,
    "nested": NESTED,
    "scan": SCAN,
    "sliced": SLICED,
    "growing": GROWING,
    "caches": CACHES,
    "bilstm": BILSTM.replace("FORWARDS", LSTM.replace("N", "f").replace("PLACE", "Identity(i)")).replace(
        "BACKWARDS", LSTM.replace("N", "b").replace("PLACE", "Sub(most, i)")
    ),
}


def recurrent(hidden: int, form: str = "small") -> onnx.ModelProto:
    """The model over random weights ``float32[hidden, hidden]``, of an LSTM ``float32[hidden, 4 hidden]``."""
    model = onnx.parser.parse_model(FORMS[form])
    rng = np.random.default_rng(0)
    read = {name for graph in graphs(model.graph) for node in graph.node for name in node.input}
    for name in sorted(read & {"wz", "uz", "wn", "un", "w4", "uf", "ub"}):
        width = 4 * hidden if form == "bilstm" else hidden
        weight = rng.standard_normal((hidden, width)).astype("float32") / np.float32(np.sqrt(hidden))
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.shape.dim[-1].dim_param == "H":
            value.type.tensor_type.shape.dim[-1].dim_value = hidden
    return model


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """*graph* and those inside of its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs(attribute.g)


def milliseconds(call: Callable[[], object]) -> float:
    """The median of the calls that fit into a turn, after one that is not counted."""
    call()
    end, taken = time.perf_counter() + SECONDS, []
    while not taken or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        taken.append(1e3 * (time.perf_counter() - start))
    return statistics.median(taken)


def main() -> int:
    """Print a line for each number of steps; the status is 1 where outputs differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--form", choices=FORMS, default="small")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--threads", type=int, default=1, help="of each engine; 0: as many as each takes by itself")
    asked = parser.parse_args()
    model = recurrent(asked.hidden, asked.form)
    library = byoc.compile(model)
    library.threads = asked.threads or None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = asked.threads, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    for steps in asked.steps:
        feeds = {
            "h": rng.standard_normal((asked.batch, asked.hidden)).astype("float32"),
            "x": rng.standard_normal((steps, asked.batch, asked.hidden)).astype("float32"),
        }
        for got, want in zip(library.run(feeds), session.run(None, feeds), strict=True):
            if got.shape != want.shape or np.abs(got - want).max() > 1e-4 * np.ptp(want):
                print(f"{steps} steps: the outputs differ")
                return 1
        engines = [lambda f=feeds: library.run(f), lambda f=feeds: session.run(None, f)]
        turns = [[milliseconds(call) for call in engines] for _ in range(TURNS)]
        ours, theirs = (statistics.median(column) for column in zip(*turns, strict=True))
        print(f"{steps} steps: byoc {ours:.3f} ms, ONNX Runtime {theirs:.3f} ms, {ours / theirs:.2f} times (aim {AIM})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
