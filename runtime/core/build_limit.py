"""How long compilers may take, ours to call by name and those in drivers, and how a call without an end is left."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from byoc.runtime.core.errors import UserError

LIMIT_VARIABLE = "BYOC_COMPILER_SECONDS"
LIMIT_SECONDS = 300.0

Result = TypeVar("Result")


class TimeLimitError(Exception):
    """A call did not end in time; the text says how long that was."""


def compiler_seconds() -> float:
    """The seconds that one call of a compiler may take. Raises UserError where the variable is no such number."""
    text = os.environ.get(LIMIT_VARIABLE, "").strip()
    try:
        seconds = float(text) if text else LIMIT_SECONDS
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UserError(f"${LIMIT_VARIABLE} is a number of seconds above 0, got {text!r}")
    return seconds


def bounded(function: Callable[[], Result], seconds: float) -> Result:
    """What *function* gives or raises. It runs in a thread of its own, which is left where it is at the limit.

    Raises TimeLimitError when it does not end in time. Where the system gives no thread, there is no limit.
    """
    call = _Call(function)
    try:
        call.thread.start()
    except RuntimeError:
        return function()
    call.thread.join(seconds)
    if call.thread.is_alive():
        raise TimeLimitError(f"did not end within {seconds:g} s")
    if call.error is not None:
        raise call.error
    return call.results[0]


class _Call(Generic[Result]):
    """A call in a thread that does not keep the process from ending."""

    def __init__(self, function: Callable[[], Result]):
        self.function = function
        self.results: list[Result] = []
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="byoc-bounded", daemon=True)

    def _run(self) -> None:
        try:
            self.results.append(self.function())
        except BaseException as error:  # raised again by whoever waits
            self.error = error
