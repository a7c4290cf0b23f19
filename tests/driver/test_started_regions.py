"""Regions of compiled models: what is built once, what is not copied, and regions that work while the host does."""

import numpy as np
import pytest
from faulty_backend import FAULTS, NAME, registered, same

import byoc
from byoc import relay
from byoc.ir.types import Any, TensorType
from byoc.runtime import load
from byoc.runtime.dso.aot import AotExecutor

pytestmark = pytest.mark.needs_cc
X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)


@pytest.fixture
def faults():
    yield from registered()


def compiled(*params_and_body, **options):
    *params, body = params_and_body
    mod = relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function(params, body)))
    return byoc.compile(mod, [NAME, "c"], **options)


def alone(rows=3):
    """A model whose first and only region reads the caller's input, with a weight."""
    x = relay.var("x", TensorType((rows, 4), "float32"))
    return compiled(x, relay.negative(relay.exp(relay.nn.dense(x, relay.const(np.eye(4, dtype="float32"))))))


@pytest.mark.parametrize("way", ["executor", "graph_executor"])
def test_a_region_is_built_once_run_often_and_reads_the_callers_own_memory(faults, way):
    library = alone()
    inputs = [np.asarray(X + k, order="C") for k in range(3)]
    for executor in (getattr(library, way)(), getattr(library, way)()):
        for x in (*inputs, inputs[0]):
            same(executor({"x": x}), [-np.exp(x)])
            assert faults.seen[-1][0].ctypes.data == x.ctypes.data
    assert (faults.counts["initialize"], faults.counts["load"], faults.counts["launch"]) == (1, 1, 8)


@pytest.mark.parametrize("way", ["executor", "graph_executor"])
def test_memory_that_is_laid_out_otherwise_is_copied_and_never_written_to(faults, way):
    executor = getattr(alone(), way)()
    for x in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X.astype(">f4").astype("float32")):
        before = x.copy()
        same(executor({"x": x}), [-np.exp(X)])
        np.testing.assert_array_equal(x, before)


def test_an_input_that_is_the_executors_own_output_is_copied(faults):
    executor = alone().graph_executor()
    executor.run(x=X)
    for _ in range(3):
        x = executor.get_output(0).numpy()
        want = -np.exp(x)
        executor.run(x=x)
        same([executor.get_output(0).numpy()], [want])


@pytest.mark.parametrize("way", ["executor", "graph_executor"])
def test_outputs_are_fresh_after_each_change_of_shape_and_value(faults, way):
    executor = getattr(alone(Any("n")), way)()
    for k, rows in enumerate((3, 5, 3, 3, 8, 5)):
        x = np.full((rows, 4), k / 8, "float32")
        executor.run(x=x)
        got = executor.get_output(0).numpy()
        assert got.shape == (rows, 4)
        same([got], [-np.exp(x)])
    assert faults.counts["initialize"] == 1


def forked():
    """Two regions that know nothing of each other, and the host's work before, beside and behind them."""
    x = relay.var("x", TensorType((Any("n"), 4), "float32"))
    left = relay.negative(relay.exp(x))
    right = relay.abs(relay.tanh(relay.abs(x)))
    return x, relay.Tuple([relay.add(left, right), relay.exp(relay.sqrt(relay.abs(relay.tanh(relay.abs(x)))))])


def want(x):
    t = np.abs(np.tanh(np.abs(x)))
    return [t - np.exp(x), np.exp(np.sqrt(t))]


@pytest.mark.parametrize("way", ["executor", "graph_executor"])
@pytest.mark.parametrize("fallback", [False, True])
def test_regions_are_started_before_any_is_waited_for_and_the_bits_are_the_same(faults, way, fallback, tmp_path):
    plain = compiled(*forked())
    faults.is_asynchronous = True
    library = compiled(*forked(), fallback=fallback)
    if fallback:
        library = load(library.save(tmp_path / "m.byoc"))
    executor = getattr(library, way)()
    assert isinstance(executor, AotExecutor) or way == "graph_executor"
    for rows in (3, 6, 3):
        x = np.linspace(-2, 1, rows * 4, dtype="float32").reshape(rows, 4)
        faults.log.clear()
        got = executor({"x": x})
        assert [kind for kind, _ in faults.log[:2]] == ["start", "start"]
        same(got, want(x))
        faults.is_asynchronous = False
        assert [g.tobytes() for g in got] == [g.tobytes() for g in plain.run({"x": x})]
        faults.is_asynchronous = True
    assert library.fallbacks == []


@pytest.mark.parametrize("way", ["executor", "graph_executor"])
def test_a_started_region_that_fails_in_the_end_runs_on_the_host(faults, way):
    faults.is_asynchronous = True
    library = compiled(*forked(), fallback=True)
    faults.errors["launch"] = RuntimeError("the device hung")
    executor = getattr(library, way)()
    for _ in range(3):
        same(executor({"x": X}), want(X))
    assert {r.stage for r in executor.fallbacks} == {"launch"}
    assert len(executor.fallbacks) == len(library.module.regions) == FAULTS.counts["launch"]
