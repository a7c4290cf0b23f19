"""Convolutions over one, two or three spatial dimensions. Source: ONNX Conv-1/11 and ConvTranspose-1/11."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.types import Any, Dim
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import Converter, converter

CONV = {1: "conv1d", 2: "conv2d", 3: "conv3d"}
CONV_TRANSPOSE = {1: "conv1d_transpose", 2: "conv2d_transpose", 3: "conv3d_transpose"}


@dataclass(frozen=True)
class SlidingWindow:
    """A sliding window: per spatial dimension its size, stride and dilation, and the padding at begins, then ends."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """What the window covers, dilation included."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def per_axis(node: OnnxNode, name: str, count: int, default: int) -> tuple[int, ...]:
    """An attribute with one number for each of *count* entries. Raises ImportModelError for another number of them."""
    values = tuple(node.attrs.ints(name, [default] * count))
    if len(values) != count:
        raise node.error(f"{name} needs {count} numbers, got {len(values)}: {list(values)}")
    return values


def spatial_rank(node: OnnxNode, table: dict[int, str]) -> int:
    """The number of spatial dimensions of the data. Raises ImportModelError for one that *table* does not serve."""
    rank = node.rank(node[0]) - 2
    if rank not in table:
        raise node.error(f"the data must have {' or '.join(str(r + 2) for r in table)} dimensions, got {rank + 2}")
    return rank


def read_window(node: OnnxNode, kernel: Sequence[int]) -> SlidingWindow:
    """The window of a convolution or pooling, with ``auto_pad`` resolved for the shape of the data."""
    count = len(kernel)
    strides, dilations = per_axis(node, "strides", count, 1), per_axis(node, "dilations", count, 1)
    if min((*strides, *dilations, *kernel), default=1) < 1:
        found = f"{list(kernel)}, {list(strides)} and {list(dilations)}"
        raise node.error(f"kernel, strides and dilations must be positive, got {found}")
    window = SlidingWindow(tuple(kernel), strides, dilations, per_axis(node, "pads", 2 * count, 0))
    mode = node.attrs.string("auto_pad", "NOTSET")
    if mode == "NOTSET":
        if min(window.pads, default=0) < 0:
            raise node.error(f"negative padding is not supported: {list(window.pads)}; slice the data instead")
        return window
    if mode == "VALID":
        return SlidingWindow(window.kernel, strides, dilations, (0,) * (2 * count))
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.error(f"auto_pad is NOTSET, VALID, SAME_UPPER or SAME_LOWER, got {mode!r}")
    spatial = node.shape(node[0])[2:]
    totals = [
        _same_padding(node, size, stride, extent)
        for size, stride, extent in zip(spatial, strides, window.extents, strict=True)
    ]
    return SlidingWindow(window.kernel, strides, dilations, split_padding(totals, mode == "SAME_UPPER"))


def _same_padding(node: OnnxNode, size: Dim, stride: int, extent: int) -> int:
    if isinstance(size, Any):
        if stride == 1:
            return extent - 1
        raise node.error("auto_pad with a stride needs the size of the data; fix it with shapes=")
    return max((-(-size // stride) - 1) * stride + extent - size, 0)


def split_padding(totals: Sequence[int], more_at_end: bool) -> tuple[int, ...]:
    """Paddings at begins, then at ends; the odd one goes to the end or to the begin."""
    small = [t // 2 for t in totals]
    large = [t - t // 2 for t in totals]
    return (*small, *large) if more_at_end else (*large, *small)


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
        data,
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
    shape = node.shape(node[0])[2:]
    sizes = [s for s in shape if not isinstance(s, Any)]
    if len(sizes) != len(shape):
        raise node.error("output_shape and auto_pad need the size of the data; fix it with shapes=")
    if not wanted:
        wanted = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    totals = [
        (size - 1) * stride + more + extent - target
        for size, stride, more, extent, target in zip(sizes, strides, extra, plain.extents, wanted, strict=True)
    ]
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
