"""A run ends when its time is over and on Ctrl-C, between two groups, and the library runs on with right numbers."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import types

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.driver.vm import compile_module
from byoc.errors import RunTimeoutError, UserError
from byoc.runtime import cpu
from byoc.runtime.core.errors import RegionTimeoutError
from byoc.runtime.core.time_limit import seconds_left, time_limit
from byoc.runtime.opencl.commands.waiting import wait_for
from byoc.runtime.region import abandoned_work
from byoc.runtime.region.abandoned_work import at_work, hold
from byoc.runtime.region.vendor_time_limit import within_time_limit
from byoc.runtime.vm import VirtualMachine

SIDE, LAYERS, SHORT = 512, 100, 0.005  # 27 billion operations, and seconds in which no machine makes them


def long_model(layers=LAYERS):
    nodes, last = [], "x"
    for k in range(layers):
        nodes += [helper.make_node("MatMul", [last, "w"], [f"m{k}"]), helper.make_node("Tanh", [f"m{k}"], [f"t{k}"])]
        last = f"t{k}"
    weight = np.random.default_rng(0).random((SIDE, SIDE), dtype="float32") / SIDE
    shape = [SIDE, SIDE]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, shape)],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


X = np.random.default_rng(1).random((SIDE, SIDE), dtype="float32")


@pytest.fixture(scope="module")
def library():
    return byoc.compile(long_model())


@pytest.mark.needs_cc
@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_whose_time_is_over_ends_and_the_next_is_right(library, threads):
    library.threads = threads
    library._idle.clear()
    wanted = library.run({"x": X})[0]
    with pytest.raises(RunTimeoutError, match="^the run took longer than its timeout of 0.005 s and was ended: give"):
        library.run({"x": X}, timeout=SHORT)
    np.testing.assert_array_equal(library.run({"x": X}, timeout=600)[0], wanted)
    np.testing.assert_array_equal(library.run({"x": X})[0], wanted)


@pytest.mark.needs_cc
@pytest.mark.parametrize("kind", ["executor", "graph_executor"])
def test_each_executor_keeps_to_the_time(library, kind):
    executor = getattr(library, kind)()
    with pytest.raises(RunTimeoutError):
        executor.run(timeout=SHORT, x=X)
    with pytest.raises(UserError, match="there is no output yet"):
        executor.get_output()
    executor.run(x=X)
    np.testing.assert_array_equal(executor.get_output().numpy(), library.run({"x": X})[0])


@pytest.mark.needs_cc
def test_the_virtual_machine_keeps_to_the_time():
    number, count = relay.TensorType((), "int32"), relay.GlobalVar("count")
    x, y = relay.var("x", number), relay.var("y", number)
    one = relay.const(1, "int32")
    body = relay.If(relay.less(x, one), x, relay.Call(count, [relay.subtract(x, one)]))
    mod = relay.IRModule({count: relay.Function([x], body, number)})
    mod["main"] = relay.Function([y], relay.Call(count, [y]), number)
    machine = VirtualMachine(compile_module(mod), cpu())
    with pytest.raises(RunTimeoutError):
        machine.run(np.array(10**9, "int32"), timeout=0.05)
    assert int(machine.run(np.array(3, "int32")).numpy()) == 0


@pytest.mark.needs_cc
@pytest.mark.parametrize("name", ["json", pytest.param("opencl", marks=pytest.mark.needs_opencl)])
def test_a_region_on_another_backend_keeps_to_the_time(name):
    library = byoc.compile(long_model(layers=20), targets=[name, "c"])
    wanted = library.run({"x": X})[0]
    with pytest.raises(RunTimeoutError):
        library.run({"x": X}, timeout=SHORT)
    np.testing.assert_array_equal(library.run({"x": X})[0], wanted)


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np, byoc.runtime as runtime
library = runtime.load(sys.argv[1], threads=int(sys.argv[2]))
x = np.load(sys.argv[3])
start = time.monotonic()
wanted = library.run({"x": x})[0]
whole = time.monotonic() - start
threading.Timer(whole / 10, os.kill, (os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    for _ in range(20):
        start = time.monotonic()
        library.run({"x": x})
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - start < max(0.8 * whole, 0.1))
print((library.run({"x": x})[0] == wanted).all())
"""


@pytest.mark.needs_cc
@pytest.mark.parametrize("threads", ["1", "2"])
def test_ctrl_c_ends_a_run_of_a_saved_model_and_the_next_is_right(library, threads, tmp_path):
    np.save(tmp_path / "x.npy", X)
    path = library.save(tmp_path / "m.byoc")
    command = [sys.executable, "-c", INTERRUPTED, str(path), threads, str(tmp_path / "x.npy")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted True\nTrue\n", "", 0)


@pytest.mark.needs_cc
def test_the_command_line_ends_a_run_with_one_sentence(library, tmp_path, capsys):
    path = str(library.save(tmp_path / "m.byoc"))
    assert main(["run", path, "--random", "--timeout", str(SHORT)]) == 2
    assert "the run took longer than its timeout of 0.005 s" in capsys.readouterr().err
    assert main(["run", path, "--random", "--timeout", "0"]) == 2
    assert "timeout is a number of seconds above 0" in capsys.readouterr().err


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "2", True])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(library, timeout):
    with pytest.raises(UserError, match="timeout is a number of seconds above 0"):
        library.run({"x": X}, timeout=timeout)


def test_a_vendors_call_that_hangs_is_left_behind_with_its_memory(monkeypatch):
    monkeypatch.setattr(abandoned_work, "_LEFT", [])  # without what other tests gave up, which may never end
    release, memory = threading.Event(), np.zeros(3)
    with time_limit(0.05), pytest.raises(RunTimeoutError, match="while acme computed f"):
        within_time_limit(release.wait, "acme computed f")
    assert at_work()
    hold(memory)
    release.set()
    end = time.monotonic() + 20
    while at_work() and time.monotonic() < end:
        time.sleep(0.01)
    assert not at_work()


def test_a_limit_within_another_is_the_shorter_of_both():
    assert seconds_left() is None
    with time_limit(5):
        with time_limit(50):
            assert seconds_left() <= 5
        with time_limit(1):
            assert seconds_left() <= 1
        assert 1 < seconds_left() <= 5
    assert seconds_left() is None


class _Unfinished:
    """An event of a device that never comes, and its queue."""

    command_execution_status = 1
    command_queue = types.SimpleNamespace(flush=lambda: None)

    def wait(self):
        raise AssertionError("the driver's own wait has no end")


@pytest.mark.parametrize("spins", [False, True])
def test_a_device_that_hangs_is_waited_for_as_long_as_the_variable_says(monkeypatch, spins):
    monkeypatch.setenv("BYOC_WAIT_SECONDS", "0.05")
    with pytest.raises(RegionTimeoutError, match="the device computed f for longer than the BYOC_WAIT_SECONDS"):
        wait_for([_Unfinished()], "the device computed f", spins)


LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    """The artefact of a model of one step, a product of 26 tensors, which would take days."""
    pairs = ",".join(a + b for a, b in zip(LETTERS, LETTERS[1:] + "a", strict=True))
    node = helper.make_node("Einsum", ["x"] * len(LETTERS), ["y"], equation=f"{pairs}->")
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])]
    graph = helper.make_graph([node], "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return str(byoc.compile(model).save(tmp_path_factory.mktemp("endless") / "m.byoc"))


@pytest.mark.needs_cc
def test_the_command_line_ends_one_step_that_would_take_days(endless):
    command = [sys.executable, "-m", "byoc", "run", endless, "--random", "--timeout", "0.5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    sentence = (
        "byoc run: the run took longer than its timeout of 0.5 s and was ended: give it more time, or a smaller input"
    )
    assert (done.returncode, done.stdout, done.stderr.strip()) == (2, "", sentence)


INTERRUPTS = """
import os, signal, sys, threading, time
import byoc.cli.run_command as run_command
from byoc.cli.main import main
from byoc.runtime.library import Library
given = Library.run
def run(library, inputs, timeout=None):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    return given(library, inputs, timeout)
Library.run = run
sys.argv[1:] = ["run", sys.argv[1], "--random"]
sys.exit(main())
"""


@pytest.mark.needs_cc
def test_ctrl_c_ends_one_step_of_the_command_line_that_would_take_days(endless):
    command = [sys.executable, "-c", INTERRUPTS, endless]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr.strip()) == (130, "byoc run: interrupted; nothing was written")
