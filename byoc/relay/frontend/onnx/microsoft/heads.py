"""What the attention operators of ONNX Runtime share: heads, the places of queries and keys, masks, the mixing itself.

What a mask leaves out has a number added to its score, so that a query whose keys are all left out takes their mean;
later keys count for nothing. Notation: B batches, N heads, S queries, T keys, h numbers of a head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.types import Any, Dim
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.converters.linear import matrix_product
from byoc.relay.frontend.onnx.dims import matched, reshaped
from byoc.relay.frontend.onnx.node import OnnxNode

LOWEST = float(np.finfo(np.float32).min)  # the score of a later key


@dataclass(frozen=True)
class Heads:
    """Queries f[B, N, S, h], keys f[B, N, T, h] and values f[B, N, T, v], those of the past before the others."""

    query: RelayExpr
    key: RelayExpr
    value: RelayExpr


@dataclass(frozen=True)
class Mixed:
    """What attention makes: rows f[B, S, N v], and the scores f[B, N, S, T] before and after the softmax."""

    rows: RelayExpr
    scores: RelayExpr
    weights: RelayExpr


def split_heads(node: OnnxNode, data: RelayExpr, count: int) -> RelayExpr:
    """f[B, S, N h] -> f[B, N, S, h] for *count* heads. Raises ImportModelError where they do not fit."""
    if node.rank(data) != 3:
        raise node.error(f"queries, keys and values have three dimensions, got {node.type_of(data)}")
    (width,) = node.static_dims_of(data, [2], "attention")
    if count < 1 or width % count:
        raise node.error(f"{width} columns cannot be divided into {count} heads")
    batch, length = node.shape(data)[:2]
    return relay.transpose(reshaped(node, data, [batch, length, count, width // count]), axes=[0, 2, 1, 3])


def merge_heads(node: OnnxNode, data: RelayExpr, like: RelayExpr) -> RelayExpr:
    """f[B, N, S, h] -> f[B, S, N h], with batches and rows as many as *like* has."""
    batch, length = node.shape(like)[:2]
    width = math.prod(node.static_dims_of(data, [1, 3], "attention"))
    return reshaped(node, relay.transpose(data, axes=[0, 2, 1, 3]), [batch, length, width], (like,))


@dataclass(frozen=True)
class ScoreTerms:
    """What is added to scores f[B, N, S, T]: a mask (see `mask_term`) and a bias, which is broadcast to them."""

    mask: RelayExpr | None = None
    bias: RelayExpr | None = None


def attend(node: OnnxNode, heads: Heads, terms: ScoreTerms, seen: RelayExpr | None, like: RelayExpr) -> Mixed:
    """Attention with the node's ``scale``; keys that are not *seen*, bool[..., S, T], count for nothing.

    The rows have the leading sizes of *like*, f[B, S, ...].
    """
    scores = scaled_scores(node, heads)
    sizes = node.shape(scores)
    for term in (mask_term(node, scores, terms.mask), terms.bias):  # which are broadcast, whatever is known of them
        scores = scores if term is None else matched(node, relay.add(scores, term), sizes)
    if seen is not None:
        scores = relay.where(seen, scores, node.like(LOWEST, scores))
    weights = relay.nn.softmax(scores, axis=-1)
    return Mixed(merge_heads(node, matrix_product(node, weights, heads.value), like), scores, weights)


def scaled_scores(node: OnnxNode, heads: Heads) -> RelayExpr:
    """Products of queries and keys, f[B, N, S, T], times the node's ``scale`` or one over the root of h."""
    size = node.static_dims_of(heads.query, [3], "attention")[0]
    scale = node.attrs.float("scale", 0.0) or 1 / math.sqrt(size)
    turned = relay.transpose(heads.key, axes=[0, 1, 3, 2])
    return relay.multiply(matrix_product(node, heads.query, turned), node.like(scale, heads.query))


def size_along(node: OnnxNode, data: RelayExpr, axis: int) -> RelayExpr:
    """How many numbers lie along an axis of *data*: an int32, a constant where it is known."""
    dim = node.shape(data)[axis]
    if not isinstance(dim, Any):
        return constant(dim, "int32")
    return relay.cast(relay.take(relay.shape_of(data, "int64"), constant(axis, "int64"), axis=0), "int32")


def places_along(node: OnnxNode, data: RelayExpr, axis: int) -> RelayExpr:
    """The numbers from 0 along an axis of *data*, as int32."""
    return numbers_below(node, size_along(node, data, axis), node.shape(data)[axis])


def numbers_below(node: OnnxNode, end: RelayExpr, size: Dim) -> RelayExpr:
    """The numbers from 0 to below *end*, of which there are *size*, as int32."""
    numbers = relay.arange(constant(0, "int32"), end, constant(1, "int32"), "int32")
    return matched(node, numbers, [size])


def filtered(node: OnnxNode, kept: RelayExpr, scores: RelayExpr) -> RelayExpr:
    """0 where *kept*, else what the node says that masks."""
    masked = node.like(node.attrs.float("mask_filter_value", -10000.0), scores)
    return relay.where(kept, node.like(0, scores), masked)


def mask_term(node: OnnxNode, scores: RelayExpr, mask: RelayExpr | None) -> RelayExpr | None:
    """What is added for a mask: ``[B, T]`` or ``[B, S, T]`` of which 0 masks, or ends ``[B]``, or ends and starts.

    *scores* has the type of what the mask is added to. Raises ImportModelError for other masks.
    """
    if mask is None:
        return None
    zero = constant(0, node.dtype(mask))
    if node.rank(mask) in (2, 3):
        kept = relay.greater(mask, zero)
        return filtered(node, relay.expand_dims(kept, 1, 4 - node.rank(mask)), scores)
    batch, (count,) = node.shape(scores)[0], node.shape(mask) if node.rank(mask) == 1 else (None,)
    if count != batch and (isinstance(batch, Any) or count != 2 * batch):
        raise node.error(f"a mask of type {node.type_of(mask)} is not supported for scores {node.type_of(scores)}")
    places = relay.cast(places_along(node, scores, 3), node.dtype(mask))
    if count == batch:
        return filtered(node, relay.less(places, relay.reshape(mask, [-1, 1, 1, 1])), scores)
    ends, starts = (relay.reshape(relay.split(mask, 2, axis=0)[k], [-1, 1, 1, 1]) for k in (0, 1))
    kept = relay.logical_and(relay.less(places, ends), relay.greater_equal(places, starts))
    return filtered(node, kept, scores)


def up_to_own(node: OnnxNode, heads: Heads, before: RelayExpr) -> RelayExpr:
    """Where a query sees a key: up to its own place, behind *before* (an int32) keys of the past. bool[S, T]."""
    own = relay.add(places_along(node, heads.query, 2), before)
    return relay.less_equal(places_along(node, heads.key, 2), relay.reshape(own, [-1, 1]))
