"""Failures that have one cause: a backend whose loader is missing fails in every case, and is reported once."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from typing import Protocol, TypeVar

from byoc.runtime.core.errors import HOST_ADVICE
from byoc.testing.checks import WRONG, Finding

COMMON = 3  # operators from which on a cause is the backend's, not an operator's
_NUMBER = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{16,}\b|\d+")  # hashes of generated sources too

_ADVICE = f"; {HOST_ADVICE}"  # which only regions have that the host can compute
_REGION = re.compile(r" \(operators [^()]*\)")  # what a region holds, which differs from case to case


class Named(Protocol):
    """What says of which operator it is a case."""

    @property
    def operator(self) -> str:
        """The operator or pattern that it tests."""

    @property
    def name(self) -> str:
        """What it is called."""


N = TypeVar("N", bound=Named)


def cause_of(case: Named, finding: Finding) -> Hashable:
    """What findings of one cause have in common: the check and the sentence.

    Of a refusal or a crash the numbers in it (addresses, files), the operator's name, the operators of its region
    and what the host could do count for nothing; of numbers that are wrong they do.
    """
    text = finding.text
    if finding.verdict != WRONG:
        text = text.replace(_ADVICE, "")
        for name in (case.name, case.operator):
            text = text.replace(name, "...")
        text = _NUMBER.sub("0", _REGION.sub("", text))
    return (finding.check, finding.verdict, text)


def by_cause(found: Iterable[tuple[N, Finding]]) -> list[list[tuple[N, Finding]]]:
    """*found* in groups of one cause each, in the order of the first of each."""
    groups: dict[Hashable, list[tuple[N, Finding]]] = {}
    for case, finding in found:
        groups.setdefault(cause_of(case, finding), []).append((case, finding))
    return list(groups.values())


def is_common(group: Iterable[tuple[Named, Finding]]) -> bool:
    """Whether a group of :func:`by_cause` is about the backend as a whole."""
    return len({case.operator for case, _ in group}) >= COMMON
