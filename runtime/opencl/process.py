"""What a process may do with OpenCL: not after a fork, and not while Python ends.

A driver's threads are not in a forked child, so that whatever it waits for there never comes, and giving objects back
may wait too. So a child of a process that has used OpenCL gets an error, and keeps what it inherited for ever.

A thread inside the driver that comes back while Python is ending is ended by Python in the middle of the binding's C++,
which aborts the process. So Python's end waits for calls that are in the driver, and lets no other in.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import threading
import time
import weakref
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from byoc.runtime.core.errors import DeviceError
from byoc.runtime.core.fork import OwnProcess, in_child

_LONGEST_END = 30.0  # seconds that the end of Python waits for a device
_FORKED = (
    "this process was forked from one that had used OpenCL, whose driver does not work in a child: start processes "
    "with multiprocessing's method 'spawn', or use OpenCL for the first time in the children"
)
Args = ParamSpec("Args")
Result = TypeVar("Result")


class DriverUse:
    """The use of OpenCL by the process that made this object: who is in the driver, and what a child must not free."""

    def __init__(self) -> None:
        self._process = OwnProcess(_FORKED)
        self._inside: set[int] = set()  # threads, by their identifiers
        self._is_ending = False
        self._owners: weakref.WeakSet[object] = weakref.WeakSet()
        atexit.register(self._end)
        in_child(self._keep_in_child)

    def require_own_process(self) -> None:
        """Raises DeviceError in a child of the process that uses OpenCL."""
        self._process.require()

    def enter(self) -> bool:
        """Begin a call into the driver, which :meth:`leave` ends; False within another call of this thread.

        Raises DeviceError in a child process, and while Python ends.
        """
        self._process.require()
        thread = threading.get_ident()
        if thread in self._inside:
            return False
        self._inside.add(thread)  # before it is asked whether Python ends: the other side does both the other way round
        if self._is_ending:
            self._inside.discard(thread)
            _stay_out()
        return True

    def leave(self) -> None:
        """End the call that this thread began."""
        self._inside.discard(threading.get_ident())

    def keep(self, owner: object) -> None:
        """Have a child keep *owner*, and so what it holds, for ever."""
        self._owners.add(owner)

    def _end(self) -> None:
        if not self._process.is_this:
            return
        self._is_ending = True
        deadline = time.monotonic() + _LONGEST_END
        while self._inside and time.monotonic() < deadline:
            time.sleep(0.001)

    def _keep_in_child(self) -> None:
        for owner in list(self._owners):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


@functools.cache
def driver_use() -> DriverUse:
    """This process's use of OpenCL, or its parent's, where that began before the fork."""
    return DriverUse()


def in_driver(function: Callable[Args, Result]) -> Callable[Args, Result]:
    """Make *function* a call into the driver (:meth:`DriverUse.enter`)."""

    @functools.wraps(function)
    def inside(*args: Args.args, **named: Args.kwargs) -> Result:
        use = driver_use()
        entered = use.enter()
        try:
            return function(*args, **named)
        finally:
            if entered:
                use.leave()

    return inside


def _stay_out() -> None:
    """Raises DeviceError; a daemon thread, which Python's end leaves where it is, waits there instead."""
    if threading.current_thread().daemon:
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    raise DeviceError("OpenCL cannot be used any more: this process is ending")
