"""A region is loaded once, whoever asks first; others wait no longer than they may, and a hang is waited for once."""

import threading
import time

import numpy as np
import pytest
from faulty_backend import FAULTS, NAME, registered, same

import byoc
from byoc import relay
from byoc.ir.types import Any, TensorType
from byoc.relay.interpreter import evaluate
from byoc.runtime.core.errors import RegionTimeoutError, RunTimeoutError

pytestmark = pytest.mark.needs_cc
HANG = 30.0  # seconds after which a test takes what it waits for as something without an end
X = np.linspace(-2, 2, 12, dtype="float32").reshape(3, 4)


@pytest.fixture
def faults():
    yield from registered()


def model(rows=3):
    """Two regions, of exp and of tanh, between operators that the host keeps."""
    x = relay.var("x", TensorType((rows, 4), "float32"))
    body = relay.sqrt(relay.exp(relay.abs(relay.tanh(relay.negative(x)))))
    return relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], body)))


def want(mod, x=X):
    return [evaluate(mod, [x])]


def in_thread(work):
    """*work* under way on a thread of its own, and what becomes of it: a result, or an error."""
    found = []

    def keep():
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    return thread, found


def begun(faults, stage):
    """Wait until something is at *stage*."""
    deadline = time.monotonic() + HANG
    while not faults.counts[stage]:
        assert time.monotonic() < deadline, f"nothing was at {stage}"
        time.sleep(0.01)


@pytest.mark.parametrize("first", [None, 3 * HANG])
@pytest.mark.parametrize("stage", ["initialize", "load"])
def test_a_run_has_its_limit_while_another_thread_loads_the_region(faults, stage, first):
    library = byoc.compile(model(), [NAME, "c"], fallback=True)
    faults.hanging = (stage,)
    loading, loaded = in_thread(lambda: library.run({"x": X}, timeout=first))
    begun(faults, stage)
    limited, found = in_thread(lambda: library.run({"x": X}, timeout=0.3))
    limited.join(HANG)
    assert not limited.is_alive(), "it waits for the other thread's load"
    assert isinstance(found[0], RunTimeoutError) and not isinstance(found[0], RegionTimeoutError)
    assert f"of 0.3 s while {NAME} loaded and initialised tvmgen" in str(found[0])
    faults.hanging = ()
    FAULTS.hang.set()
    loading.join(HANG)
    same(loaded[0], want(model()))
    same(library.run({"x": X}), want(model()))
    assert faults.counts[stage] == len(library.module.regions) and library.fallbacks == []


@pytest.mark.parametrize("stage", ["initialize", "load"])
@pytest.mark.parametrize("eager", [False, True])
def test_a_load_that_hung_is_not_waited_for_again_by_other_shapes(faults, stage, eager, monkeypatch):
    monkeypatch.setenv("BYOC_WAIT_SECONDS", "0.3")
    library = byoc.compile(model(Any("n")), [NAME, "c"], fallback=True, region_timeout=50)
    faults.hanging = (stage,)
    if eager:
        library.module.initialize_all()
    else:
        same(library.run({"x": X}), want(model()))
    threads, tried, lost = threading.active_count(), faults.counts[stage], len(library.fallbacks)
    assert tried and lost == len(library.module.regions)
    for rows in (X.shape[0] + 1, X.shape[0] + 2):
        x = np.ones((rows, 4), "float32")
        same(library.run({"x": x}), want(model(Any("n")), x))
    assert threading.active_count() <= threads
    assert (faults.counts[stage], len(library.fallbacks)) == (tried, lost)


@pytest.mark.parametrize("stage", ["initialize", "load"])
def test_a_load_that_hung_is_joined_and_not_begun_again_where_nothing_stands_in(faults, stage, monkeypatch):
    monkeypatch.setenv("BYOC_WAIT_SECONDS", "0.3")
    library = byoc.compile(model(), [NAME, "c"], region_timeout=50)
    faults.hanging = (stage,)
    for _ in range(3):
        with pytest.raises(RegionTimeoutError, match=r"failed at initialize: it took longer than the 0.3 s"):
            library.run({"x": X})
        assert faults.counts[stage] == 1
    faults.hanging = ()
    FAULTS.hang.set()  # it was slow, and ends
    same(_as_soon_as_it_is_loaded(lambda: library.run({"x": X})), want(model()))
    assert faults.counts[stage] == len(library.module.regions)


def _as_soon_as_it_is_loaded(run):
    deadline = time.monotonic() + HANG
    while True:
        try:
            return run()
        except RegionTimeoutError:
            assert time.monotonic() < deadline
            time.sleep(0.01)
