"""Dimensions of shapes: numbers, sizes with a name, and sizes of which nothing is known.

A number is an :class:`IntImm`, which is a Python int that also answers to ``.value`` and ``.dtype``, so that code
written for Relay reads shapes as it used to. :class:`Any` is a size known only at run time; a *named* Any is one size
wherever the name occurs. Source: ``tvm.tir.IntImm``, ``tvm.tir.Any``; names are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard, overload

from byoc.errors import UserError
from byoc.runtime.core.derived_size import is_derived
from byoc.runtime.core.size_forms import unguarded_name

MAX_RANK = 64  # of numpy's arrays


class _NumberLike(type):
    """A class of which every Python int (no bool) is an instance: predicates distinguish numbers from ``Any`` by it."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, int) and not isinstance(instance, bool)


class IntImm(int, metaclass=_NumberLike):
    """An integer with a dtype; equal to the Python number. Source: ``tvm.tir.IntImm``."""

    dtype: str

    def __new__(cls, dtype: str, value: int, span: object | None = None) -> IntImm:
        made = super().__new__(cls, value)
        made.dtype = str(dtype)
        return made

    @property
    def value(self) -> int:
        """The Python int."""
        return int(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (IntImm, (self.dtype, int(self)))


class Any:
    """A dimension known only at run time.

    Source: ``tvm.tir.Any``; names are ours. Every unnamed Any equals every other, as in Relay's structural equality.
    Two names are equal that are one size wherever the inputs are not refused (``(window(H-2))`` and ``(H-2)``).
    """

    __slots__ = ("name",)

    def __init__(self, name: str = ""):
        self.name = name

    def __int__(self) -> int:
        raise TypeError(f"the size {self} has no number before the program runs")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Any):
            return False
        return other.name == self.name or _one_size(other.name, self.name)

    def __hash__(self) -> int:
        return hash(("Any", unguarded_name(self.name) if is_derived(self.name) else self.name))

    def __repr__(self) -> str:
        return f"?{self.name}"


def _one_size(a: str, b: str) -> bool:
    return is_derived(a) and is_derived(b) and unguarded_name(a) == unguarded_name(b)


Dim = int | Any


def are_known(sizes: Sequence[Dim | None]) -> TypeGuard[Sequence[Dim]]:
    """True where none of *sizes* is None."""
    return None not in sizes


def are_numbers(sizes: tuple[Dim | None, ...]) -> TypeGuard[tuple[int, ...]]:
    """True where each of *sizes* is a number."""
    return all(isinstance(size, int) for size in sizes)


_KNOWN: dict[int, IntImm] = {}


@overload
def dimension(value: int) -> IntImm: ...
@overload
def dimension(value: object) -> Dim: ...
def dimension(value: object) -> Dim:
    """*value* as a dimension. Raises UserError for what is neither a number nor Any."""
    if isinstance(value, Any):
        return value
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise UserError(f"a dimension is an int or Any, got {value!r}") from None
    known = _KNOWN.get(number)
    if known is None:
        known = _KNOWN[number] = IntImm("int32" if abs(number) < 2**31 else "int64", number)
    return known
