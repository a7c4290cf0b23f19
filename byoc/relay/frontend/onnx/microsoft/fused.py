"""What ONNX Runtime's optimiser puts in the place of several nodes. Source: the operators of its domain com.microsoft.

FusedMatMul-1, BiasGelu-1, FastGelu-1, QuickGelu-1; with them the models that it has optimised
and saved can be read (transformers above all).
"""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.converters.activations import gelu
from byoc.relay.frontend.onnx.converters.linear import matrix_product
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter


@converter("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def _fused_mat_mul(node: OnnxNode) -> RelayExpr:
    """``alpha * A' B'``, as numpy's ``matmul``."""
    product = matrix_product(node, _operand(node, 0, "A"), _operand(node, 1, "B"))
    alpha = node.attrs.float("alpha", 1.0)
    return product if alpha == 1 else relay.multiply(product, node.like(alpha, product))


def _operand(node: OnnxNode, index: int, name: str) -> RelayExpr:
    """An operand ``[batch..., M, K]``; with *transBatch* it is given as ``[M, batch..., K]``."""
    value, rank = node[index], node.rank(node[index])
    axes = list(range(rank))
    if node.attrs.flag(f"transBatch{name}") and rank > 2:
        axes = [*axes[1:-1], 0, axes[-1]]
    if node.attrs.flag(f"trans{name}") and rank > 1:
        axes[-2:] = axes[:-3:-1]
    return value if axes == sorted(axes) else node.fold(relay.transpose(value, axes=axes))


def _biased(node: OnnxNode) -> RelayExpr:
    return node[0] if node.optional(1) is None else relay.add(node[0], node[1])


@converter("BiasGelu", domain=MICROSOFT)
def _bias_gelu(node: OnnxNode) -> RelayExpr:
    return gelu(node, _biased(node), by_tanh=False)


@converter("FastGelu", domain=MICROSOFT)
def _fast_gelu(node: OnnxNode) -> RelayExpr:
    return gelu(node, _biased(node), by_tanh=True)


@converter("QuickGelu", domain=MICROSOFT)
def _quick_gelu(node: OnnxNode) -> RelayExpr:
    x = node[0]
    return relay.multiply(x, relay.sigmoid(relay.multiply(x, node.like(node.attrs.float("alpha", 1.702), x))))
