"""The numpy kernel of decision trees: all trees of a block of rows go down one level at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.registry import kernel

AGGREGATES = ("sum", "average", "min", "max")
# modes by their numbers, which are those of ONNX's TreeEnsemble; the next one is a leaf
COMPARISONS: tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], ...] = (
    np.less_equal,
    np.less,
    np.greater_equal,
    np.greater,
    np.equal,
    np.not_equal,
)
LEAF = len(COMPARISONS)
BLOCK = 1 << 18  # how many pairs of a row and a tree go down together


@dataclass(frozen=True, kw_only=True)
class TreeAttributes(KernelAttributes):
    """Attributes of trees: how many targets, and what becomes of the votes for one."""

    targets: int = 1
    aggregate: str = "sum"


@kernel("tree_ensemble")
def tree_ensemble(
    data: np.ndarray,
    nodes: np.ndarray,
    splits: np.ndarray,
    roots: np.ndarray,
    votes: np.ndarray,
    weights: np.ndarray,
    *,
    attrs: TreeAttributes,
) -> np.ndarray:
    """data: T[N, F] -> T[N, targets]. A target without a vote is 0.

    Raises KernelError for a feature, node or target that is not there, and for a tree that has a cycle.
    """
    _check(data, nodes, roots, votes, attrs.targets)
    order = np.argsort(votes[:, 0], kind="stable")
    votes, weights = votes[order], weights[order].astype(np.float64)
    out = np.zeros((len(data), attrs.targets), np.float64)
    step = max(BLOCK // max(len(roots), 1), 1)
    for start in range(0, len(data), step):
        leaves = _leaves(data[start : start + step], nodes, splits, roots)
        out[start : start + step] = _counted(leaves, votes, weights, attrs.targets, attrs.aggregate)
    return out.astype(data.dtype)


def _check(data: np.ndarray, nodes: np.ndarray, roots: np.ndarray, votes: np.ndarray, targets: int) -> None:
    limits = (
        ("feature", nodes[nodes[:, 1] != LEAF, 0], data.shape[1]),
        ("mode", nodes[:, 1], LEAF + 1),
        ("node", np.concatenate([nodes[:, 2], nodes[:, 3], roots, votes[:, 0]]), len(nodes)),
        ("target", votes[:, 1], targets),
    )
    for what, numbers, end in limits:
        wrong = numbers[(numbers < 0) | (numbers >= end)]
        if wrong.size:
            raise KernelError(f"tree_ensemble: {what} {wrong[0]} does not exist, there are {end}")


def _leaves(data: np.ndarray, nodes: np.ndarray, splits: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """int64[N, trees]: the leaf at which each row of *data* arrives in each tree."""
    place = np.repeat(roots.astype(np.int64)[None], len(data), 0).reshape(-1)
    row = np.repeat(np.arange(len(data)), len(roots))
    going = np.flatnonzero(nodes[place, 1] != LEAF)
    for _ in range(len(nodes)):
        if not going.size:
            break
        at = place[going]
        feature, mode, yes, no, missing = nodes[at].T
        value, split = data[row[going], feature], splits[at]
        holds = (missing != 0) & np.isnan(value)
        for number in np.unique(mode):
            chosen = mode == number
            holds[chosen] |= COMPARISONS[number](value[chosen], split[chosen])
        place[going] = np.where(holds, yes, no)
        going = going[nodes[place[going], 1] != LEAF]
    if going.size:
        raise KernelError("tree_ensemble: a tree has a cycle")
    return place.reshape(len(data), len(roots))


def _counted(leaves: np.ndarray, votes: np.ndarray, weights: np.ndarray, targets: int, aggregate: str) -> np.ndarray:
    """The votes of *leaves*: f64[N, targets]."""
    start = {"min": np.inf, "max": -np.inf}.get(aggregate, 0.0)
    together = {"min": np.minimum, "max": np.maximum}.get(aggregate, np.add)
    out = np.full((len(leaves), targets), start)
    for column in leaves.T:
        first, last = (np.searchsorted(votes[:, 0], column, side) for side in ("left", "right"))
        for k in range(int((last - first).max(initial=0))):
            rows = np.flatnonzero(first + k < last)
            vote = first[rows] + k
            at = rows, votes[vote, 1]
            out[at] = together(out[at], weights[vote])
    if aggregate == "average":
        out /= max(leaves.shape[1], 1)
    return np.where(np.isinf(out) & (out == start), 0.0, out)
