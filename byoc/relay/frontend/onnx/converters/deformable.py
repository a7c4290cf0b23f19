"""Deformable convolution. Source: ONNX DeformConv-19/22."""

from __future__ import annotations

import math

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.converters.convolution import kernel_shape, read_window
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter


@converter("DeformConv")
def _deform_conv(node: OnnxNode) -> RelayExpr:
    """``X, W, offset, bias, mask``. Without a mask it is Relay's; else the moved taps are weighted, then summed."""
    weight, kernel = node[1], kernel_shape(node, node[1])
    if node.rank(node[0]) != 4 or len(kernel) != 2:
        raise node.error(f"the data must have 4 dimensions, got {node.type_of(node[0])}")
    window, mask = read_window(node, kernel), node.optional(4)
    groups, moved = node.attrs.int("group", 1), node.attrs.int("offset_group", 1)
    if mask is None:
        result = relay.nn.deformable_conv2d(
            node[0],
            node[2],
            weight,
            strides=window.strides,
            padding=window.pads,
            dilation=window.dilations,
            deformable_groups=moved,
            groups=groups,
        )
    else:
        attrs = relay.nn.DeformableColumnsAttrs(kernel, window.strides, window.pads, window.dilations, moved)
        seen = _weighted(node, relay.nn.deformable_columns(node[0], node[2], attrs), mask, moved)
        rows = node.static_dims(weight, "the weight")
        as_one = relay.reshape(weight, [rows[0], math.prod(rows[1:]), 1, 1])
        result = relay.nn.conv2d(seen, node.fold(as_one), channels=rows[0], kernel_size=(1, 1), groups=groups)
    bias = node.optional(3)
    return result if bias is None else relay.nn.bias_add(result, bias, axis=1)


def _weighted(node: OnnxNode, seen: RelayExpr, mask: RelayExpr, groups: int) -> RelayExpr:
    """``T[N, C, taps, H, W]`` times ``T[N, groups taps, H, W]``, as channels ``[N, C taps, H, W]``."""
    channels, taps, height, width = node.static_dims_of(seen, [1, 2, 3, 4], "DeformConv with a mask")
    split = relay.reshape(seen, [-1, groups, channels // groups, taps, height, width])
    weights = relay.reshape(mask, [-1, groups, 1, taps, height, width])
    return relay.reshape(relay.multiply(split, weights), [-1, channels * taps, height, width])
