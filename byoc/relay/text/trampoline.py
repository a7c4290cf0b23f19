"""Recursion on the heap: functions written as generators, run without Python's stack.

A step yields the generator of another step and receives what that one returns, as in ``value = yield self.step(x)``.
Nesting is bounded by memory alone; an exception passes through the waiting steps as it would through callers.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Step = Generator["Step[Any]", Any, T]  # what it is sent is what the step that it yielded returned


def run(step: Step[T]) -> T:
    """The return value of *step*, running every step that it yields to. Raises what a step raises."""
    stack: list[Step[Any]] = [step]
    value: Any = None
    failure: BaseException | None = None
    while stack:
        try:
            if failure is None:
                stack.append(stack[-1].send(value))
            else:
                error, failure = failure, None
                stack.append(stack[-1].throw(error))
            value = None
        except StopIteration as stop:
            stack.pop()
            value = stop.value
        except Exception as error:
            stack.pop()
            failure, value = error, None
    if failure is not None:
        raise failure
    result: T = value
    return result
