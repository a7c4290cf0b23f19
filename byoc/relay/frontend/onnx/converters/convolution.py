"""Convolutions over one, two or three spatial dimensions. Source: ONNX Conv-1/11 and ConvTranspose-1/11."""

from __future__ import annotations

import math
from collections.abc import Sequence

from byoc import relay
from byoc.ir.dims import are_numbers
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.converters.sliding_window import (
    SlidingWindow,
    in_place,
    per_axis,
    read_window,
    split_padding,
)
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import Converter, converter

CONV = {1: "conv1d", 2: "conv2d", 3: "conv3d"}
CONV_TRANSPOSE = {1: "conv1d_transpose", 2: "conv2d_transpose", 3: "conv3d_transpose"}


def spatial_rank(node: OnnxNode, table: dict[int, str]) -> int:
    """The number of spatial dimensions of the data. Raises ImportModelError for one that *table* does not serve."""
    rank = node.rank(node[0]) - 2
    if rank not in table:
        raise node.error(f"the data must have {' or '.join(str(r + 2) for r in table)} dimensions, got {rank + 2}")
    return rank


def kernel_shape(node: OnnxNode, weight: RelayExpr) -> tuple[int, ...]:
    """The window of a weight tensor, checked against the attribute ``kernel_shape``."""
    kernel = node.static_dims(weight, "the weight")[2:]
    stated = node.attrs.ints("kernel_shape", kernel)
    if tuple(stated) != kernel:
        raise node.error(f"kernel_shape is {stated}, but the weight has {list(kernel)}")
    return kernel


def with_bias(node: OnnxNode, result: RelayExpr) -> RelayExpr:
    """*result* plus the bias of each channel (input 2), where there is one."""
    bias = node.optional(2)
    return result if bias is None else relay.nn.bias_add(result, bias, axis=1)


def convolution(node: OnnxNode, data: RelayExpr, weight: RelayExpr) -> RelayExpr:
    """The convolution of *data* (of the shape of input 0) and *weight* by the attributes of *node*, without a bias."""
    rank = spatial_rank(node, CONV)
    kernel = kernel_shape(node, weight)
    window = read_window(node, kernel)
    result: RelayExpr = getattr(relay.nn, CONV[rank])(
        in_place(node, data, window),
        weight,
        strides=window.strides,
        padding=window.pads,
        dilation=window.dilations,
        groups=node.attrs.int("group", 1),
        channels=node.static_dims(weight, "the weight")[0],
        kernel_size=kernel,
    )
    return result


def channels_first(node: OnnxNode, convert: Converter, innermost: bool) -> RelayExpr:
    """What *convert* makes of *node*, whose data (input 0) and result have channels innermost where so said."""
    data, rank = node[0], node.rank(node[0])
    if innermost:
        data = relay.transpose(data, axes=[0, rank - 1, *range(1, rank - 1)])
    made = convert(node.over([data, *node.inputs[1:]]))
    assert made is not None
    result = made if isinstance(made, RelayExpr) else made[0]
    return relay.transpose(result, axes=[0, *range(2, rank), 1]) if innermost else result


@converter("Conv")
def _conv(node: OnnxNode) -> RelayExpr:
    return with_bias(node, convolution(node, node[0], node[1]))


@converter("ConvTranspose")
def _conv_transpose(node: OnnxNode) -> RelayExpr:
    rank = spatial_rank(node, CONV_TRANSPOSE)
    weight, kernel = node[1], kernel_shape(node, node[1])
    window, output_padding = _transposed_window(node, kernel)
    group = node.attrs.int("group", 1)
    result = getattr(relay.nn, CONV_TRANSPOSE[rank])(
        node[0],
        weight,
        strides=window.strides,
        padding=window.pads,
        dilation=window.dilations,
        groups=group,
        channels=node.static_dims(weight, "the weight")[1] * group,
        kernel_size=kernel,
        output_padding=output_padding,
    )
    return with_bias(node, result)


def _transposed_window(node: OnnxNode, kernel: Sequence[int]) -> tuple[SlidingWindow, tuple[int, ...]]:
    """The window and the output padding; ``output_shape`` or ``auto_pad`` decide the padding where they are given."""
    count = len(kernel)
    strides, dilations = per_axis(node, "strides", count, 1), per_axis(node, "dilations", count, 1)
    extra = per_axis(node, "output_padding", count, 0)
    plain = SlidingWindow(tuple(kernel), strides, dilations, per_axis(node, "pads", 2 * count, 0))
    mode = node.attrs.string("auto_pad", "NOTSET")
    wanted = node.attrs.ints("output_shape", [])[-count:]
    if not wanted and mode not in ("SAME_UPPER", "SAME_LOWER"):
        return (
            plain if mode == "NOTSET" else SlidingWindow(plain.kernel, strides, dilations, (0,) * (2 * count))
        ), extra
    if wanted:
        sizes = node.shape(node[0])[2:]
        if not are_numbers(sizes):
            raise node.error("output_shape needs the size of the data; fix it with shapes=")
        grown = [(size - 1) * stride - to for size, stride, to in zip(sizes, strides, wanted, strict=True)]
    else:  # to size * stride, whatever the size
        grown = [-stride for stride in strides]
    totals = [g + more + extent for g, more, extent in zip(grown, extra, plain.extents, strict=True)]
    pads = split_padding([max(t, 0) for t in totals], mode == "SAME_UPPER")
    padding = tuple(more + max(-t, 0) for more, t in zip(extra, totals, strict=True))
    return SlidingWindow(plain.kernel, strides, dilations, pads), padding


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
