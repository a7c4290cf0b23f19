"""The executor that runs a model by one native call: bits, inputs as they come, threads, externals, what is saved."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.errors import InputError, KernelError, UserError
from byoc.ir.types import Any, TensorType
from byoc.runtime import Module, load
from byoc.runtime.core.processor import usable_processors
from byoc.runtime.dso.aot import AotExecutor
from byoc.runtime.executors.control_executor import ControlExecutor
from byoc.runtime.executors.graph_executor import GraphExecutor
from byoc.runtime.library import Library
from byoc.runtime.modules.metadata import MetadataModule

pytestmark = pytest.mark.needs_cc
RNG = np.random.default_rng(0)


def compiled(*params_and_body, **options):
    *params, body = params_and_body
    return byoc.compile(relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function(params, body))), **options)


def weight(*shape):
    return relay.const((RNG.standard_normal(shape) / 8).astype("float32"))


def convolutions():
    x = relay.var("x", shape=(1, 3, 19, 17))
    y = relay.nn.relu(relay.nn.conv2d(x, weight(20, 3, 3, 3), padding=(1, 1), channels=20, kernel_size=(3, 3)))
    z = relay.nn.conv2d(y, weight(20, 1, 3, 3), padding=(1, 1), channels=20, kernel_size=(3, 3), groups=20)
    z = relay.add(relay.nn.max_pool2d(z, (3, 3), (1, 1), padding=(1, 1)), y)
    return compiled(x, relay.nn.softmax(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(z)))), (1, 3, 19, 17)


def attention():
    x = relay.var("x", shape=(2, 13, 24))
    rows = relay.reshape(x, (26, 24))
    q, k, v = (relay.reshape(relay.nn.dense(rows, weight(24, 24)), (2, 13, 24)) for _ in range(3))
    scores = relay.nn.softmax(relay.multiply(relay.nn.batch_matmul(q, k), relay.const(0.2)))
    mixed = relay.nn.batch_matmul(scores, relay.transpose(v, (0, 2, 1)))
    mean = relay.mean(mixed, -1, keepdims=True)
    return compiled(x, relay.Tuple([relay.subtract(mixed, mean), relay.sum(scores, axis=[1])])), (2, 13, 24)


def named_sizes():
    x = relay.var("x", TensorType((Any("n"), 9)))
    y = relay.tanh(relay.nn.dense(x, weight(11, 9)))
    return compiled(x, relay.Tuple([relay.nn.softmax(y), relay.max(y, axis=[1])])), (7, 9)


MODELS = {"convolutions": convolutions, "attention": attention, "named sizes": named_sizes}


@pytest.fixture(scope="module", params=list(MODELS))
def model(request):
    """A library, and an input for it."""
    library, shape = MODELS[request.param]()
    return library, RNG.standard_normal(shape).astype("float32")


def same(got, want):
    assert [(g.dtype, g.shape, g.tobytes()) for g in got] == [(w.dtype, w.shape, w.tobytes()) for w in want]


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_the_bits_are_those_of_the_graph_executor_for_any_number_of_threads(model, threads):
    library, x = model
    want = library.graph_executor()({"x": x})
    executor = library.executor(threads=threads)
    assert isinstance(executor, AotExecutor) and executor.threads == threads
    for _ in range(20):
        same(executor({"x": x}), want)


def test_an_executor_is_used_by_name_by_position_and_step_by_step(model):
    library, x = model
    want = library.graph_executor()({"x": x})
    executor = library.executor()
    executor.set_input("x", x)
    executor.run()
    same([executor.get_output(k).numpy() for k in range(executor.get_num_outputs())], want)
    executor.run(x=x * 2)
    assert executor.get_output(0).numpy().tobytes() != want[0].tobytes()
    executor.set_input(0, x)
    executor.run()
    same([executor.get_output(0).numpy()], want[:1])
    same(library.run({"x": x}), want)


def unaligned(x):
    raw = np.zeros(x.nbytes + 1, np.uint8)
    raw[1:] = np.frombuffer(x.tobytes(), np.uint8)
    return raw[1:].view(x.dtype).reshape(x.shape)


LAYOUTS = {
    "fortran order": np.asfortranarray,
    "a slice": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "big-endian": lambda x: x.astype(">f4"),
    "unaligned": unaligned,
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
    "a list": lambda x: x.tolist(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_input_is_taken_however_it_lies_in_memory(model, layout):
    library, x = model
    executor = library.executor(threads=2)
    want = executor({"x": x})
    same(executor({"x": LAYOUTS[layout](x)}), want)
    same(executor({"x": x}), want)


def test_sizes_may_change_from_run_to_run_and_memory_is_planned_for_each():
    library, _ = named_sizes()
    executor, reference = library.executor(threads=2), library.graph_executor()
    for n in (3, 40, 1, 40, 0):
        x = RNG.standard_normal((n, 9)).astype("float32")
        same(executor({"x": x}), reference({"x": x}))
    with pytest.raises(InputError, match=r"input 'x': expected shape \[n, 9\] with n=3, got \[3, 8\]"):
        executor({"x": np.zeros((3, 8), "float32")})
    same(executor({"x": np.ones((2, 9), "float32")}), reference({"x": np.ones((2, 9), "float32")}))


def test_what_a_run_gave_is_not_written_to_by_the_next(model):
    library, x = model
    executor = library.executor()
    first = executor({"x": x})
    kept = [a.copy() for a in first]
    executor({"x": -x})
    same(first, kept)


def test_outputs_that_are_inputs_or_the_same_value_are_copies():
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(3,), dtype="int64")
    e = relay.exp(x)
    flat = relay.reshape(e, (6,))
    library = compiled(x, y, relay.Tuple([e, y, flat, e, relay.reshape(x, (3, 2)), relay.const(np.arange(3))]))
    a, b = RNG.standard_normal((2, 3)).astype("float32"), np.arange(3)
    outputs = library.executor(threads=3)({"x": a, "y": b})
    same(outputs, library.graph_executor()({"x": a, "y": b}))
    arrays = [*outputs, a, b]
    assert not any(np.shares_memory(p, q) for k, p in enumerate(arrays) for q in arrays[:k])


# functions that are not native code


class Vendor(Module):
    """A region's module: ``y = x + 1``, and what it was called with."""

    type_key = "test_vendor"

    def __init__(self, symbol, works=True):
        super().__init__()
        self.symbols, self.works = (symbol,), works
        self.seen = []

    def get_function(self, name, query_imports=False):
        return self.call if name in self.symbols else None

    def call(self, x, out):
        self.seen.append((threading.get_ident(), x.numpy()))
        if not self.works:
            raise KernelError("the device is on fire")
        np.add(x.numpy(), 1, out=out.numpy())


def with_vendor(works=True):
    """``exp(x)``, a triangle of it by numpy, then ``tanh``; the first function is the vendor's instead."""
    x = relay.var("x", TensorType((Any("n"), 4)))
    library = compiled(x, relay.tanh(relay.trilu(relay.exp(x), relay.const(0, "int32"))))
    (dso,) = [m for m in library.module.imports if m.type_key == "c"]
    assert [call.function for call in dso.whole.externals] != []
    symbol = dso.whole.externals[0].function
    needs = {s: k for s, k in library.module.needs.items() if s != symbol}
    root = MetadataModule(library.module.constant_arrays, needs)
    vendor = Vendor(symbol, works)
    root.import_module(dso)
    root.import_module(vendor)
    return Library(library.graph_json, root, [s.name for s in library.outputs]), vendor


@pytest.mark.parametrize("threads", [1, 3])
def test_a_function_of_another_module_is_called_once_a_run_by_the_calling_thread(threads):
    library, vendor = with_vendor()
    executor = library.executor(threads=threads)
    for n in (2, 5):
        x = RNG.standard_normal((n, 4)).astype("float32")
        (got,) = executor({"x": x})
        np.testing.assert_allclose(got, np.tanh(np.exp(x) + 1), rtol=1e-5, atol=1e-6)
    assert [(who, a.shape) for who, a in vendor.seen] == [(threading.get_ident(), (n, 4)) for n in (2, 5)]


@pytest.mark.parametrize("threads", [1, 3])
def test_what_such_a_function_raises_comes_out_of_the_run_and_the_executor_goes_on(threads):
    library, vendor = with_vendor(works=False)
    executor = library.executor(threads=threads)
    x = np.zeros((2, 4), "float32")
    for _ in range(2):
        with pytest.raises(KernelError, match="the device is on fire"):
            executor({"x": x})
    vendor.works = True
    np.testing.assert_allclose(executor({"x": x})[0], np.tanh(np.full((2, 4), 2.0)), rtol=1e-6)


def test_a_model_whose_sizes_are_known_only_afterwards_is_no_function_of_this_kind():
    x = relay.var("x", shape=(6,))
    library = compiled(x, relay.exp(relay.cast(relay.argwhere(relay.tanh(x)), "float32")))
    assert isinstance(library.executor(), ControlExecutor)
    assert isinstance(library.graph_executor(), GraphExecutor)
    given = np.array([0, 1, 0, 2, 0, 0], "float32")
    for executor in (library.executor(), library.graph_executor()):
        np.testing.assert_allclose(executor({"x": given})[0], np.exp([[1.0], [3.0]]), rtol=1e-6)


# threads


def thread_ids():
    return set(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the system does not list a process's threads")
def gone(team, seconds=10.0):
    """Whether no thread of *team* is there; a thread that was joined is in /proc for a moment longer."""
    end = time.monotonic() + seconds
    while thread_ids() & team and time.monotonic() < end:
        time.sleep(0.001)
    return not thread_ids() & team


def test_threads_start_with_the_first_run_and_end_with_the_executor(model):
    library, x = model
    before = thread_ids()  # those of other libraries in this process end when they like
    executor = library.executor(threads=4)
    assert not thread_ids() - before
    executor({"x": x})
    team = thread_ids() - before
    assert len(team) == 3
    executor.end()
    assert gone(team)
    executor({"x": x})
    team = thread_ids() - before
    assert len(team) == 3
    del executor
    gc.collect()
    assert gone(team)


def test_idle_threads_burn_no_processor(model):
    library, x = model
    executor = library.executor(threads=4)
    executor({"x": x})
    time.sleep(0.05)
    start = time.process_time()
    time.sleep(0.4)
    assert time.process_time() - start < 0.1
    executor({"x": x})


def test_many_more_threads_than_processors_still_finish(model):
    library, x = model
    threads = 8 * usable_processors()
    same(library.executor(threads=threads)({"x": x}), library.graph_executor()({"x": x}))


def run_at_once(call, inputs, repeats=30):
    """Call on each input in a Python thread of its own; the results, or what was raised."""
    results = [None] * len(inputs)

    def work(k):
        try:
            for _ in range(repeats):
                results[k] = call(inputs[k])
        except Exception as error:  # shown by the comparison that follows
            results[k] = error

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def test_python_threads_run_one_library_at_once_each_with_an_executor_of_its_own(model):
    library, x = model
    library.threads = 2
    inputs = [x * (k + 1) for k in range(3)]
    for got, value in zip(run_at_once(lambda v: library.run({"x": v}), inputs), inputs, strict=True):
        same(got, library.graph_executor()({"x": value}))
    library.threads = None


def test_calls_of_one_executor_from_several_threads_wait_for_each_other(model):
    library, x = model
    executor = library.executor(threads=2)
    inputs = [x * (k + 1) for k in range(4)]
    for got, value in zip(run_at_once(lambda v: executor.compute([v]), inputs), inputs, strict=True):
        same(got, library.graph_executor()({"x": value}))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_process_gets_threads_of_its_own(model):
    library, x = model
    executor = library.executor(threads=2)
    want = executor({"x": x})
    child = os.fork()
    if child == 0:
        try:
            same(executor({"x": x}), want)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    same(executor({"x": x}), want)


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "two"])
def test_a_number_of_threads_is_from_one_on(model, threads):
    with pytest.raises(UserError, match=f"threads is a number from 1 on, got {threads!r}"):
        model[0].executor(threads=threads)


def test_a_tiny_model_runs_alone_unless_threads_are_set():
    library, _ = named_sizes()
    assert library.executor().threads == 1
    library.threads = 3
    assert library.executor().threads == 3 and library.executor(threads=2).threads == 2


# what is saved


def test_a_saved_library_runs_by_one_call_and_compiles_nothing(model, tmp_path, monkeypatch):
    library, x = model
    path = library.save(tmp_path / "m.byoc")
    monkeypatch.setenv("PATH", "")
    loaded = load(path, threads=2)
    executor = loaded.executor()
    assert isinstance(executor, AotExecutor) and executor.threads == 2
    same(executor({"x": x}), library.run({"x": x}))


def test_the_program_of_a_module_reads_back_as_it_was_written(model):
    (dso,) = [m for m in model[0].module.imports if m.type_key == "c"]
    again = type(dso).load(dso.save())
    assert again.whole == dso.whole
    assert json.loads(dso.save()["program.json"])["symbol"] == dso.whole.symbol


RUN_AT_EXIT = """
import sys, threading, time
import numpy as np
import byoc.runtime
library = byoc.runtime.load(sys.argv[1], threads=3)
x = np.load(sys.argv[2])
library(x)

def forever():
    while True:
        library(x)

threading.Thread(target=forever, daemon=True).start()
time.sleep(0.1)
"""


def test_a_process_may_end_while_a_thread_runs_the_model(model, tmp_path):
    library, x = model
    path = library.save(tmp_path / "m.byoc")
    np.save(tmp_path / "x.npy", x)
    command = [sys.executable, "-c", RUN_AT_EXIT, str(path), str(tmp_path / "x.npy")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
