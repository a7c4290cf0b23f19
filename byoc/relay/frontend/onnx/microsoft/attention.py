"""Attention over queries, keys and values that are given. Source: ONNX Runtime's MultiHeadAttention-1 and
DecoderMaskedMultiHeadAttention-1 (opset com.microsoft).

Queries f[B, S, N h], keys f[B, T, N h], values f[B, T, N v]; or packed, queries with keys and values f[B, S, N, 3, h]
or keys with values f[B, T, N, 2, h]; or keys and values by heads, f[B, N, T, h], which are complete.
"""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.microsoft.heads import (
    Heads,
    ScoreTerms,
    attend,
    places_along,
    size_along,
    split_heads,
    up_to_own,
)
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter


@converter("MultiHeadAttention", domain=MICROSOFT)
def _multi_head_attention(node: OnnxNode) -> list[RelayExpr]:
    """Outputs: rows f[B, S, N v], keys and values of past and present, the weights of the values."""
    for place, what in ((8, "a past of a given length"), (9, "an order of beams")):
        if node.optional(place) is not None:
            raise node.error(f"{what} (input {place}) is not supported: export the model with a past that grows")
    heads, is_complete = _given_heads(node, node.optional(3))
    before: RelayExpr = constant(0, "int32")
    if node.optional(6) is not None and not is_complete:
        before = size_along(node, node[6], 2)
        heads = _behind(heads, node[6], node[7])
    seen = up_to_own(node, heads, before) if node.attrs.flag("unidirectional") else None
    mixed = attend(node, heads, ScoreTerms(node.optional(4), node.optional(5)), seen, node[0])
    return [mixed.rows, heads.key, heads.value, mixed.weights][: len(node.outputs)]


@converter("DecoderMaskedMultiHeadAttention", domain=MICROSOFT)
def _decoder_attention(node: OnnxNode) -> list[RelayExpr]:
    """One query for each sequence; its key and value are written into the past, or stand behind it.

    Where past and present are one buffer (``past_present_share_buffer``), input 7 says where the new ones go.
    Outputs as of MultiHeadAttention.
    """
    if node.optional(9) is not None:
        raise node.error("an order of beams (input 9) is not supported: export the model without beam search")
    heads, is_complete = _given_heads(node, node.optional(10))
    terms, seen = ScoreTerms(node.optional(3), node.optional(4)), None
    if node.optional(5) is not None and not is_complete:
        if node.attrs.flag("past_present_share_buffer"):
            place = relay.reshape(relay.cast(node[7], "int32"), [])
            places = places_along(node, node[5], 2)
            key, value = (_written(node, b, n, place) for b, n in ((node[5], heads.key), (node[6], heads.value)))
            heads = Heads(heads.query, key, value)
            seen = relay.reshape(relay.less_equal(places, place), [1, -1])
            columns = relay.minimum(places, place)  # what stands behind the last key is not read
            terms = ScoreTerms(*(_at(term, columns) for term in (terms.mask, terms.bias)))
        else:
            heads = _behind(heads, node[5], node[6])
    mixed = attend(node, heads, terms, seen, node[0])
    return [mixed.rows, heads.key, heads.value, mixed.weights][: len(node.outputs)]


def _behind(heads: Heads, key: RelayExpr, value: RelayExpr) -> Heads:
    """The heads with the keys and values of a past before them."""
    keys, values = relay.concatenate([key, heads.key], axis=2), relay.concatenate([value, heads.value], axis=2)
    return Heads(heads.query, keys, values)


def _written(node: OnnxNode, buffer: RelayExpr, new: RelayExpr, place: RelayExpr) -> RelayExpr:
    """f[B, N, M, h] with the one row of f[B, N, 1, h] at *place*."""
    rows = relay.reshape(relay.equal(places_along(node, buffer, 2), place), [-1, 1])
    return relay.where(rows, new, buffer)


def _at(term: RelayExpr | None, columns: RelayExpr) -> RelayExpr | None:
    return None if term is None else relay.take(term, columns, axis=-1)


def _given_heads(node: OnnxNode, bias: RelayExpr | None) -> tuple[Heads, bool]:
    """Queries, keys and values with their bias, and whether the keys are complete without a past."""
    count, query = node.attrs.int("num_heads"), node[0]
    if node.rank(query) == 5:
        return Heads(*_unpacked(node, query, 3)), False
    key = node.optional(1)
    if key is None:
        (width,) = node.static_dims_of(query, [2], "packed queries, keys and values")
        parts = relay.split(query if bias is None else relay.add(query, bias), 3, axis=2)
        if width % 3:
            raise node.error(f"{width} columns cannot be divided into queries, keys and values")
        return Heads(*(split_heads(node, parts[k], count) for k in range(3))), False
    (width,) = node.static_dims_of(query, [2], "attention")
    begins = (0, width, 2 * width)
    shifts = [
        None if bias is None else _part(bias, begin, begin + width if k < 2 else None) for k, begin in enumerate(begins)
    ]
    queries = split_heads(node, _shifted(query, shifts[0]), count)
    if node.rank(key) == 5:
        return Heads(queries, *_unpacked(node, key, 2)), False
    if node.rank(key) == 4:
        return Heads(queries, key, node[2]), True
    keys, values = (split_heads(node, _shifted(node[k], shifts[k]), count) for k in (1, 2))
    return Heads(queries, keys, values), False


def _shifted(data: RelayExpr, shift: RelayExpr | None) -> RelayExpr:
    return data if shift is None else relay.add(data, shift)


def _part(data: RelayExpr, begin: int, end: int | None) -> RelayExpr:
    last = end if end is not None else 2**31 - 1
    return relay.strided_slice(data, begin=[begin], end=[last], strides=[1], axes=[0])


def _unpacked(node: OnnxNode, data: RelayExpr, count: int) -> list[RelayExpr]:
    """f[B, S, N, count, h] -> *count* of f[B, N, S, h]."""
    if node.shape(data)[3] != count:
        raise node.error(f"{count} tensors are packed along axis 3, got {node.type_of(data)}")
    return [relay.transpose(relay.take(data, constant(k, "int64"), axis=3), axes=[0, 2, 1, 3]) for k in range(count)]
