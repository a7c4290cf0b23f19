"""Attention as ONNX Runtime's tools fuse it, of floats and of bytes. Source: ONNX Runtime's Attention-1, QAttention-1.

One product makes queries, keys and values; the rest is in float32 and shared with its other attention operators.
"""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.converters.linear import matrix_product
from byoc.relay.frontend.onnx.microsoft.heads import Heads, ScoreTerms, attend, size_along, split_heads, up_to_own
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.quantized.products import product_in_floats
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter


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
    bias = None if added is None else node.optional(added)
    terms = ScoreTerms(node.optional(mask), bias)
    before = constant(0, "int32") if node.optional(past) is None else size_along(node, node[past], 3)
    seen = up_to_own(node, heads, before) if node.attrs.flag("unidirectional") else None
    made = attend(node, heads, terms, seen, projected).rows
    return [made, relay.stack([heads.key, heads.value], axis=0)] if node.has_output(1) else [made]


def _heads(node: OnnxNode, projected: RelayExpr, past: RelayExpr | None) -> Heads:
    if node.rank(projected) != 3:
        raise node.error(f"the data have three dimensions, got {node.type_of(projected)}")
    (whole,), count = node.static_dims_of(projected, [2], "attention"), node.attrs.int("num_heads")
    sizes = node.attrs.ints("qkv_hidden_sizes", [whole // 3] * 3)
    if len(sizes) != 3 or sum(sizes) != whole or count < 1 or any(s % count for s in sizes) or sizes[0] != sizes[1]:
        raise node.error(f"{whole} columns of queries, keys and values are no {count} heads of sizes {sizes}")
    split = relay.split(projected, [sizes[0], 2 * sizes[0]], axis=2)
    parts = [split_heads(node, split[k], count) for k in range(3)]
    if past is not None:
        for k in (1, 2):
            before = relay.take(past, constant(k - 1, "int64"), axis=0)
            parts[k] = relay.concatenate([before, parts[k]], axis=2)
    return Heads(*parts)
