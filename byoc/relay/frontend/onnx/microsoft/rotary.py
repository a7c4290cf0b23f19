"""Rotary position embeddings. Source: ONNX Runtime's RotaryEmbedding-1 (domain com.microsoft).

Of each head's numbers the first r are pairs (a, b), halves of r or neighbours, which are turned by the angles of their
position: (a cos - b sin, b cos + a sin). Cosines and sines are tables f[positions, r / 2].
"""

from __future__ import annotations

from dataclasses import dataclass

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.dims import reshaped
from byoc.relay.frontend.onnx.microsoft.heads import merge_heads, places_along, split_heads
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter


@dataclass(frozen=True)
class RotaryTables:
    """Cosines and sines of each position, f[positions, r / 2], and whether pairs are neighbours."""

    cosines: RelayExpr
    sines: RelayExpr
    interleaved: bool


@converter("RotaryEmbedding", domain=MICROSOFT)
def _rotary_embedding(node: OnnxNode) -> RelayExpr:
    """Inputs: f[B, S, N h] or f[B, N, S, h], positions i64[B, S] or the first i64[1], cosines, sines."""
    tables = RotaryTables(node[2], node[3], node.attrs.flag("interleaved"))
    if node.rank(node[0]) == 4:
        return rotated(node, node[0], _positions(node, node[0], 2), tables)
    count = node.attrs.int("num_heads", 0) or _head_count(node)
    heads = split_heads(node, node[0], count)
    return merge_heads(node, rotated(node, heads, _positions(node, heads, 2), tables), node[0])


def _head_count(node: OnnxNode) -> int:
    """Where ``num_heads`` is not given, a head is what the tables turn."""
    (half,) = node.static_dims_of(node[2], [1], "a table of cosines")
    if node.rank(node[0]) != 3:
        raise node.error(f"the data have three or four dimensions, got {node.type_of(node[0])}")
    (width,) = node.static_dims_of(node[0], [2], "rotary embedding")
    if not half or width % (2 * half):
        raise node.error(f"{width} columns cannot be divided into heads of {2 * half}")
    return width // (2 * half)


def _positions(node: OnnxNode, data: RelayExpr, axis: int) -> RelayExpr:
    """The position of each row along *axis*, i64[B, S] or i64[1, S]."""
    given = node[1]
    if node.rank(given) == 2:
        return given
    places = relay.cast(places_along(node, data, axis), node.dtype(given))
    return relay.expand_dims(relay.add(places, given), 0)


def rotated(node: OnnxNode, data: RelayExpr, positions: RelayExpr, tables: RotaryTables) -> RelayExpr:
    """f[B, N, S, h] turned by the angles of *positions*, i64[B, S] or i64[1, S]."""
    (rows, half), (size,) = node.shape(tables.cosines), node.static_dims_of(data, [3], "rotary embedding")
    if not isinstance(half, int) or not 0 < 2 * half <= size:
        raise node.error(f"tables {node.type_of(tables.cosines)} do not turn heads of {size} numbers")
    name = f"node {node.name} ({node.op_type})"
    if isinstance(rows, int):
        places = relay.check_indices(positions, [rows], [0], name)
    else:
        places = relay.check_indices_like(positions, tables.cosines, [0], name)
    cosine, sine = (relay.expand_dims(relay.take(table, places, axis=0), 1) for table in (tables.cosines, tables.sines))
    if tables.interleaved:
        first, second = (_part(data, k, 2 * half, 2) for k in (0, 1))
    else:
        first, second = _part(data, 0, half), _part(data, half, 2 * half)
    turned: list[RelayExpr] = [
        relay.subtract(relay.multiply(first, cosine), relay.multiply(second, sine)),
        relay.add(relay.multiply(second, cosine), relay.multiply(first, sine)),
    ]
    if tables.interleaved:
        pairs = relay.stack(turned, axis=4)
        turned = [reshaped(node, pairs, [*node.shape(data)[:3], 2 * half], (data,))]
    rest = [_part(data, 2 * half, size)] if 2 * half < size else []
    return relay.concatenate([*turned, *rest], axis=3) if len(turned) + len(rest) > 1 else turned[0]


def _part(data: RelayExpr, begin: int, end: int, step: int = 1) -> RelayExpr:
    return relay.strided_slice(data, begin=[begin], end=[end], strides=[step], axes=[3])


def range_of_positions(node: OnnxNode, data: RelayExpr, first: RelayExpr) -> RelayExpr:
    """The positions from *first*, i32[B], on for the rows of f[B, N, S, h]: i64[B, S]."""
    places = relay.add(relay.expand_dims(first, 1), relay.expand_dims(places_along(node, data, 2), 0))
    return relay.cast(places, "int64")
