"""Support vector machines. Source: SVMRegressor-1 and SVMClassifier-1 of ai.onnx.ml; libsvm."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.ml.scores import best_label, class_labels, in_float32, rows_of, transformed
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MACHINE_LEARNING, converter

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
LEAST = 1e-7  # how near to 0 and 1 the probability of a pair may come


def _kernel(node: OnnxNode, data: RelayExpr, vectors: np.ndarray, kind: str) -> RelayExpr:
    """``T[N, vectors]``: each row with each vector. Raises ImportModelError for a kernel that there is not."""
    if kind not in KERNELS:
        raise node.error(f"kernel_type is one of {', '.join(KERNELS)}, got {kind!r}")
    gamma, offset, degree = (*node.attrs.floats("kernel_params", []), 0.0, 0.0, 0.0)[:3]
    features = node.shape(data)[1]
    if isinstance(features, int) and vectors.shape[1] != features:
        raise node.error(f"vectors have {vectors.shape[1]} features, the data has {features}; the model is damaged")
    if kind == "RBF":  # differences first: of squares little would be left
        apart = relay.subtract(relay.expand_dims(data, 1), node.like(vectors[None], data))
        square = relay.sum(relay.multiply(apart, apart), axis=[2])
        return relay.exp(relay.multiply(square, node.like(-gamma, data)))
    product = relay.nn.dense(data, node.like(vectors, data))
    if kind == "LINEAR":
        return product
    moved = relay.add(relay.multiply(product, node.like(gamma, data)), node.like(offset, data))
    return relay.tanh(moved) if kind == "SIGMOID" else relay.power(moved, node.like(float(int(degree)), data))


def _table(node: OnnxNode, name: str, rows: int) -> np.ndarray:
    """An attribute of floats as *rows* rows. Raises ImportModelError where it is none."""
    numbers = np.array(node.attrs.floats(name))
    if not rows or numbers.size % rows or not numbers.size:
        raise node.error(f"{name} has {numbers.size} numbers, which are not {rows} rows; the model is damaged")
    return numbers.reshape(rows, -1)


@converter("SVMRegressor", domain=MACHINE_LEARNING)
def _regressor(node: OnnxNode) -> RelayExpr:
    """``[N, features] -> f32[N, 1]``; of one class 1 inside and -1 outside."""
    data, count = rows_of(node), node.attrs.int("n_supports", 0)
    kind = node.attrs.string("kernel_type", "LINEAR")
    shift = node.attrs.floats("rho")[0]
    if count > 0:
        seen = _kernel(node, data, _table(node, "support_vectors", count), kind)
        score: RelayExpr = relay.nn.dense(seen, node.like(_table(node, "coefficients", 1), data))
    else:
        score = _kernel(node, data, _table(node, "coefficients", 1), "LINEAR")
    score = relay.add(score, node.like(shift, data))
    if node.attrs.flag("one_class"):
        inside = relay.greater(score, node.like(0, data))
        return relay.where(inside, constant(1.0, "float32"), constant(-1.0, "float32"))
    return in_float32(node, transformed(node, score, node.attrs.string("post_transform", "NONE")))


@converter("SVMClassifier", domain=MACHINE_LEARNING)
def _classifier(node: OnnxNode) -> list[RelayExpr]:
    """``[N, features] -> int64[N], f32[N, scores]``.

    Scores are the classes' probabilities, else one for each pair of classes (of two classes both), else, without
    support vectors, one for each class.
    """
    labels, data = class_labels(node, "classlabels_ints"), rows_of(node)
    counts, name = node.attrs.ints("vectors_per_class", []), node.attrs.string("post_transform", "NONE")
    shifts = np.array(node.attrs.floats("rho"))
    if not counts:
        scores = _kernel(node, data, _table(node, "coefficients", len(labels)), "LINEAR")
        scores = relay.add(scores, node.like(shifts[0], data))
        return [best_label(scores, labels), in_float32(node, transformed(node, scores, name))]
    pairs = list(itertools.combinations(range(len(labels)), 2))
    if len(counts) != len(labels) or len(shifts) != len(pairs) or not pairs:
        raise node.error(
            f"{len(labels)} classes need as many vectors_per_class and {len(pairs)} rho, got {len(counts)} and "
            f"{len(shifts)}; the model is damaged"
        )
    vectors = _table(node, "support_vectors", sum(counts))
    seen = _kernel(node, data, vectors, node.attrs.string("kernel_type", "LINEAR"))
    weights = _pair_weights(_table(node, "coefficients", len(labels) - 1), counts, pairs)
    scores = relay.add(relay.nn.dense(seen, node.like(weights, data)), node.like(shifts, data))
    label = best_label(_votes(node, scores, pairs), labels)
    if node.attrs.floats("prob_a", []):
        scores = _probabilities(node, scores, len(labels))
    elif len(pairs) == 1:
        scores = relay.concatenate([relay.negative(scores), scores], axis=1)
    return [label, in_float32(node, transformed(node, scores, name))]


def _pair_weights(coefficients: np.ndarray, counts: Sequence[int], pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """float64[pairs, vectors]: by what the vectors of both classes count, as libsvm stores it."""
    ends = np.cumsum(counts)
    weights = np.zeros((len(pairs), coefficients.shape[1]))
    for row, (i, j) in enumerate(pairs):
        for own, other in ((i, j - 1), (j, i)):
            place = slice(ends[own] - counts[own], ends[own])
            weights[row, place] = coefficients[other, place]
    return weights


def _votes(node: OnnxNode, scores: RelayExpr, pairs: Sequence[tuple[int, int]]) -> RelayExpr:
    """``T[N, classes]``: how many of its pairs each class wins, the first with a score above 0."""
    count = max(j for _, j in pairs) + 1
    first, second = (np.eye(count)[[pair[k] for pair in pairs]].T for k in (0, 1))
    won = relay.cast(relay.greater(scores, node.like(0, scores)), node.dtype(scores))
    lost = relay.subtract(node.like(1, scores), won)
    return relay.add(relay.nn.dense(won, node.like(first, scores)), relay.nn.dense(lost, node.like(second, scores)))


def _probabilities(node: OnnxNode, scores: RelayExpr, classes: int) -> RelayExpr:
    """Those of the classes from the scores of pairs (Platt's sigmoid, then pairwise coupling)."""
    slopes, starts = (np.array(node.attrs.floats(name)) for name in ("prob_a", "prob_b"))
    moved = relay.add(relay.multiply(scores, node.like(slopes, scores)), node.like(starts, scores))
    pairs = relay.clip(relay.sigmoid(relay.negative(moved)), LEAST, 1 - LEAST)
    return relay.pairwise_coupling(pairs, classes)
