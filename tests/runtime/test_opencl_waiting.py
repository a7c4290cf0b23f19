"""Waiting for a device, on a driver that is as lazy as OpenCL allows: it begins when its queue is flushed."""

from __future__ import annotations

import pytest

from byoc.runtime.core.errors import RunTimeoutError
from byoc.runtime.core.time_limit import time_limit
from byoc.runtime.opencl.commands.waiting import wait_for


class LazyQueue:
    """A queue whose commands are all done as soon as it is flushed, and never before."""

    def __init__(self, finishes: bool = True):
        self.finishes, self.is_done, self.flushes = finishes, False, 0

    def flush(self):
        self.flushes += 1
        self.is_done = self.finishes


class LazyEvent:
    """What pyopencl reports of a command in a :class:`LazyQueue`."""

    def __init__(self, queue):
        self.command_queue = queue

    @property
    def command_execution_status(self):
        return 0 if self.command_queue.is_done else 3

    def wait(self):
        self.command_queue.flush()


@pytest.mark.parametrize("spins", [False, True])
def test_a_command_that_only_a_flush_begins_is_waited_for(spins):
    queue = LazyQueue()
    with time_limit(20):
        wait_for([LazyEvent(queue), LazyEvent(queue)], "acme computed f", spins)
    assert queue.is_done


def test_a_command_that_never_ends_is_still_given_up():
    queue = LazyQueue(finishes=False)
    with time_limit(0.05), pytest.raises(RunTimeoutError, match="while acme computed f"):
        wait_for([LazyEvent(queue)], "acme computed f", spins=False)
    assert queue.flushes == 1
