"""Sets of characters as ranges of code points, by RE2's names. Source: RE2's syntax, Python's Unicode data."""

from __future__ import annotations

import functools
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Range = tuple[int, int]  # the first and the last code point
LAST = sys.maxunicode
DIGITS: tuple[Range, ...] = ((48, 57),)
WORDS: tuple[Range, ...] = ((48, 57), (65, 90), (95, 95), (97, 122))
SPACES: tuple[Range, ...] = ((9, 10), (12, 13), (32, 32))
POSIX: dict[str, tuple[Range, ...]] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": DIGITS,
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": WORDS,
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}


@dataclass(frozen=True)
class CharacterSet:
    """The characters in *ranges*, or where *negated* all others; where *fold* whatever their case."""

    ranges: tuple[Range, ...]
    negated: bool = False
    fold: bool = False

    def __contains__(self, letter: str) -> bool:
        letters = same_but_case().get(letter, letter) if self.fold else letter
        starts, ends = self._bounds
        return any(_lies_in(ord(one), starts, ends) for one in letters) != self.negated

    @functools.cached_property
    def _bounds(self) -> tuple[list[int], list[int]]:
        merged = joined(self.ranges)
        return [first for first, _ in merged], [last for _, last in merged]


def _lies_in(code: int, starts: Sequence[int], ends: Sequence[int]) -> bool:
    place = bisect_right(starts, code) - 1
    return place >= 0 and code <= ends[place]


def joined(ranges: Iterable[Range]) -> list[Range]:
    """*ranges* in their order, none of which touches another."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def complement(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """All characters that are not in *ranges*."""
    found: list[Range] = []
    start = 0
    for first, last in joined(ranges):
        if start < first:
            found.append((start, first - 1))
        start = last + 1
    return (*found, (start, LAST)) if start <= LAST else tuple(found)


@functools.cache
def property_ranges(name: str) -> tuple[Range, ...] | None:
    """The characters of a general category, ``L`` or ``Lu``, or ``Any``; None for another name.

    >>> property_ranges("Zl")
    ((8232, 8232),)
    """
    if name == "Any":
        return ((0, LAST),)
    found = [r for category, ranges in _categories().items() if category.startswith(name) for r in ranges]
    return tuple(joined(found)) if name and found else None


@functools.cache
def _categories() -> dict[str, list[Range]]:
    found: dict[str, list[Range]] = {}
    before, start = unicodedata.category("\0"), 0
    for code in range(1, LAST + 2):
        category = unicodedata.category(chr(code)) if code <= LAST else ""
        if category != before:
            found.setdefault(before, []).append((start, code - 1))
            before, start = category, code
    return found


@functools.cache
def same_but_case() -> dict[str, str]:
    """For each character that has a case, those that differ from it in nothing else, itself included.

    By simple folding, one character for one, as RE2 does: ``k``, ``K`` and the Kelvin sign are the same.
    """
    orbits: dict[str, list[str]] = {}
    for code in range(LAST + 1):
        letter = chr(code)
        folded = letter.casefold()
        if len(folded) != 1:
            folded = letter.lower()
        if len(folded) == 1 and (folded != letter or letter.upper() != letter):
            orbits.setdefault(folded, []).append(letter)
    return {letter: "".join(letters) for letters in orbits.values() if len(letters) > 1 for letter in letters}
