"""Work that was given up while it went on: a device still reads and writes the memory that it was given.

Whoever stops waiting says so here, and how to know when it is done; whoever owns memory that it may use asks
:func:`at_work`, hands the memory over, and takes other memory for the next run. What is done is let go; what is left
when the process ends is never let go, since releasing a device's event waits for it.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
from collections.abc import Callable

_LOCK = threading.Lock()
_LEFT: list[tuple[Callable[[], bool], object]] = []  # whether it is done, and what is held until then


def abandon(is_done: Callable[[], bool], held: object) -> None:
    """Keep *held* until *is_done*."""
    with _LOCK:
        _let_go()
        _LEFT.append((is_done, held))


def at_work() -> bool:
    """Whether something that was given up still goes on."""
    with _LOCK:
        _let_go()
        return bool(_LEFT)


def hold(memory: object) -> None:
    """Keep *memory* until all is done that goes on now."""
    with _LOCK:
        _let_go()
        tests = [is_done for is_done, _ in _LEFT]
        if tests:
            _LEFT.append((lambda: all(is_done() for is_done in tests), memory))


def _let_go() -> None:
    _LEFT[:] = [(is_done, held) for is_done, held in _LEFT if not is_done()]


@atexit.register
def _never_let_go() -> None:
    """Nothing is asked any more whether it is done: drivers may have been closed before."""
    with _LOCK:
        for _, held in _LEFT:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))
