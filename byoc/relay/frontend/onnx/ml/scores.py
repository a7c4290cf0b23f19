"""What ai.onnx.ml does with scores: a function of each row, and the class that has the best.

Source: ``post_transform`` of LinearClassifier-1, TreeEnsembleClassifier-1/3/5 and their relatives; where the text
leaves it open, ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.runtime.core.container import object_vector

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")  # numbered so in TreeEnsemble-5
SMALL = 1e-7  # what SOFTMAX_ZERO takes for zero


def transformed(node: OnnxNode, scores: RelayExpr, name: str) -> RelayExpr:
    """*scores*, ``T[N, classes]``, by the transform *name*. Raises ImportModelError for one that there is not."""
    if name not in _FUNCTIONS:
        raise node.error(f"post_transform is one of {', '.join(TRANSFORMS)}, got {name!r}")
    return _FUNCTIONS[name](node, scores)


def _softmax_zero(node: OnnxNode, scores: RelayExpr) -> RelayExpr:
    """Softmax that leaves zeros out; of a row of zeros a half each."""
    best = relay.max(scores, axis=[1], keepdims=True)
    near = relay.less_equal(relay.abs(scores), node.like(SMALL, scores))
    small = relay.multiply(scores, relay.exp(relay.negative(best)))
    parts = relay.where(near, small, relay.exp(relay.subtract(scores, best)))
    total = relay.sum(parts, axis=[1], keepdims=True)
    none = relay.equal(total, node.like(0, scores))
    whole = relay.divide(parts, relay.where(none, relay.ones_like(total), total))
    return relay.where(none, relay.full_like(whole, node.like(0.5, scores)), whole)


def _probit(node: OnnxNode, scores: RelayExpr) -> RelayExpr:
    """sqrt(2) times the inverse error function of 2 x - 1, by Winitzki's approximation."""
    x = relay.subtract(relay.multiply(scores, node.like(2, scores)), node.like(1, scores))
    log = relay.log(relay.multiply(relay.subtract(node.like(1, x), x), relay.add(node.like(1, x), x)))
    v = relay.add(node.like(2 / (np.pi * 0.147), x), relay.multiply(log, node.like(0.5, x)))
    root = relay.sqrt(relay.subtract(relay.multiply(v, v), relay.multiply(log, node.like(1 / 0.147, x))))
    size = relay.sqrt(relay.subtract(root, v))
    return relay.multiply(
        relay.where(relay.less(x, node.like(0, x)), relay.negative(size), size), node.like(np.sqrt(2), x)
    )


_FUNCTIONS: dict[str, Callable[[OnnxNode, RelayExpr], RelayExpr]] = {
    "NONE": lambda node, scores: scores,
    "SOFTMAX": lambda node, scores: relay.nn.softmax(scores, axis=1),
    "LOGISTIC": lambda node, scores: relay.sigmoid(scores),
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}


def class_labels(node: OnnxNode, name: str) -> np.ndarray:
    """What classes are called: by strings, an array of objects, or by the integers of the attribute *name*.

    Raises ImportModelError where classes are not called at all.
    """
    texts = node.attrs.strings("classlabels_strings", [])
    if texts:
        return object_vector(texts)
    found = node.attrs.ints(name, [])
    if not found:
        raise node.error(f"the attribute {name!r} must name the classes")
    return np.array(found, "int64")


def best_label(scores: RelayExpr, labels: np.ndarray) -> RelayExpr:
    """int64[N] or string[N]: what the class with the greatest score is called, the first of equal ones."""
    return relay.take(constant(labels), relay.cast(relay.argmax(scores, axis=[1]), "int64"), axis=0)


def either_label(node: OnnxNode, score: RelayExpr, above: float, labels: np.ndarray) -> RelayExpr:
    """int64[N] or string[N]: the second label where *score*, ``T[N, 1]``, is above a number, else the first."""
    holds = relay.squeeze(relay.greater(score, node.like(above, score)), axis=[1])
    if labels.dtype == object:
        return relay.take(constant(labels), relay.cast(holds, "int64"), axis=0)
    return relay.where(holds, constant(labels[1]), constant(labels[0]))


def in_floats(node: OnnxNode, data: RelayExpr) -> RelayExpr:
    """*data* as ai.onnx.ml computes on it: float64 stays, all else is float32."""
    return data if node.dtype(data) in ("float32", "float64") else relay.cast(data, "float32")


def in_float32(node: OnnxNode, scores: RelayExpr) -> RelayExpr:
    """*scores* in the element type that ai.onnx.ml says they have."""
    return scores if node.dtype(scores) == "float32" else relay.cast(scores, "float32")


def rows_of(node: OnnxNode) -> RelayExpr:
    """The first input as rows of features in floats: one row where it is a vector."""
    data = in_floats(node, node[0])
    if node.rank(data) == 1:
        return relay.expand_dims(data, 0)
    if node.rank(data) != 2:
        raise node.error(f"takes rows of features, got {node.type_of(data)}")
    return data
