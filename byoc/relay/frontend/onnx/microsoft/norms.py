"""Normalisations of rows that ONNX Runtime's optimiser and its model builder write.

Source: ONNX Runtime's SimplifiedLayerNormalization-1 (which it has in ONNX's own domain), and of com.microsoft
SkipLayerNormalization-1, SkipSimplifiedLayerNormalization-1, EmbedLayerNormalization-1, GatedRMSNorm-1.
"""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.converters.normalization import layer_norm
from byoc.relay.frontend.onnx.dims import reshaped
from byoc.relay.frontend.onnx.microsoft.heads import places_along
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter


def _root_mean_square_norm(
    node: OnnxNode, data: RelayExpr, scale: RelayExpr, axis: int, epsilon: float
) -> list[RelayExpr]:
    """*data* over the root of the mean of its squares from *axis* on, times *scale*; and one over that root.

    Squares are summed in float32 at least.
    """
    dtype = node.dtype(data)
    wide = data if dtype in ("float32", "float64") else relay.cast(data, "float32")
    squares = relay.mean(relay.multiply(wide, wide), axis=list(range(axis, node.rank(data))), keepdims=True)
    inverse = relay.divide(node.like(1, wide), relay.sqrt(relay.add(squares, node.like(epsilon, wide))))
    normalised = relay.multiply(wide, inverse)
    if wide is not data:
        normalised = relay.cast(normalised, dtype)
    return [relay.multiply(normalised, _as(node, scale, dtype)), inverse]


def _as(node: OnnxNode, value: RelayExpr, dtype: str) -> RelayExpr:
    return value if node.dtype(value) == dtype else relay.cast(value, dtype)


@converter("SimplifiedLayerNormalization")
@converter("SimplifiedLayerNormalization", domain=MICROSOFT)
def _simplified_layer_norm(node: OnnxNode) -> list[RelayExpr]:
    """Inputs: the data and a scale; outputs: rows in the scale's type, one over their root mean squares."""
    axis = node.axis(node.attrs.int("axis", -1), node.rank(node[0]))
    rows, inverse = _root_mean_square_norm(node, node[0], node[1], axis, node.attrs.float("epsilon", 1e-5))
    return [_as(node, rows, node.dtype(node[1])), inverse][: len(node.outputs)]


def _sum(node: OnnxNode, bias: int) -> RelayExpr:
    """``input + skip + bias``, the bias being the input at that place."""
    total = relay.add(node[0], node[1])
    return total if node.optional(bias) is None else relay.add(total, node[bias])


@converter("SkipLayerNormalization", domain=MICROSOFT)
def _skip_layer_norm(node: OnnxNode) -> list[RelayExpr]:
    """Of ``input + skip + bias``: normalised rows, their mean and inverse deviation, and the sum itself."""
    total = _sum(node, 4)
    statistics = any(node.has_output(k) for k in (1, 2))
    axis = node.rank(total) - 1
    rows = layer_norm(node, total, node[2], node.optional(3), axis, node.attrs.float("epsilon", 1e-12), statistics)
    return [*rows, *[total] * (3 - len(rows)), total][: len(node.outputs)]


@converter("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip_simplified_layer_norm(node: OnnxNode) -> list[RelayExpr]:
    """As SkipLayerNormalization, by the root of the mean of squares. Means are not computed, as in ONNX Runtime."""
    if node.has_output(1):
        raise node.error("the mean (output 1) is not computed by this operator; leave the output out")
    total = _sum(node, 3)
    rows, inverse = _root_mean_square_norm(
        node, total, node[2], node.rank(total) - 1, node.attrs.float("epsilon", 1e-12)
    )
    return [rows, rows, inverse, total][: len(node.outputs)]


@converter("EmbedLayerNormalization", domain=MICROSOFT)
def _embed_layer_norm(node: OnnxNode) -> list[RelayExpr]:
    """Sums of looked up words, positions and segments, normalised: f[B, S, H]; where masks end, i32[B]; the sums.

    Inputs: words and segments i32[B, S], the tables of words, positions and segments, scale, shift, mask, positions.
    """
    words = node[0]
    positions = node.optional(8)
    if positions is None:
        positions = relay.expand_dims(places_along(node, words, 1), 0)
    total = relay.add(_looked_up(node, 2, words, "word"), _looked_up(node, 3, positions, "position"))
    if node.optional(1) is not None:
        total = relay.add(total, _looked_up(node, 4, node[1], "segment"))
    rows = layer_norm(node, total, node[5], node[6], 2, node.attrs.float("epsilon", 1e-12), False)[0]
    return [rows, _mask_ends(node, words, node.optional(7)), total][: len(node.outputs)]


def _looked_up(node: OnnxNode, table: int, places: RelayExpr, what: str) -> RelayExpr:
    """The rows of a table at *places*, each of which is a *what*, as the error of one outside states it."""
    name = f"node {node.name} ({node.op_type}), {what}"
    return relay.take(node[table], relay.check_indices_like(places, node[table], [0], name), axis=0)


def _mask_ends(node: OnnxNode, words: RelayExpr, mask: RelayExpr | None) -> RelayExpr:
    """How many ones each row of a mask has, as int32; 0 without a mask."""
    counted = mask if mask is not None else relay.zeros_like(words)
    ones = relay.equal(counted, constant(1, node.dtype(counted)))
    return relay.sum(relay.cast(ones, "int32"), axis=[1])


@converter("GatedRMSNorm", domain=MICROSOFT)
def _gated_norm(node: OnnxNode) -> RelayExpr:
    """Rows over their root mean squares, in groups as long as the scale, times the scale and an activated gate."""
    data, scale, gate = (_as(node, node[k], "float32") for k in range(3))
    (size,), shape = node.static_dims_of(scale, [0], "a scale"), node.shape(data)
    (width,) = node.static_dims_of(data, [len(shape) - 1], "GatedRMSNorm")
    if not size or width % size:
        raise node.error(f"rows of {width} cannot be divided into groups of {size}")
    groups = reshaped(node, data, [*shape[:-1], width // size, size])
    rows = _root_mean_square_norm(node, groups, scale, len(shape), node.attrs.float("epsilon", 1e-5))[0]
    how = node.attrs.string("activation", "silu")
    if how not in ("silu", "swish", "sigmoid"):
        raise node.error(f"activation is silu, swish or sigmoid, got {how!r}")
    opened = relay.sigmoid(gate)
    opened = opened if how == "sigmoid" else relay.multiply(gate, opened)
    made = relay.multiply(reshaped(node, rows, [*shape[:-1], width], (data,)), opened)
    return _as(node, made, node.dtype(node[0]))
