"""Sets of post-order indexes as Python ints: bit *i* says whether index *i* is in the set.

Union, intersection and difference are the operators of ints; a set costs one bit a node. Source: Collage's
``IndexSet``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

IndexSet = int


def index_set(indexes: Iterable[int]) -> IndexSet:
    """The set of *indexes*.

    >>> bin(index_set([0, 2]))
    '0b101'
    """
    result = 0
    for index in indexes:
        result |= 1 << index
    return result


def indexes_of(inside: IndexSet) -> Iterator[int]:
    """The indexes in *inside*, ascending."""
    while inside:
        lowest = inside & -inside
        yield lowest.bit_length() - 1
        inside ^= lowest


def first_inside(inside: IndexSet) -> int:
    """The least index in *inside*, which is not empty."""
    return (inside & -inside).bit_length() - 1


def last_inside(inside: IndexSet) -> int:
    """The greatest index in *inside*, which is not empty."""
    return inside.bit_length() - 1


def first_outside(inside: IndexSet) -> int:
    """The least index that is not in *inside*."""
    return first_inside(~inside)


def comes_first(left: IndexSet, right: IndexSet) -> bool:
    """True when the least index in which the sets differ is in *left*: the order in which ties are broken."""
    differ = left ^ right
    return bool(left & differ & -differ)
