"""Models that are one function with control flow, by the executor that stands around it alone."""

import numpy as np
import onnx.parser
import pytest

import byoc
from byoc.errors import InputError, UserError
from byoc.runtime.executors.control_executor import ControlExecutor
from byoc.runtime.executors.graph_executor import GraphExecutor
from fuzz.judge.onnx_runtime import session

pytestmark = pytest.mark.needs_cc
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
GROWING = """g (float[N, 3] x, int64 n) => (float[M, 3] y, float[T, 3] all) <bool going = {1}> {
    y, all = Loop (n, going, x) <body = b (int64 i, bool c, float[K, 3] v) => (bool d, float[L, 3] w, float[3] o)
        <int64[1] front = {0}> {
        d = Identity (c)
        o = ReduceMean <axes: ints = [0], keepdims: int = 0> (v)
        row = Unsqueeze (o, front)
        w = Concat <axis: int = 0> (v, row)
    }>
}"""
FIXED = """g (float[2] x, bool c) => (float[2] y) <float[2] one = {1, 1}> {
    y = If (c) <then_branch = t () => (float[2] u) { u = Identity (one) },
                else_branch = e () => (float[2] v) { v = Exp (x) }>
}"""


def library(text):
    model = onnx.parser.parse_model(HEAD + text)
    return byoc.compile(model), session(model)


def feed(rows, n):
    return {"x": np.random.default_rng(rows).random((rows, 3), "float32"), "n": np.array(n)}


def test_it_runs_what_the_graph_executor_runs():
    made, judge = library(GROWING)
    whole, stepwise = made.executor(), made.graph_executor()
    assert isinstance(whole, ControlExecutor) and isinstance(stepwise, GraphExecutor)
    for rows, n in ((2, 3), (2, 3), (5, 1), (1, 0)):
        given = feed(rows, n)
        wanted = judge.run(None, given)
        whole.run(**given)
        for found in (whole(given), stepwise(given), [whole.get_output(k).numpy() for k in range(2)]):
            for got, want in zip(found, wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-6, strict=True)


def test_other_sizes_and_dtypes_are_looked_at_in_every_run():
    made, _ = library(GROWING)
    for _ in range(2):
        made.run(feed(2, 3))
        with pytest.raises(InputError, match="input 'x': expected dtype float32, got float64"):
            made.run({**feed(2, 3), "x": np.zeros((2, 3))})
        with pytest.raises(InputError, match=r"input 'x': expected shape \[N, 3\] with N=2, got \[2, 4\]"):
            made.run({**feed(2, 3), "x": np.zeros((2, 4), "float32")})
    executor = made.executor()
    with pytest.raises(UserError, match="there is no output yet"):
        executor.get_output()
    executor.set_input("n", np.array(1))
    with pytest.raises(InputError, match="input 'x' is missing"):
        executor.run()


def test_an_input_need_not_lie_as_the_code_reads_it():
    made, judge = library(GROWING)
    given = feed(4, 2)
    for x in (np.asfortranarray(given["x"]), given["x"][::2], given["x"][:, ::-1]):
        for got, want in zip(made.run({**given, "x": x}), judge.run(None, {**given, "x": x}), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6, strict=True)


def test_outputs_are_the_callers_own():
    """One is a constant of the model, and one is the input where the loop does not run."""
    made, _ = library(FIXED)
    given = {"x": np.zeros(2, "float32"), "c": np.array(True)}
    made.run(given)[0][:] = 7
    np.testing.assert_array_equal(made.run(given)[0], [1, 1])
    grown, _ = library(GROWING)
    given = feed(2, 0)
    before = given["x"].copy()
    grown.run(given)[0][:] = 7
    np.testing.assert_array_equal(given["x"], before)
