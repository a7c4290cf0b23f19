"""A clock around a call that leaves work on a device is refused: it would time the queue."""

import threading

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.driver.costs import timing
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.runtime.core.benchmark import benchmark
from byoc.runtime.core.device_work import begin_work, timed_to_the_end

REFUSED = "had not been waited for, so a clock would measure how long putting them into a queue takes"


def test_work_that_was_waited_for_may_be_timed_and_other_work_not():
    earlier = begin_work()  # of somebody else, before
    with timed_to_the_end("a call"):
        begin_work().end()
    with pytest.raises(UserError, match=f"timing a call: .*{REFUSED}"), timed_to_the_end("a call"):
        begin_work()
    earlier.end()


def test_the_work_of_another_thread_is_not_this_threads():
    with timed_to_the_end("a call"):
        thread = threading.Thread(target=begin_work)
        thread.start()
        thread.join()


def test_work_may_be_waited_for_by_another_thread():
    with timed_to_the_end("a call"):
        thread = threading.Thread(target=begin_work().end)
        thread.start()
        thread.join()


@pytest.fixture(scope="module")
def region():
    """The function of a region on the device, and arrays for it."""
    x = relay.var("x", shape=(64, 64), dtype="float32")
    library = byoc.compile(IRModule.from_expr(relay.Function([x], relay.tanh(x))), ["opencl", "c"])
    module = next(m for m in library.module.imports if m.type_key == "opencl")
    return module[module.symbols[0]], [np.ones((64, 64), "float32"), np.empty((64, 64), "float32")]


@pytest.mark.needs_opencl
@pytest.mark.parametrize("clock", [benchmark, lambda call: timing.interleaved({"it": call})])
def test_a_start_that_nobody_waits_for_is_not_timed(region, clock):
    function, arrays = region
    with pytest.raises(UserError, match=REFUSED):
        clock(lambda: function.start(arrays, []))
    clock(lambda: function.start(arrays, []).wait())
    clock(lambda: function(*arrays))
    np.testing.assert_allclose(arrays[1], np.tanh(arrays[0]), rtol=1e-5)
