"""Features before a model. Source: Scaler-1, Normalizer-1, Imputer-1, Binarizer-1, OneHotEncoder-1, FeatureVectorizer-1
and ArrayFeatureExtractor-1 of ai.onnx.ml."""

from __future__ import annotations

import math

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.ml.scores import in_float32
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MACHINE_LEARNING, converter
from byoc.relay.op import strings
from byoc.runtime.core.container import object_vector


@converter("Scaler", domain=MACHINE_LEARNING)
def _scaler(node: OnnxNode) -> RelayExpr:
    """``(x - offset) scale`` in float32, for each feature or for all."""
    offset, scale = (np.array(node.attrs.floats(name), "float32") for name in ("offset", "scale"))
    features = node.shape(node[0])[-1] if node.rank(node[0]) else 1
    for name, numbers in (("offset", offset), ("scale", scale)):
        if len(numbers) != 1 and isinstance(features, int) and len(numbers) != features:
            raise node.error(f"{name} has {len(numbers)} numbers, expected one or {features}")
    return relay.multiply(relay.subtract(in_float32(node, node[0]), constant(offset)), constant(scale))


@converter("Normalizer", domain=MACHINE_LEARNING)
def _normalizer(node: OnnxNode) -> RelayExpr:
    """Each row through its norm in float32; a row of zeros stays as it is."""
    data, norm = in_float32(node, node[0]), node.attrs.string("norm", "MAX")
    axes, zero = [node.rank(data) - 1], node.like(0, data)
    if norm == "MAX":
        size = relay.max(data, axis=axes, keepdims=True)
    elif norm == "L1":
        size = relay.sum(relay.abs(data), axis=axes, keepdims=True)
    elif norm == "L2":
        size = relay.sqrt(relay.sum(relay.multiply(data, data), axis=axes, keepdims=True))
    else:
        raise node.error(f"norm is MAX, L1 or L2, got {norm!r}")
    return relay.divide(data, relay.where(relay.equal(size, zero), relay.ones_like(size), size))


@converter("Imputer", domain=MACHINE_LEARNING)
def _imputer(node: OnnxNode) -> RelayExpr:
    """What equals a number, or is NaN, replaced by another one, for each feature or for all."""
    whole = "int" in node.dtype(node[0])
    if whole:
        values, replaced = (
            np.array(node.attrs.ints("imputed_value_int64s")),
            float(node.attrs.int("replaced_value_int64", 0)),
        )
    else:
        values = np.array(node.attrs.floats("imputed_value_floats"))
        replaced = node.attrs.float("replaced_value_float", 0.0)
    features = node.shape(node[0])[-1]
    if len(values) != 1 and isinstance(features, int) and len(values) != features:
        raise node.error(f"there are {len(values)} values to impute, expected one or {features}")
    absent = relay.isnan(node[0]) if math.isnan(replaced) else relay.equal(node[0], _number(node, replaced))
    return relay.where(absent, node.like(values, node[0]), node[0])


def _number(node: OnnxNode, value: float) -> RelayExpr:
    return node.like(int(value) if "int" in node.dtype(node[0]) else value, node[0])


@converter("Binarizer", domain=MACHINE_LEARNING)
def _binarizer(node: OnnxNode) -> RelayExpr:
    """1 above the threshold, else 0, in the element type of the data."""
    above = relay.greater(node[0], node.like(node.attrs.float("threshold", 0.0), node[0]))
    return relay.cast(above, node.dtype(node[0]))


@converter("OneHotEncoder", domain=MACHINE_LEARNING)
def _one_hot_encoder(node: OnnxNode) -> RelayExpr:
    """``T[...] -> f32[..., categories]``; a value that is no category is all zeros, or an error of the run."""
    texts = node.attrs.strings("cats_strings", [])
    if (node.dtype(node[0]) == "string") != bool(texts):
        raise node.error(f"the data is {node.dtype(node[0])}, and so are no categories; the model is damaged")
    if texts:
        count = len(texts)
        place = strings.index_of(node[0], constant(object_vector(texts)))
        found = _is_category(place, np.arange(count))
    else:
        categories = np.array(node.attrs.ints("cats_int64s"), "int64")
        count = len(categories)
        found = _is_category(relay.cast(node[0], "int64"), categories)
    if not node.attrs.flag("zeros", True):
        if not texts:
            place = relay.cast(relay.argmax(relay.cast(found, "int32"), axis=[-1]), "int64")
            place = relay.where(relay.any(found, axis=[-1]), place, constant(count, "int64"))
        where = f"node {node.name} ({node.op_type}): a value is none of the {count} categories"
        place = relay.check_indices(place, [count], [node.rank(node[0])], where)
        found = _is_category(place, np.arange(count))
    return relay.cast(found, "float32")


def _is_category(values: RelayExpr, categories: np.ndarray) -> RelayExpr:
    return relay.equal(relay.expand_dims(values, -1), constant(categories))


@converter("FeatureVectorizer", domain=MACHINE_LEARNING)
def _feature_vectorizer(node: OnnxNode) -> RelayExpr:
    """The features of all inputs behind one another in float32, each cut or filled with zeros to its own number."""
    given = node.required_inputs()
    counts = node.attrs.ints("inputdimensions", [0] * len(given))
    if len(counts) != len(given):
        raise node.error(f"inputdimensions has {len(counts)} numbers, expected {len(given)}")
    parts = []
    for data, count in zip(given, counts, strict=True):
        rows = in_float32(node, data)
        rows = relay.expand_dims(rows, 1) if node.rank(rows) == 1 else rows
        (size,) = node.static_dims_of(rows, [1], "FeatureVectorizer")
        if size > count > 0:
            rows = relay.strided_slice(rows, begin=[0], end=[count], strides=[1], axes=[1])
        parts.append(relay.nn.pad(rows, [(0, 0), (0, count - size)]) if size < count else rows)
    return relay.concatenate(parts, axis=1)


@converter("ArrayFeatureExtractor", domain=MACHINE_LEARNING)
def _array_feature_extractor(node: OnnxNode) -> RelayExpr:
    """Elements of the last axis by position, ``T[..., F], int64[n] -> T[..., n]``; of a vector ``T[1, n]``."""
    data, axis = node[0], node.rank(node[0]) - 1
    size, where = node.shape(data)[axis], f"node {node.name} ({node.op_type})"
    places = relay.reshape(node[1], [-1])
    if isinstance(size, int):
        places = relay.check_indices(places, [size], [axis], where)
    else:
        places = relay.check_indices_like(places, data, [axis], where)
    taken = relay.take(data, places, axis=axis)
    return relay.expand_dims(taken, 0) if axis == 0 else taken
