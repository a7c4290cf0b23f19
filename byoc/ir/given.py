"""Lists of which some elements may be missing, and what is said of those that have them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard, TypeVar

T = TypeVar("T")


def all_given(values: Sequence[T | None]) -> TypeGuard[Sequence[T]]:
    """True where none of *values* is None.

    >>> all_given([1, 2]), all_given([1, None])
    (True, False)
    """
    return all(value is not None for value in values)
