"""Loops that take a slice of a sequence in each run do so in native code, and do not copy the sequence.

Converters write an element of a sequence as a Slice of one and a Squeeze, and hand on what does not change.
Held to ONNX Runtime in process and from the artefact in a process of its own.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import byoc
from byoc.errors import UserError
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.frontend.onnx import import_onnx
from fuzz.judge.onnx_runtime import session

pytestmark = pytest.mark.needs_cc
MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (int64 steps, float[B, 4] h, float[T, B, 4] x) => (float[B, 4] last, float[N, B, 4] all) {
  yes = Constant<value = bool {1}>()
  last, seq, all = Loop(steps, yes, h, x) <body = b (int64 i, bool going, float[B, 4] s, float[T, B, 4] v)
                                         => (bool on, float[B, 4] s2, float[T, B, 4] same, float[B, 4] o) {
     front = Constant<value = int64[1] {0}>()
     one = Constant<value = int64[1] {1}>()
     off = Constant<value = int64 {OFF}>()
     place = Add(i, off)
     start = Unsqueeze(place, front)
     end = Add(start, one)
     part = Slice(v, start, end, front)
     e = Squeeze(part, front)
     same = Identity(v)
     k = Add(s, e)
     s2 = Tanh(k)
     o = Relu(s2)
     on = Identity(going)
  }>
}"""


def model(offset=0):
    return onnx.parser.parse_model(MODEL.replace("OFF", str(offset)))


def feed(steps, length, batch):
    rng = np.random.default_rng(steps)
    x = rng.standard_normal((length, batch, 4)).astype("f4")
    return {"steps": np.array(steps), "h": np.zeros((batch, 4), "f4"), "x": x}


def on_numpy(library):
    (control,) = library.report["control_flow"]
    return {name for part in control["parts"].values() for name in part["host_fallbacks"]}


@pytest.mark.parametrize("offset", [0, -5])
def test_an_element_is_taken_without_a_slice_and_the_sequence_stays_where_it_is(offset, tmp_path, artifact_runner):
    given = [feed(3, 5, 2), feed(4, 4, 1)] if not offset else [feed(4, 5, 2), feed(3, 6, 1)]
    made = model(offset)
    bodies = [f for v, f in import_onnx(made).functions.items() if "body" in v.name_hint]
    assert bodies and all("?T" not in str(infer_expr(f.body)) for f in bodies)  # no run gives the sequence back
    library = byoc.compile(made)
    assert on_numpy(library) == set()
    library.save(tmp_path / "model.byoc")
    wanted = [session(made).run(None, each) for each in given]
    for found in ([library.run(each) for each in given], artifact_runner.run(tmp_path / "model.byoc", given)):
        for one, want in zip(found, wanted, strict=True):
            for got, right in zip(one, want, strict=True):
                np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6, strict=True)


@pytest.mark.parametrize("offset, steps", [(0, 6), (-1, 1)])
def test_a_slice_without_an_element_is_an_error(offset, steps):
    """``x[-1:0]`` is empty, and so is what begins behind the end."""
    with pytest.raises(UserError, match="outside a dimension of 5"):
        byoc.compile(model(offset)).run(feed(steps, 5, 2))


def test_an_arena_serves_larger_sizes_and_smaller_ones():
    """Sizes that grow and shrink between runs of one library give what they give alone."""
    library = byoc.compile(
        onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, M] x) => (float[N, M] y) {
      a = Transpose(x)
      b = MatMul(a, x)
      c = Softmax(b)
      y = MatMul(x, c)
    }""")
    )
    rng = np.random.default_rng(2)
    for n, m in ((3, 4), (4, 5), (5, 7), (6, 9), (2, 2), (300, 200), (5, 3), (300, 210), (1, 1)):
        x = rng.standard_normal((n, m)).astype("f4")
        scores = x.T @ x
        shares = np.exp(scores - scores.max(1, keepdims=True))
        want = x @ (shares / shares.sum(1, keepdims=True))
        np.testing.assert_allclose(library.run({"x": x})[0], want, rtol=1e-3, atol=1e-4)
