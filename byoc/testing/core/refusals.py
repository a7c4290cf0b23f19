"""Why a backend refused what it was asked about, each reason once, with what was found and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from byoc.base.counted import counted
from byoc.contract.verdict import Reason

MOST_VALUES = 3  # found values that one reason names


def grouped(refused: Mapping[Reason, int], most: int) -> list[str]:
    """The *most* frequent reasons as sentences, those given most often first.

    Reasons that differ only in what was found, or where, are one:
    ``only acme.pair, got abs, acos, add and 300 more (1208 times)``.
    """
    values: dict[Reason, Counter[str]] = {}
    for reason, count in refused.items():
        values.setdefault(replace(reason, actual="", at=""), Counter())[reason.actual] += count
    found = sorted(values.items(), key=lambda item: -item[1].total())
    return [f"{_sentence(reason, actual)} ({counted(actual.total(), 'time')})" for reason, actual in found[:most]]


def _sentence(reason: Reason, actual: Counter[str]) -> str:
    names = [name for name, _ in actual.most_common() if name]
    shown = ", ".join(names[:MOST_VALUES])
    more = f" and {len(names) - MOST_VALUES} more" if len(names) > MOST_VALUES else ""
    return f"{reason}, got {shown}{more}" if names else str(reason)
