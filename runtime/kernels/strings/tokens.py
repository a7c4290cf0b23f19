"""Numpy kernels on texts of words: words left out, parts, tokens. Source: StringNormalizer-10, StringSplit-20."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from byoc.runtime.core.container import object_vector
from byoc.runtime.core.errors import InputError
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.strings.elements import CASES
from byoc.runtime.kernels.strings.regex import Regex, regex_of

_BEGIN, _END = "\x02", "\x03"  # what marks a text in a tensor of tokens


@kernel("strings.without")
def without(data: np.ndarray, words: np.ndarray, *, case: str = "none", case_sensitive: bool = False) -> np.ndarray:
    """data: string[C] or string[1, C] -> string[K] or string[1, K]: the strings that are not among *words*.

    They are in the *case* asked for; one empty string where none is left. Raises InputError for several rows.
    """
    if data.ndim == 2 and len(data) != 1:
        raise InputError(f"words are left out of one row, got {len(data)}")
    compared = CASES["none" if case_sensitive else "lower"]
    left_out = {compared(word) for word in words.tolist()}
    kept = [CASES[case](word) for word in data.reshape(-1).tolist() if compared(word) not in left_out]
    found = object_vector(kept or [""])
    return found.reshape(1, -1) if data.ndim == 2 else found


@kernel("strings.split")
def split(data: np.ndarray, *, delimiter: str = "", most: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """data: string[...] -> string[..., K], int64[...]: the parts of each string, and how many they are.

    An empty *delimiter* stands for any white space. There are at most *most* splits, any number where it is negative.
    """
    parts = [text.split(delimiter or None, most) for text in data.reshape(-1).tolist()]
    counts = np.array([len(row) for row in parts], np.int64).reshape(data.shape)
    return _table(parts, "").reshape(*data.shape, -1 if data.size else 0), counts


def _table(rows: Sequence[Sequence[str]], filler: str) -> np.ndarray:
    """*rows* as one array, the shorter ones filled: string[rows, longest]."""
    out = np.full((len(rows), max(map(len, rows), default=0)), filler, object)
    for k, row in enumerate(rows):
        out[k, : len(row)] = row
    return out


@kernel("strings.tokenize")
def tokenize(
    data: np.ndarray,
    separators: np.ndarray,
    *,
    token: str = "",
    least: int = 1,
    filler: str = "#",
    mark: bool = False,
) -> np.ndarray:
    """data: string[...] -> string[..., K]: the tokens of each string.

    They are what matches the pattern *token*, or else what lies between matches of *separators*; where these are one
    empty pattern, every character. Tokens of fewer than *least* characters are left out; *mark* puts a character
    before and behind each row.
    """
    patterns = [regex_of(pattern) for pattern in separators.tolist() if pattern]
    rows = []
    for text in data.reshape(-1).tolist():
        if token:
            found: Sequence[str] = [text[a:b] for a, b in _matches(regex_of(token), text)]
        else:
            found = _between(patterns, text) if patterns else list(text)
        kept = [part for part in found if len(part) >= max(least, 1)]
        rows.append([_BEGIN, *kept, _END] if mark else kept)
    table = _table(rows, filler)
    return table.reshape(*data.shape, table.shape[1])


def _matches(pattern: Regex, text: str) -> Iterator[tuple[int, int]]:
    """Where the matches in *text* that are not empty begin and end, from left to right."""
    start = 0
    while start < len(text):
        found = pattern.find(text, start)
        if found is None:
            return
        if found[1] > found[0]:
            yield found
        start = max(found[1], found[0] + 1) if found[1] == found[0] else found[1]


def _between(patterns: Sequence[Regex], text: str) -> list[str]:
    """The parts of *text* between the matches of each pattern, one pattern after the other."""
    parts = [text]
    for pattern in patterns:
        cut: list[str] = []
        for part in parts:
            end = 0
            for first, last in _matches(pattern, part):
                cut.append(part[end:first])
                end = last
            cut.append(part[end:])
        parts = cut
    return parts
