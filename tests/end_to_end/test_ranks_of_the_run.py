"""Values whose rank depends on the sizes of a run: both ranks are compiled, and the run decides.

Held to ONNX Runtime in process and from the artefact in a process of its own.
"""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import byoc
from byoc.errors import ImportModelError, UserError
from fuzz.judge.onnx_runtime import session

pytestmark = pytest.mark.needs_cc
HEAD = '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>\n'

RESHAPED = """g (float[N, 1, 4] x) => (float[] y) <int64[2] pairs = {-1, 2}> {
    a = Squeeze (x)
    b = Relu (a)
    y = Reshape (b, pairs)
}"""
REDUCED = """g (float[N, S, 4] x) => (float[] y) {
    a = Squeeze (x)
    b = Exp (a)
    y = ReduceSum <keepdims: int = 0> (b)
}"""
# one size is decided once, for all that drop it
TWICE = """g (float[N, S, 1] x) => (float[] y) {
    a = Squeeze (x)
    b = Sub (x, x)
    c = Squeeze (b)
    d = Add (a, c)
    y = ReduceMax <keepdims: int = 0> (d)
}"""
# a size that has no name
PLACES = """g (float[N] x) => (float[] y) <int64[1] rest = {-1}> {
    found = NonZero (x)
    columns = Transpose <perm: ints = [1, 0]> (found)
    places = Squeeze (columns)
    flat = Reshape (places, rest)
    taken = Gather (x, flat)
    y = Exp (taken)
}"""
# the axis behind the decision is another one for either rank
LAST_OF_FIRST = """g (float[N, S, 4] x) => (float[] first, float[] y) <int64[1] rest = {-1}> {
    first = Neg (x)
    a = Squeeze (x)
    b = ReduceMean <axes: ints = [0], keepdims: int = 0> (a)
    y = Reshape (b, rest)
}"""
LOOPED = """g (float[N, 1, 4] x, int64 n) => (float[] y) <bool going = {1}> {
    y = Loop (n, going, x) <body = b (int64 i, bool c, float[N, 1, 4] v) => (bool d, float[N, 1, 4] w) {
        d = Identity (c)
        a = Squeeze (v)
        s = ReduceSum <keepdims: int = 0> (a)
        w = Add (v, s)
    }>
}"""
DECIDED = """g (float[N, S] x) => (float[] y) <int64 one = {1}, int64 axis = {1}, int64[1] first = {1}> {
    shape = Shape (x)
    size = Gather (shape, axis)
    is_one = Equal (size, one)
    a = If (is_one) <
        then_branch = t () => (float[N] u) { u = Squeeze (x, first) },
        else_branch = e () => (float[N, S] v) { v = Mul (x, x) }
    >
    b = Exp (a)
    y = ReduceSum <keepdims: int = 0> (b)
}"""
# outputs of ranks that no type holds
GIVEN = """g (float[N, S] x, bool b, bool c) => (float[] y, float[] z, float[] v) {
    w = Neg (x)
    y = If (b) <
        then_branch = t () => (a) { a = Flatten <axis: int = 0> (x) },
        else_branch = e () => (d) { d = ReduceSum <keepdims: int = 0> (x) }
    >
    u = Exp (y)
    z = If (c) <
        then_branch = t2 () => (a2) { a2 = Relu (u) },
        else_branch = e2 () => (d2) { d2 = ReduceMax <keepdims: int = 0> (u) }
    >
    v = Sin (w)
}"""
# a decision in a branch, whose value is computed with there and behind
NESTED = """g (float[N, S] x, bool b, bool c) => (float[] y, float[] sum) {
    w = If (b) <
        then_branch = t () => (a) {
            k = If (c) <
                then_branch = t2 () => (p) { p = Flatten <axis: int = 0> (x) },
                else_branch = e2 () => (q) { q = ReduceSum <keepdims: int = 0> (x) }
            >
            a = Sin (k)
        },
        else_branch = e () => (d) { d = Neg (x) }
    >
    y = Exp (w)
    sum = ReduceSum <keepdims: int = 0> (w)
}"""
# the outer branches give one rank, the inner ones three; one of the inner decisions is the branch's own
DEEPER = """g (float[N, S] x, bool b, bool c) => (float[] y) <int64[1] rest = {-1}> {
    w = If (b) <
        then_branch = t () => (a) {
            m = If (c) <
                then_branch = tm () => (pm) { pm = Relu (x) },
                else_branch = em () => (qm) { qm = Abs (x) }
            >
            k = If (c) <
                then_branch = t2 () => (p) {
                    p = If (b) <
                        then_branch = t3 () => (p3) { p3 = Reshape (m, rest) },
                        else_branch = e3 () => (q3) { q3 = Identity (m) }
                    >
                },
                else_branch = e2 () => (q) { q = ReduceMax <keepdims: int = 0> (m) }
            >
            l = If (b) <
                then_branch = t4 () => (p4) { p4 = ReduceMin <keepdims: int = 0> (x) },
                else_branch = e4 () => (q4) { q4 = ReduceMax <keepdims: int = 0> (x) }
            >
            a = Sub (k, l)
        },
        else_branch = e () => (d) { d = Reshape (x, rest) }
    >
    y = Exp (w)
}"""
SQUEEZED = "g (float[N, 1, 4] x) => (float[] y) { y = Squeeze (x) }"
SQUEEZED_IN_BRANCH = """g (float[N, S] x, bool b) => (float[] y) {
    w = If (b) <
        then_branch = t () => (a) { a = Squeeze (x) },
        else_branch = e () => (d) { d = Neg (x) }
    >
    y = Exp (w)
}"""
SQUEEZED_IN_FUNCTION = """g (float[N, S] x) => (float[] y) {
    w = local.alone (x)
    y = Exp (w)
}
<domain: "local", opset_import: ["" : 17]> alone (v) => (u) {
    n = Neg (v)
    u = Squeeze (n)
}"""
TEXTS = """g (string[N] x, bool b) => (string[] y, string[] same) <int64 first = {0}> {
    y = If (b) <
        then_branch = t () => (a) { a = Gather (x, first) },
        else_branch = e () => (d) { d = Identity (x) }
    >
    same = Identity (y)
}"""


def parsed(text):
    return onnx.parser.parse_model(HEAD + text)


def data(*shape, **more):
    return {"x": np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32"), **more}


@pytest.mark.parametrize(
    "text, feeds",
    [
        (RESHAPED, [data(n, 1, 4) for n in (1, 3, 0, 2)]),
        (REDUCED, [data(n, s, 4) for n, s in ((1, 1), (3, 1), (1, 6), (2, 5))]),
        (TWICE, [data(n, s, 1) for n, s in ((1, 1), (3, 1), (1, 6), (2, 5))]),
        (PLACES, [data(n) for n in (1, 3, 2)]),
        (LAST_OF_FIRST, [data(n, s, 4) for n, s in ((1, 1), (3, 1), (1, 6), (2, 5))]),
        (LOOPED, [data(n, 1, 4, n=np.array(k)) for n in (1, 3) for k in (0, 1, 3)]),
        (DECIDED, [data(n, s) for n in (1, 3) for s in (1, 2)]),
        (GIVEN, [data(2, 3, b=np.array(b), c=np.array(c)) for b in (True, False) for c in (True, False)]),
        (NESTED, [data(2, 3, b=np.array(b), c=np.array(c)) for b in (True, False) for c in (True, False)]),
        (DEEPER, [data(2, 3, b=np.array(b), c=np.array(c)) for b in (True, False) for c in (True, False)]),
        (SQUEEZED, [data(n, 1, 4) for n in (1, 3, 0)]),
        (SQUEEZED_IN_BRANCH, [data(n, s, b=np.array(b)) for n in (1, 2) for s in (1, 3) for b in (True, False)]),
        (SQUEEZED_IN_FUNCTION, [data(n, s) for n in (1, 2) for s in (1, 3)]),
        (TEXTS, [{"x": np.array(["a", "ü"], object), "b": np.array(b)} for b in (True, False)]),
    ],
    ids=[
        "reshaped",
        "reduced",
        "twice",
        "places",
        "last of first",
        "looped",
        "decided",
        "given",
        "nested",
        "deeper",
        "squeezed",
        "squeezed in a branch",
        "squeezed in a function",
        "texts",
    ],
)
def test_the_run_decides_between_ranks(text, feeds, tmp_path, artifact_runner):
    model = parsed(text)
    library = byoc.compile(model)
    path = library.save(tmp_path / "model.byoc")
    wanted = [session(model).run(None, each) for each in feeds]
    for found in ([library.run(each) for each in feeds], artifact_runner.run(path, feeds)):
        for one, want in zip(found, wanted, strict=True):
            for got, right in zip(one, want, strict=True):
                assert (np.shape(got), np.asarray(got).dtype) == (right.shape, right.dtype)
                if right.dtype == object:
                    np.testing.assert_array_equal(got, right)
                else:
                    np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5, strict=True)


def test_a_loop_collects_values_of_the_rank_that_sizes_other_than_1_give():
    """One type holds the values of all runs, so a size of 1 is refused by the run that has it, in a sentence."""
    text = """g (float[N, 1, 4] x, int64 n) => (float[] z) <bool going = {1}> {
        z = Loop (n, going) <body = b (int64 i, bool c) => (bool d, s) { d = Identity (c) s = Squeeze (x) }>
    }"""
    library = byoc.compile(parsed(text))
    found, x = library.run(data(3, 1, 4, n=np.array(2)))[0], data(3, 1, 4)["x"]
    np.testing.assert_array_equal(found, np.stack([x[:, 0]] * 2))
    with pytest.raises(UserError, match=r"\(Squeeze\): axis 0 has the size 1 in this run"):
        library.run(data(1, 1, 4, n=np.array(2)))


def test_decisions_that_double_each_other_are_tried_so_often_and_no_more():
    """Nine sizes, each of which may be 1 and none of which makes outputs of one rank."""
    sizes = ", ".join(f"S{k}" for k in range(9))
    library = byoc.compile(parsed(f"g (float[{sizes}] x) => (float[] y) {{ y = Squeeze (x) }}"))
    assert library.run(data(*[2] * 9))[0].shape == (2,) * 9


def test_a_decision_between_dtypes_is_refused_at_once():
    text = DECIDED.replace("v = Mul (x, x)", "v = Cast <to: int = 7> (x)").replace("(float[N, S] v)", "(int64[N, S] v)")
    with pytest.raises(ImportModelError, match="one type is needed, of one rank and one dtype"):
        byoc.compile(parsed(text.replace("b = Exp (a)\n    y = ReduceSum <keepdims: int = 0> (b)", "y = Neg (a)")))
