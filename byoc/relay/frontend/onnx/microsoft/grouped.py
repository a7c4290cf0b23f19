"""Attention with fewer heads of keys than of queries, over a cache. Source: ONNX Runtime's GroupQueryAttention-1.

Sequence b has ``seqlens_k[b] + 1`` tokens behind this step, of which the last ones are new; those before stand in the
first rows of the past. So that nothing depends on how many that are, all rows of the past and the new ones are keys,
and their places say who sees whom. The present has as many rows as the longest sequence, or as the past where that is
longer: what stood there, then what is new, then zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.types import Any, Dim
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.converters.linear import matrix_product
from byoc.relay.frontend.onnx.dims import matched, reshaped
from byoc.relay.frontend.onnx.microsoft.heads import (
    LOWEST,
    Heads,
    merge_heads,
    numbers_below,
    places_along,
    scaled_scores,
    size_along,
    split_heads,
)
from byoc.relay.frontend.onnx.microsoft.rotary import RotaryTables, range_of_positions, rotated
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter

_REFUSED = {12: "k_scale", 13: "v_scale", 14: "q_norm_weight", 15: "k_norm_weight"}


@dataclass(frozen=True)
class _Tokens:
    """Of each sequence, i32[B]: how many tokens it has, and how many of them it had before."""

    total: RelayExpr
    before: RelayExpr


@dataclass(frozen=True)
class _Keys:
    """Keys and values f[B, n, T, h], the place of each in its sequence i32[B, T], and whether it is one: bool[B, T]."""

    key: RelayExpr
    value: RelayExpr
    place: RelayExpr
    real: RelayExpr


@converter("GroupQueryAttention", domain=MICROSOFT)
def _group_query_attention(node: OnnxNode) -> list[RelayExpr]:
    """Outputs: rows f[B, S, N h], the present keys and values f[B, n, L, h], the scores or their softmax."""
    _check(node)
    query, key, value = _new_heads(node)
    tokens = _tokens(node, query)
    if node.attrs.flag("do_rotary"):
        tables = RotaryTables(node[7], node[8], node.attrs.flag("rotary_interleaved"))
        positions = node.optional(9)
        if positions is None:
            positions = range_of_positions(node, query, tokens.before)
        query, key = (rotated(node, data, positions, tables) for data in (query, key))
    past = None if node.optional(3) is None else (node[3], node[4])
    every = _with_past(node, past, (key, value))
    length = _present_length(node, past)
    present = _present(node, every, past, tokens, length) if any(map(node.has_output, (1, 2))) else every
    bias = node.optional(10)
    if bias is None:
        keys = _as_they_stand(node, every, past, tokens)
    else:  # whose columns are places
        stored = _present(node, every, past, tokens, length)
        places = places_along(node, stored[0], 2)
        real = relay.less(relay.expand_dims(places, 0), relay.expand_dims(tokens.total, 1))
        keys = _Keys(*stored, relay.expand_dims(places, 0), real)
    rows, scores = _attended(node, query, keys, tokens, bias)
    return [rows, *present, scores][: len(node.outputs)]


def _check(node: OnnxNode) -> None:
    """Raises ImportModelError for what only some devices of ONNX Runtime compute, and for heads that do not fit."""
    for place, name in _REFUSED.items():
        if node.optional(place) is not None:
            raise node.error(f"{name} (input {place}) is not supported: export the model with a cache in floats")
    if node.attrs.flag("sliding_window_cache"):
        raise node.error("a cache that holds a window alone (sliding_window_cache) is not supported")
    heads, shared = node.attrs.int("num_heads"), node.attrs.int("kv_num_heads")
    if shared < 1 or heads < 1 or heads % shared:
        raise node.error(f"{heads} heads of queries cannot share {shared} heads of keys")


def _new_heads(node: OnnxNode) -> tuple[RelayExpr, RelayExpr, RelayExpr]:
    """Queries f[B, N, S, h], keys and values f[B, n, S, h]."""
    heads, shared = node.attrs.int("num_heads"), node.attrs.int("kv_num_heads")
    if node.optional(1) is not None:
        return split_heads(node, node[0], heads), split_heads(node, node[1], shared), split_heads(node, node[2], shared)
    (width,) = node.static_dims_of(node[0], [2], "packed queries, keys and values")
    if width % (heads + 2 * shared):
        raise node.error(f"{width} columns cannot be divided into {heads} and twice {shared} heads")
    size = width // (heads + 2 * shared)
    parts = relay.split(node[0], [heads * size, (heads + shared) * size], axis=2)
    query, key, value = (split_heads(node, parts[k], count) for k, count in enumerate((heads, shared, shared)))
    return query, key, value


def _tokens(node: OnnxNode, query: RelayExpr) -> _Tokens:
    total = relay.add(relay.reshape(relay.cast(node[5], "int32"), [-1]), constant(1, "int32"))
    new = node.optional(16)
    count = size_along(node, query, 2) if new is None else relay.cast(new, "int32")
    return _Tokens(total, relay.maximum(relay.subtract(total, count), constant(0, "int32")))


Pair = tuple[RelayExpr, RelayExpr]


def _with_past(node: OnnxNode, past: Pair | None, new: Pair) -> Pair:
    if past is None:
        return new
    key, value = (relay.concatenate([old, made], axis=2) for old, made in zip(past, new, strict=True))
    return key, value


def _as_they_stand(node: OnnxNode, every: Pair, past: Pair | None, tokens: _Tokens) -> _Keys:
    columns = relay.expand_dims(places_along(node, every[0], 2), 0)
    before = relay.expand_dims(tokens.before, 1)
    size = constant(0, "int32") if past is None else size_along(node, past[0], 2)
    is_new = relay.greater_equal(columns, size)
    place = relay.where(is_new, relay.add(relay.subtract(columns, size), before), columns)
    real = relay.less(place, relay.where(is_new, relay.expand_dims(tokens.total, 1), before))
    return _Keys(*every, place, real)


def _present_length(node: OnnxNode, past: Pair | None) -> tuple[RelayExpr, Dim]:
    """How many rows the present has, as an int32 and as far as it is known."""
    total = relay.reshape(relay.cast(node[6], "int32"), [])
    known = (node.services.dims(node[6]) or (None,))[0]
    if past is None:
        return total, Any() if known is None else known
    stored = node.shape(past[0])[2]
    size: Dim = Any()
    if isinstance(known, int) and isinstance(stored, int):
        size = max(known, stored)
    elif known == stored or stored == 0:
        size = Any() if known is None else known
    return node.fold(relay.maximum(total, size_along(node, past[0], 2))), size


def _present(node: OnnxNode, every: Pair, past: Pair | None, tokens: _Tokens, length: tuple[RelayExpr, Dim]) -> Pair:
    """The rows of each sequence in the order of their places, then zeros."""
    places = relay.expand_dims(numbers_below(node, *length), 0)
    before, total = relay.expand_dims(tokens.before, 1), relay.expand_dims(tokens.total, 1)
    size = constant(0, "int32") if past is None else size_along(node, past[0], 2)
    moved = relay.add(relay.subtract(places, before), size)
    last = relay.subtract(size_along(node, every[0], 2), constant(1, "int32"))
    source = relay.minimum(relay.where(relay.less(places, before), places, moved), last)
    kept = relay.expand_dims(relay.expand_dims(relay.less(places, total), 1), 3)
    made = [relay.where(kept, _rows_at(node, data, source), node.like(0, data)) for data in every]
    return made[0], made[1]


def _rows_at(node: OnnxNode, data: RelayExpr, places: RelayExpr) -> RelayExpr:
    """The rows of f[B, n, T, h] at the places i32[B, L] of each sequence: f[B, n, L, h]."""
    rows = relay.take(relay.transpose(data, axes=[0, 2, 1, 3]), places, axis=1, batch_dims=1)
    return relay.transpose(rows, axes=[0, 2, 1, 3])


def _attended(
    node: OnnxNode, query: RelayExpr, keys: _Keys, tokens: _Tokens, bias: RelayExpr | None
) -> tuple[RelayExpr, RelayExpr]:
    """The rows, and what the node says of the scores: before their softmax or behind it."""
    scores = _scores(node, query, keys.key)
    cap = node.attrs.float("softcap", 0.0)
    if cap > 0:
        scale = node.like(cap, scores)
        scores = relay.multiply(relay.tanh(relay.divide(scores, scale)), scale)
    if bias is not None:
        scores = matched(node, relay.add(scores, bias), node.shape(scores))
    scores = relay.where(_seen(node, query, keys, tokens), scores, node.like(LOWEST, scores))
    weights = _softmax(node, scores)
    groups = _by_groups(node, weights, keys.key)
    mixed = _by_heads(node, matrix_product(node, groups, keys.value), query)
    return merge_heads(node, mixed, node[0]), scores if node.attrs.int("qk_output", 0) == 1 else weights


def _scores(node: OnnxNode, query: RelayExpr, key: RelayExpr) -> RelayExpr:
    """f[B, N, S, T]: the queries of the heads that share keys are rows of one product."""
    grouped = scaled_scores(node, Heads(_by_groups(node, query, key), key, key))
    return _by_heads(node, grouped, query)


def _by_groups(node: OnnxNode, data: RelayExpr, key: RelayExpr) -> RelayExpr:
    """f[B, N, S, x] -> f[B, n, N / n S, x]."""
    batch, heads, _, width = node.shape(data)
    shared = node.shape(key)[1]
    if heads == shared:
        return data
    return reshaped(node, data, [batch, shared, None, width], (data,))


def _by_heads(node: OnnxNode, data: RelayExpr, query: RelayExpr) -> RelayExpr:
    """f[B, n, N / n S, x] -> f[B, N, S, x]."""
    batch, heads, length = node.shape(query)[:3]
    if node.shape(data)[1] == heads:
        return data
    width = node.shape(data)[3]
    target: list[Dim | None] = [batch, heads, length, None if isinstance(width, Any) and not width.name else width]
    return reshaped(node, data, target, (query, data))


def _seen(node: OnnxNode, query: RelayExpr, keys: _Keys, tokens: _Tokens) -> RelayExpr:
    """Which keys a query sees, bool[B, 1, S, T]."""
    place, real = (relay.expand_dims(e, 1, 2) for e in (keys.place, keys.real))
    if not node.attrs.flag("causal", True):
        return real
    own = relay.add(relay.expand_dims(tokens.before, 1), relay.expand_dims(places_along(node, query, 2), 0))
    own = relay.expand_dims(relay.expand_dims(own, 1), 3)
    seen = relay.logical_and(real, relay.less_equal(place, own))
    window = node.attrs.int("local_window_size", -1)
    if window > 0:
        first = relay.subtract(own, constant(window, "int32"))
        seen = relay.logical_and(seen, relay.greater(place, first))
    return seen


def _softmax(node: OnnxNode, scores: RelayExpr) -> RelayExpr:
    """Over the keys; with a sink of each head, or one of 0, beside them, which takes its share."""
    sink = node.optional(11)
    if sink is None and node.attrs.int("smooth_softmax", -1) != 1:
        return relay.nn.softmax(scores, axis=-1)
    one = relay.strided_slice(scores, begin=[0], end=[1], strides=[1], axes=[3])
    column = relay.multiply(one, node.like(0, one))
    if sink is not None:
        column = relay.add(column, relay.reshape(sink, [1, -1, 1, 1]))
    weights = relay.nn.softmax(relay.concatenate([scores, column], axis=3), axis=-1)
    return relay.strided_slice(weights, begin=[0], end=[-1], strides=[1], axes=[3])
