"""Deformable convolution. Source: ONNX DeformConv-19/22."""

from __future__ import annotations

from byoc import relay
from byoc.ir.dims import are_numbers
from byoc.ir.expr import RelayExpr
from byoc.ir.types import Dim
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.converters.convolution import SlidingWindow, free_window, read_window, with_kernel_shape
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter


@converter("DeformConv")
def _deform_conv(node: OnnxNode) -> RelayExpr:
    """``X, W, offset, bias, mask``. Without a mask it is Relay's; else the moved taps are weighted, then summed."""
    weight, kernel = with_kernel_shape(node, node[1])
    if node.rank(node[0]) != 4 or len(kernel) != 2:
        raise node.error(f"the data must have 4 dimensions, got {node.type_of(node[0])}")
    window = read_window(node, kernel) if are_numbers(kernel) else free_window(node, 2)
    groups, moved, mask = node.attrs.int("group", 1), node.attrs.int("offset_group", 1), node.optional(4)
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
        seen = _weighted(_columns(node, weight, kernel, window, moved), mask, moved)
        out = node.shape(weight)[0]
        as_one = node.fold(relay.reshape(weight, [0, -1, 1, 1]))
        channels = out if isinstance(out, int) else None
        result = relay.nn.conv2d(seen, as_one, channels=channels, kernel_size=(1, 1), groups=groups)
    bias = node.optional(3)
    return result if bias is None else relay.nn.bias_add(result, bias, axis=1)


def _columns(
    node: OnnxNode, weight: RelayExpr, kernel: tuple[Dim, ...], window: SlidingWindow, moved: int
) -> RelayExpr:
    """What each tap sees, ``T[N, C, taps, H, W]``."""
    known = kernel if are_numbers(kernel) else ()
    attrs = relay.nn.DeformableColumnsAttrs(known, window.strides, window.pads, window.dilations, moved)
    if known:
        return relay.nn.deformable_columns(node[0], node[2], attrs)
    sizes = relay.take(relay.shape_of(weight, "int64"), constant([2, 3], "int64"), axis=0)
    return relay.nn.deformable_columns_of(node[0], node[2], sizes, attrs)


def _weighted(seen: RelayExpr, mask: RelayExpr, groups: int) -> RelayExpr:
    """``T[N, C, taps, H, W]`` times ``T[N, groups taps, H, W]``, as channels ``[N, C taps, H, W]``."""
    split = relay.reshape(seen, [0, -4, groups, -1, -2])
    weights = relay.expand_dims(relay.reshape(mask, [0, -4, groups, -1, -2]), 2)
    joined = relay.reshape(relay.multiply(split, weights), [0, -3, -2])
    return relay.reshape(joined, [0, -3, -2])
