"""Biases and gates as ONNX Runtime's optimiser and its model builder write them.

Source: BiasAdd-1, BiasSplitGelu-1, BiasSoftmax-1, ScaledSiLU-1 and FusedGemm-1 of com.microsoft.
"""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.converters.activations import gelu
from byoc.relay.frontend.onnx.microsoft.images import activated, as_onnx
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter, find_converter


@converter("BiasAdd", domain=MICROSOFT)
def _bias_add(node: OnnxNode) -> RelayExpr:
    return relay.add(relay.add(node[0], node[1]), node[2])


@converter("BiasSplitGelu", domain=MICROSOFT)
def _bias_split_gelu(node: OnnxNode) -> RelayExpr:
    """Of f[N, S, D] and a bias f[D]: the left half times the gelu of the right one."""
    total = relay.add(node[0], node[1])
    (width,) = node.static_dims_of(total, [node.rank(total) - 1], "BiasSplitGelu")
    if width % 2:
        raise node.error(f"rows of {width} have no two halves")
    halves = relay.split(total, 2, axis=-1)
    return relay.multiply(halves[0], gelu(node, halves[1], by_tanh=False))


@converter("BiasSoftmax", domain=MICROSOFT)
def _bias_softmax(node: OnnxNode) -> RelayExpr:
    """Softmax of data and a bias, over all axes from *axis* on.

    A bias of fewer axes belongs to the last ones; one for the first axes (``is_inner_broadcast``) has ones between.
    """
    rank, data = node.rank(node[0]), node[0]
    axis, missing = node.axis(node.attrs.int("axis", 1), rank), rank - node.rank(node[1])
    bias = node[1]
    if missing > 0 and node.attrs.flag("is_inner_broadcast"):
        bias = relay.expand_dims(bias, node.rank(bias) - (rank - axis), missing)
    return as_onnx(node, "Softmax", 11, relay.add(data, bias), {"axis": axis})


@converter("ScaledSiLU", domain=MICROSOFT)
def _scaled_silu(node: OnnxNode) -> RelayExpr:
    """``z * sigmoid(z)`` of the scaled data."""
    scale = node.optional(1)
    if scale is None:
        factor: RelayExpr = node.like(node.attrs.float("alpha", 1.0), node[0])
    else:
        factor = relay.cast(relay.reshape(scale, []), node.dtype(node[0]))
    scaled = relay.multiply(node[0], factor)
    return relay.multiply(scaled, relay.sigmoid(scaled))


@converter("FusedGemm", domain=MICROSOFT)
def _fused_gemm(node: OnnxNode) -> RelayExpr:
    """Gemm, then a function of one tensor whose numbers are ``activation_alpha`` and the like."""
    convert = find_converter("", "Gemm", 11)
    assert convert is not None
    made = convert(node)
    assert isinstance(made, RelayExpr)
    numbers = {
        name: node.attrs.float(f"activation_{name}")
        for name in ("alpha", "beta", "gamma")
        if f"activation_{name}" in node.attrs
    }
    return activated(node, made, node.attrs.string("activation", ""), numbers)
