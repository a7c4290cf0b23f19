"""The numpy kernel of weights of n-grams. Source: TfIdfVectorizer-9, with ONNX Runtime's order of skips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.strings.elements import kept_for

MODES = ("TF", "IDF", "TFIDF")


@dataclass(frozen=True, kw_only=True)
class TfIdfAttributes(KernelAttributes):
    """Attributes of n-grams: columns of the result, the n-grams' lengths, items between, and the mode."""

    columns: int = 1
    shortest: int = 1
    longest: int = 1
    skips: int = 0
    mode: str = "TF"


@dataclass
class _Branch:
    """What may follow the items so far; *number* is that of the n-gram which they are, if they are one."""

    following: dict[object, _Branch] = field(default_factory=dict)
    number: int | None = None


@kernel("strings.tf_idf")
def tf_idf(
    data: np.ndarray,
    pool: np.ndarray,
    starts: np.ndarray,
    places: np.ndarray,
    weights: np.ndarray,
    *,
    attrs: TfIdfAttributes,
) -> np.ndarray:
    """data: T[C] or T[N, C] -> f32[M] or f32[N, M]: how often each n-gram of *pool* occurs in a row.

    *starts* says where in *pool* the n-grams of each length begin, *places* which column each of them has. Up to
    ``skips`` items may lie between those of an n-gram. Counts are weighted (TFIDF), or weights stand for them (IDF).
    """
    if data.ndim not in (1, 2):
        raise KernelError(f"strings.tf_idf takes one row or several, got {list(data.shape)}")
    root = kept_for(_tree, pool, starts)
    order = range(1, attrs.skips + 2) if attrs.longest > 1 else range(1, 2)
    counts = np.zeros((len(data) if data.ndim == 2 else 1, attrs.columns), np.float32)
    for row, items in zip(counts, data.tolist() if data.ndim == 2 else [data.tolist()], strict=True):
        numbers = [n for distance in order for n in _found(root, items, distance, attrs)]
        np.add.at(row, places[numbers], 1)
    if attrs.mode != "TF":
        weight = np.ones(attrs.columns, np.float32)
        if len(weights):
            weight[places] = weights
        counts = counts * weight if attrs.mode == "TFIDF" else (counts > 0) * weight
    return counts if data.ndim == 2 else counts[0]


def _found(root: _Branch, items: Sequence[object], distance: int, attrs: TfIdfAttributes) -> Iterator[int]:
    """The n-grams among *items* that are *distance* apart. Single ones are counted at distance 1 alone."""
    least = max(attrs.shortest, 2) if distance > 1 else attrs.shortest
    for start in range(len(items)):
        branch = root
        for length, place in enumerate(range(start, len(items), distance), 1):
            following = branch.following.get(items[place]) if length <= attrs.longest else None
            if following is None:
                break
            branch = following
            if branch.number is not None and length >= least:
                yield branch.number


def _tree(pool: np.ndarray, starts: np.ndarray) -> _Branch:
    """The n-grams of *pool* as a tree of their items, numbered in their order."""
    root, number = _Branch(), 0
    items, ends = pool.tolist(), [*starts.tolist()[1:], len(pool)][: len(starts)]
    for length, (first, end) in enumerate(zip(starts.tolist(), ends, strict=True), 1):
        for place in range(first, end - length + 1, length):
            branch = root
            for item in items[place : place + length]:
                branch = branch.following.setdefault(item, _Branch())
            branch.number, number = number, number + 1
    return root
