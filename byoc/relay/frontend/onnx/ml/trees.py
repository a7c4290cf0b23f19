"""Decision trees. Source: TreeEnsembleClassifier-1/3/5, TreeEnsembleRegressor-1/3/5, TreeEnsemble-5 of ai.onnx.ml."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.ml.scores import (
    TRANSFORMS,
    best_label,
    class_labels,
    either_label,
    in_float32,
    rows_of,
    transformed,
)
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MACHINE_LEARNING, converter
from byoc.relay.op.numeric.trees import TreeEnsembleAttrs
from byoc.runtime.kernels.trees import AGGREGATES, LEAF

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "LEAF")
EQUAL, MEMBER = MODES.index("BRANCH_EQ"), 6  # a set's number in TreeEnsemble-5


@dataclass(frozen=True)
class Trees:
    """The tables of ``tree_ensemble``: nodes, splits, roots, votes and their weights."""

    nodes: np.ndarray
    splits: np.ndarray
    roots: np.ndarray
    votes: np.ndarray
    weights: np.ndarray

    def scores(self, node: OnnxNode, targets: int, aggregate: str) -> RelayExpr:
        """``T[N, targets]`` of the node's rows. Raises ImportModelError for what is not among so many."""
        data = rows_of(node)
        features, counts = node.shape(data)[1], len(self.nodes)
        for what, numbers, end in (
            ("feature", self.nodes[self.nodes[:, 1] != LEAF, 0], features),
            ("node", np.concatenate([self.nodes[:, 2:4].reshape(-1), self.roots, self.votes[:, 0]]), counts),
            ("target", self.votes[:, 1], targets),
        ):
            wrong = numbers[(numbers < 0) | (numbers >= end)] if isinstance(end, int) else numbers[numbers < 0]
            if wrong.size:
                raise node.error(f"a tree has the {what} {wrong[0]}, there are {end}; the model is damaged")
        return relay.tree_ensemble(
            data,
            constant(self.nodes),
            constant(self.splits),
            (constant(self.votes), constant(self.weights)),
            constant(self.roots),
            TreeEnsembleAttrs(targets, aggregate),
        )


def _numbers(node: OnnxNode, name: str) -> np.ndarray:
    """An attribute of floats, or of a tensor where they are doubles."""
    if f"{name}_as_tensor" in node.attrs:
        return np.asarray(node.services.tensor(node.attrs.tensor(f"{name}_as_tensor"))).reshape(-1)
    return np.array(node.attrs.floats(name, []), "float32")


def _columns(node: OnnxNode, count: int, *names: str) -> list[np.ndarray]:
    """Attributes of integers, *count* in each. Raises ImportModelError for another number."""
    found = [np.array(node.attrs.ints(name), "int64") for name in names]
    for name, column in zip(names, found, strict=True):
        if len(column) != count:
            raise node.error(f"{name} has {len(column)} numbers, expected {count}; the model is damaged")
    return found


def _missing(node: OnnxNode, count: int) -> np.ndarray:
    given = node.attrs.ints("nodes_missing_value_tracks_true", [])
    return np.array(given if len(given) == count else [0] * count, "int64")


def _trees(node: OnnxNode, what: str) -> Trees:
    """The trees of the older operators, whose votes' attributes begin with *what*: ``class`` or ``target``."""
    modes = node.attrs.strings("nodes_modes")
    count = len(modes)
    unknown = [mode for mode in modes if mode not in MODES]
    splits = _numbers(node, "nodes_values")
    if unknown or len(splits) != count or not count:
        raise node.error(f"nodes_modes are {', '.join(MODES)}, each with a value, got {unknown or len(splits)}")
    trees, ids, features, yes, no = _columns(
        node, count, *(f"nodes_{n}" for n in ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids"))
    )
    place = {pair: k for k, pair in enumerate(zip(trees.tolist(), ids.tolist(), strict=True))}
    kinds = np.array([MODES.index(mode) for mode in modes], "int64")
    branches = kinds != LEAF
    nodes = np.stack([features, kinds, np.zeros_like(ids), np.zeros_like(ids), _missing(node, count)], axis=1)
    weights = _numbers(node, f"{what}_weights")
    voters, voted, targets = _columns(node, len(weights), *(f"{what}_{n}" for n in ("treeids", "nodeids", "ids")))
    try:
        for column, children in ((2, yes), (3, no)):
            nodes[branches, column] = [
                place[pair] for pair in zip(trees[branches].tolist(), children[branches].tolist(), strict=True)
            ]
        at = np.array([place[pair] for pair in zip(voters.tolist(), voted.tolist(), strict=True)], "int64")
    except KeyError as error:
        raise node.error(f"tree and node {error.args[0]} do not exist; the model is damaged") from error
    _, roots = np.unique(trees, return_index=True)
    return Trees(nodes, splits, roots.astype("int64"), np.stack([at, targets], axis=1), weights)


@converter("TreeEnsembleRegressor", domain=MACHINE_LEARNING)
def _regressor(node: OnnxNode) -> RelayExpr:
    """``[N, features] -> f32[N, targets]``."""
    aggregate = node.attrs.string("aggregate_function", "SUM").lower()
    if aggregate not in AGGREGATES:
        raise node.error(f"aggregate_function is one of {', '.join(AGGREGATES).upper()}, got {aggregate.upper()!r}")
    targets = node.attrs.int("n_targets", 1)
    scores = _with_base(node, _trees(node, "target").scores(node, targets, aggregate), targets)
    return in_float32(node, transformed(node, scores, node.attrs.string("post_transform", "NONE")))


def _with_base(node: OnnxNode, scores: RelayExpr, count: int) -> RelayExpr:
    base = _numbers(node, "base_values")
    if len(base) not in (0, count):
        raise node.error(f"base_values has {len(base)} numbers, expected {count} or none")
    return relay.add(scores, node.like(base, scores)) if len(base) else scores


@converter("TreeEnsembleClassifier", domain=MACHINE_LEARNING)
def _classifier(node: OnnxNode) -> list[RelayExpr]:
    """``[N, features] -> int64[N], f32[N, classes]``.

    Where two classes have votes for one of them alone, its score decides: above 0.5 where all weights are positive,
    else above 0, as in ONNX Runtime.
    """
    labels, trees = class_labels(node, "classlabels_int64s"), _trees(node, "class")
    name, voted = node.attrs.string("post_transform", "NONE"), set(trees.votes[:, 1].tolist())
    if len(labels) < 2:
        raise node.error(f"needs at least two classes, got {labels.tolist()}; use TreeEnsembleRegressor for one score")
    positive = bool((trees.weights >= 0).all())
    above = 0.5 if positive else 0.0
    if len(labels) == 2 and voted == {0} and len(_numbers(node, "base_values")) < 2:
        score = _with_base(node, trees.scores(node, 1, "sum"), 1)
        return [
            either_label(node, score, above, labels),
            in_float32(node, _two_of(node, score, name, positive)),
        ]
    scores = _with_base(node, trees.scores(node, len(labels), "sum"), len(labels))
    if len(labels) == 2 and voted == {1}:
        second = relay.strided_slice(scores, begin=[1], end=[2], strides=[1], axes=[1])
        label = either_label(node, second, above, labels)
    else:
        label = best_label(scores, labels)
    return [label, in_float32(node, transformed(node, scores, name))]


def _two_of(node: OnnxNode, score: RelayExpr, name: str, positive: bool) -> RelayExpr:
    """Both classes' scores from that of the second: the other's is what is missing to 1, or its opposite."""
    other = relay.negative(score)
    if name == "PROBIT" or (positive and name != "LOGISTIC"):
        other = relay.add(other, node.like(1, score))
    both = relay.concatenate([other, score], axis=1)
    return transformed(node, both, name if name in ("LOGISTIC", "PROBIT") or name not in TRANSFORMS else "NONE")


@converter("TreeEnsemble", since=5, domain=MACHINE_LEARNING)
def _ensemble(node: OnnxNode) -> RelayExpr:
    """``T[N, features] -> T[N, targets]``."""
    targets, aggregate = node.attrs.int("n_targets", 1), node.attrs.int("aggregate_function", 1)
    transform = node.attrs.int("post_transform", 0)
    if aggregate not in range(4) or transform not in range(len(TRANSFORMS)):
        raise node.error(f"aggregate_function is 0 to 3 and post_transform 0 to 4, got {aggregate} and {transform}")
    kind = ("average", "sum", "min", "max")[aggregate]
    scores = transformed(node, _numbered_trees(node).scores(node, targets, kind), TRANSFORMS[transform])
    wanted = node.dtype(node[0])
    return scores if node.dtype(scores) == wanted else relay.cast(scores, wanted)


def _numbered_trees(node: OnnxNode) -> Trees:
    """The trees of TreeEnsemble: leaves stand behind the nodes, and a set is a chain of comparisons."""
    modes, splits, weights = (
        np.asarray(node.services.tensor(node.attrs.tensor(name)))
        for name in ("nodes_modes", "nodes_splits", "leaf_weights")
    )
    count, leaves = len(modes), len(weights)
    features, yes, no, yes_leaf, no_leaf = _columns(
        node, count, *(f"nodes_{n}" for n in ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs"))
    )
    (targets,) = _columns(node, leaves, "leaf_targetids")
    if len(splits) != count or modes.max(initial=0) > MEMBER:
        raise node.error(f"{count} nodes need as many splits and modes from 0 to {MEMBER}; the model is damaged")
    yes, no = yes + count * (yes_leaf != 0), no + count * (no_leaf != 0)
    branches = np.stack([features, modes.astype("int64"), yes, no, _missing(node, count)], axis=1)
    table = np.concatenate([branches, np.tile([[0, LEAF, 0, 0, 0]], (leaves, 1))]).astype("int64")
    values = np.concatenate([splits, np.zeros(leaves, splits.dtype)])
    table, values = _without_sets(node, table, values, count)
    votes = np.stack([np.arange(count, count + leaves), targets], axis=1)
    return Trees(table, values, np.array(node.attrs.ints("tree_roots"), "int64"), votes, weights)


def _without_sets(node: OnnxNode, table: np.ndarray, values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Each membership of a set as comparisons, one behind the other, with its members."""
    sets = np.flatnonzero(table[:count, 1] == MEMBER)
    if not sets.size:
        return table, values
    members = np.asarray(node.services.tensor(node.attrs.tensor("membership_values")))
    ends = np.flatnonzero(np.isnan(members))
    if len(ends) < len(sets):
        raise node.error(f"membership_values has {len(ends)} sets, {len(sets)} nodes ask for one; the model is damaged")
    rows, splits = table.tolist(), values.tolist()
    for place, start, end in zip(sets.tolist(), [0, *(ends + 1)], ends, strict=False):
        feature, _, yes, no, missing = rows[place]
        last = place
        for position, value in enumerate(members[start:end].tolist() or [np.nan]):
            if position:  # comes behind the member before
                rows[last][3], last = len(rows), len(rows)
                rows.append([])
                splits.append(value)
            rows[last], splits[last] = [feature, EQUAL, yes, no, missing], value
    return np.array(rows, "int64"), np.array(splits, values.dtype)
