"""Counts in sentences: one case, three cases."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """*count* of *noun*, in the *plural* (else with an s) where it is not one.

    >>> counted(1, "case"), counted(0, "case"), counted(2, "pattern or match", "patterns and matches")
    ('1 case', '0 cases', '2 patterns and matches')
    """
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
