"""Linear models. Source: LinearRegressor-1 and LinearClassifier-1 of ai.onnx.ml."""

from __future__ import annotations

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.ml.scores import (
    best_label,
    class_labels,
    either_label,
    in_float32,
    rows_of,
    transformed,
)
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MACHINE_LEARNING, converter


def _scores(node: OnnxNode, targets: int) -> RelayExpr:
    """``T[N, targets]``: the rows times the coefficients ``[targets, features]``, plus the intercepts."""
    data, coefficients = rows_of(node), np.array(node.attrs.floats("coefficients"))
    features, intercepts = node.shape(data)[1], np.array(node.attrs.floats("intercepts", []))
    if (
        targets < 1
        or coefficients.size % targets
        or (isinstance(features, int) and coefficients.size != targets * features)
    ):
        raise node.error(
            f"coefficients has {coefficients.size} numbers, expected {targets} for each feature of {node.type_of(data)}"
        )
    if len(intercepts) not in (0, targets):
        raise node.error(f"intercepts has {len(intercepts)} numbers, expected {targets} or none")
    product = relay.nn.dense(data, node.like(coefficients.reshape(targets, -1), data))
    return relay.nn.bias_add(product, node.like(intercepts, product), axis=-1) if len(intercepts) else product


@converter("LinearRegressor", domain=MACHINE_LEARNING)
def _regressor(node: OnnxNode) -> RelayExpr:
    scores = _scores(node, node.attrs.int("targets", 1))
    return in_float32(node, transformed(node, scores, node.attrs.string("post_transform", "NONE")))


@converter("LinearClassifier", domain=MACHINE_LEARNING)
def _classifier(node: OnnxNode) -> list[RelayExpr]:
    """``[N, features] -> int64[N], f32[N, classes]``.

    One score of two classes is that of the second, which it chooses above 0; the other is what is missing to 1, or with
    LOGISTIC its opposite, as in ONNX Runtime.
    """
    labels, name = class_labels(node, "classlabels_ints"), node.attrs.string("post_transform", "NONE")
    count = len(node.attrs.floats("intercepts", [])) or len(labels)
    scores = _scores(node, count)
    if count == 1 and len(labels) == 2:
        other = relay.negative(scores)
        if name != "LOGISTIC":
            other = relay.add(other, node.like(1, scores))
        both = relay.concatenate([other, scores], axis=1)
        label = either_label(node, scores, 0.0, labels)
        return [label, in_float32(node, transformed(node, both, name if name in ("LOGISTIC", "PROBIT") else "NONE"))]
    if count != len(labels) or count < 2:
        raise node.error(f"has scores of {count} classes and names for {len(labels)}; the model is damaged")
    return [best_label(scores, labels), in_float32(node, transformed(node, scores, name))]
