"""Numbers of a plan that depend on the sizes of a call: an int, the name of a size, or ``[operation, left, right]``."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping

from byoc.runtime.core.bound_sizes import is_computable
from byoc.runtime.core.errors import ArtifactError
from byoc.runtime.core.strict_json import MOST_NUMBER

Number = int | str | list["Number"]

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
}


def evaluate(number: Number, sizes: Mapping[str, int]) -> int:
    """The value of *number* for a call with *sizes*.

    >>> evaluate(["mul", "N", 12], {"N": 5})
    60
    """
    if isinstance(number, int):
        return number
    if isinstance(number, str):
        return sizes[number]
    operation, left, right = number
    return _OPERATIONS[str(operation)](evaluate(left, sizes), evaluate(right, sizes))


def counted(number: Number, sizes: Mapping[str, int]) -> int:
    """The value of *number*, which counts something. Raises ArtifactError for one that cannot be a count."""
    try:
        value = evaluate(number, sizes)
    except ZeroDivisionError as error:
        raise ArtifactError(f"plan.json: {reprlib.repr(number)} divides by zero; compile the model again") from error
    if not 0 <= value <= MOST_NUMBER:
        raise ArtifactError(f"plan.json: {reprlib.repr(number)} is {value}, which counts nothing; compile it again")
    return value


def check_number(number: object, names: frozenset[str]) -> Number:
    """*number* if it has the form of one over the sizes *names*. Raises ArtifactError when it has not."""
    if isinstance(number, str) and is_computable(number, names):
        return number
    if type(number) is int and abs(number) <= MOST_NUMBER:
        return number
    if isinstance(number, list) and len(number) == 3 and isinstance(number[0], str) and number[0] in _OPERATIONS:
        return [number[0], check_number(number[1], names), check_number(number[2], names)]
    raise ArtifactError(f"plan.json: expected a number, a size or an operation on two, got {reprlib.repr(number)}")
