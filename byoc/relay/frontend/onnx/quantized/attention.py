"""Attention as ONNX Runtime's tools fuse it, of floats and of bytes. Source: ONNX Runtime's Attention-1, QAttention-1.

One product makes queries, keys and values; the rest is in float32. What a mask leaves out has a number added to its
score, so that a query whose keys are all left out takes their mean; later keys (``unidirectional``) count for nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.types import Any
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.converters.linear import matrix_product
from byoc.relay.frontend.onnx.dims import matched, reshaped
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.quantized.products import product_in_floats
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter

LOWEST = float(np.finfo(np.float32).min)  # the score of a later key


@dataclass(frozen=True)
class _Heads:
    """Queries, keys and values ``[B, heads, S, size]``, the keys and values behind those of the past."""

    query: RelayExpr
    key: RelayExpr
    value: RelayExpr


@converter("QAttention", domain=MICROSOFT)
def _quantised_attention(node: OnnxNode) -> list[RelayExpr]:
    """Inputs: data and weights in bytes, bias, the two scales, mask, the two zero points, past."""
    projected = relay.add(product_in_floats(node, (0, 3, 6), (1, 4, 7)), node[2])
    return _attention(node, projected, mask=5, past=8)


@converter("Attention", domain=MICROSOFT)
def _fused_attention(node: OnnxNode) -> list[RelayExpr]:
    """Inputs: data, weights, bias, mask, past, what is added to the scores. Other inputs are refused."""
    if node.optional(6) is not None:
        raise node.error("a past of a length that is given (past_sequence_length) is not supported")
    projected = matrix_product(node, node[0], node[1])
    bias = node.optional(2)
    return _attention(node, projected if bias is None else relay.add(projected, bias), mask=3, past=4, added=5)


def _attention(node: OnnxNode, projected: RelayExpr, mask: int, past: int, added: int | None = None) -> list[RelayExpr]:
    """The result ``[B, S, hidden]`` and the keys and values ``[2, B, heads, past + S, size]`` of ``[B, S, 3 hidden]``.

    *mask*, *past* and *added* are the places of optional inputs. Raises ImportModelError for what is not supported.
    """
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.attrs.flag(name):
            raise node.error(f"{name} is not supported: export the model without")
    heads = _heads(node, projected, node.optional(past))
    size = node.static_dims_of(heads.query, [3], "attention")[0]
    scale = node.attrs.float("scale", 0.0) or 1 / math.sqrt(size)
    turned = relay.transpose(heads.key, axes=[0, 1, 3, 2])
    scores = relay.multiply(matrix_product(node, heads.query, turned), node.like(scale, heads.query))
    bias = None if added is None else node.optional(added)
    for term in (_mask(node, scores, node.optional(mask)), bias):
        scores = scores if term is None else relay.add(scores, term)
    if node.attrs.flag("unidirectional"):
        scores = relay.where(_up_to_own(node, scores), scores, node.like(LOWEST, scores))
    mixed = matrix_product(node, relay.nn.softmax(scores, axis=-1), heads.value)
    batch, length = node.shape(projected)[:2]
    turned = relay.transpose(mixed, axes=[0, 2, 1, 3])
    width = math.prod(node.static_dims_of(mixed, [1, 3], "attention"))
    made = reshaped(node, turned, [batch, length, width], (projected,))
    return [made, relay.stack([heads.key, heads.value], axis=0)] if node.has_output(1) else [made]


def _heads(node: OnnxNode, projected: RelayExpr, past: RelayExpr | None) -> _Heads:
    if node.rank(projected) != 3:
        raise node.error(f"the data have three dimensions, got {node.type_of(projected)}")
    batch, length = node.shape(projected)[:2]
    (whole,), count = node.static_dims_of(projected, [2], "attention"), node.attrs.int("num_heads")
    sizes = node.attrs.ints("qkv_hidden_sizes", [whole // 3] * 3)
    if len(sizes) != 3 or sum(sizes) != whole or count < 1 or any(s % count for s in sizes) or sizes[0] != sizes[1]:
        raise node.error(f"{whole} columns of queries, keys and values are no {count} heads of sizes {sizes}")
    split = relay.split(projected, [sizes[0], 2 * sizes[0]], axis=2)
    parts = [
        relay.transpose(reshaped(node, split[k], [batch, length, count, sizes[k] // count]), axes=[0, 2, 1, 3])
        for k in range(3)
    ]
    if past is not None:
        for k in (1, 2):
            before = relay.take(past, constant(k - 1, "int64"), axis=0)
            parts[k] = relay.concatenate([before, parts[k]], axis=2)
    return _Heads(*parts)


def _filter(node: OnnxNode, kept: RelayExpr, scores: RelayExpr) -> RelayExpr:
    """0 where *kept*, else what the node says that masks."""
    masked = node.like(node.attrs.float("mask_filter_value", -10000.0), scores)
    return relay.where(kept, node.like(0, scores), masked)


def _size(node: OnnxNode, scores: RelayExpr, axis: int) -> RelayExpr:
    """How many numbers lie along an axis of *scores*: an int32, a constant where it is known."""
    dim = node.shape(scores)[axis]
    if not isinstance(dim, Any):
        return constant(dim, "int32")
    return relay.cast(relay.take(relay.shape_of(scores, "int64"), constant(axis, "int64"), axis=0), "int32")


def _places(node: OnnxNode, scores: RelayExpr, axis: int) -> RelayExpr:
    """The numbers from 0 along an axis of *scores*, as int32."""
    numbers = relay.arange(constant(0, "int32"), _size(node, scores, axis), constant(1, "int32"), "int32")
    return matched(node, numbers, [node.shape(scores)[axis]])


def _mask(node: OnnxNode, scores: RelayExpr, mask: RelayExpr | None) -> RelayExpr | None:
    """What is added for a mask: ``[B, T]`` or ``[B, S, T]`` of which 0 masks, or ends ``[B]``, or ends and starts."""
    if mask is None:
        return None
    zero = constant(0, node.dtype(mask))
    if node.rank(mask) in (2, 3):
        kept = relay.greater(mask, zero)
        return _filter(node, relay.expand_dims(kept, 1, 4 - node.rank(mask)), scores)
    batch, (count,) = node.shape(scores)[0], node.shape(mask) if node.rank(mask) == 1 else (None,)
    if isinstance(batch, Any) or count not in (batch, 2 * batch):
        raise node.error(f"a mask of type {node.type_of(mask)} is not supported for scores {node.type_of(scores)}")
    places = relay.cast(_places(node, scores, 3), node.dtype(mask))
    ends = relay.strided_slice(mask, begin=[0], end=[batch], strides=[1])
    kept = relay.less(places, relay.reshape(ends, [-1, 1, 1, 1]))
    if count != batch:
        starts = relay.strided_slice(mask, begin=[batch], end=[2 * batch], strides=[1])
        kept = relay.logical_and(kept, relay.greater_equal(places, relay.reshape(starts, [-1, 1, 1, 1])))
    return _filter(node, kept, scores)


def _up_to_own(node: OnnxNode, scores: RelayExpr) -> RelayExpr:
    """Where a query sees a key: up to its own place, behind those of the past. bool[S, T]."""
    before = node.fold(relay.subtract(_size(node, scores, 3), _size(node, scores, 2)))
    own = relay.add(_places(node, scores, 2), before)
    return relay.less_equal(_places(node, scores, 3), relay.reshape(own, [-1, 1]))
