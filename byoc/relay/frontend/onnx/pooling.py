"""Pooling by windows and over everything. Source: ONNX MaxPool-1/8/10/12, AveragePool-1/7/10/19, LpPool-1/2/18."""

from __future__ import annotations

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import const
from byoc.relay.frontend.onnx.convolution import Window, read_window, spatial_rank
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter

MAX_POOL = {1: "max_pool1d", 2: "max_pool2d", 3: "max_pool3d"}
AVG_POOL = {1: "avg_pool1d", 2: "avg_pool2d", 3: "avg_pool3d"}


def _pooling_window(node: OnnxNode, table: dict[int, str]) -> tuple[int, Window]:
    rank = spatial_rank(node, table)
    kernel = node.attrs.ints("kernel_shape")
    if len(kernel) != rank:
        raise node.error(f"kernel_shape needs {rank} numbers, got {kernel}")
    return rank, read_window(node, kernel)


def _rounded_up(node: OnnxNode, window: Window) -> Window:
    """The same window with ``ceil_mode`` as padding at the ends, so that the sizes divide exactly.

    A window that would begin in the padding at the end is dropped, as ONNX asks.
    """
    if not node.attrs.flag("ceil_mode") or node.attrs.string("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return window
    count = len(window.kernel)
    sizes = node.static_dims(node[0], "ceil_mode")[2:]
    ends = list(window.pads[count:])
    for axis, (size, extent, stride) in enumerate(zip(sizes, window.extents, window.strides, strict=True)):
        padded = size + window.pads[axis] + ends[axis]
        steps = -(-(padded - extent) // stride)
        if steps * stride >= size + window.pads[axis]:
            steps -= 1
        ends[axis] += max(steps * stride + extent - padded, 0)
    return Window(window.kernel, window.strides, window.dilations, (*window.pads[:count], *ends))


@converter("MaxPool")
def _max_pool(node: OnnxNode) -> RelayExpr:
    rank, window = _pooling_window(node, MAX_POOL)
    if node.has_output(1):
        raise node.error("the output Indices is not supported; use the values alone")
    window = _rounded_up(node, window)
    return getattr(relay.nn, MAX_POOL[rank])(
        node[0], pool_size=window.kernel, strides=window.strides, dilation=window.dilations, padding=window.pads
    )


@converter("AveragePool")
def _average_pool(node: OnnxNode) -> RelayExpr:
    rank, window = _pooling_window(node, AVG_POOL)
    include = node.attrs.flag("count_include_pad")
    wide = _rounded_up(node, window)
    result = _average(node, wide, rank, include)
    if not include or wide == window:
        return result
    return relay.multiply(result, const(_share_of_padding(node, window, wide).astype(node.dtype(node[0]))))


def _average(node: OnnxNode, window: Window, rank: int, include: bool, data: RelayExpr | None = None) -> RelayExpr:
    return getattr(relay.nn, AVG_POOL[rank])(
        data if data is not None else node[0], pool_size=window.kernel, strides=window.strides,
        dilation=window.dilations, padding=window.pads, count_include_pad=include,
    )


def _share_of_padding(node: OnnxNode, window: Window, wide: Window) -> np.ndarray:
    """What to multiply with, because the padding that ``ceil_mode`` added counts for nothing."""
    count = len(window.kernel)
    share = np.ones((1, 1, *[1] * count))
    for axis, size in enumerate(node.static_dims(node[0], "ceil_mode")[2:]):
        kernel, stride, step = window.kernel[axis], window.strides[axis], window.dilations[axis]
        length = window.pads[axis] + size + window.pads[count + axis]
        padded = window.pads[axis] + size + wide.pads[count + axis]
        begins = np.arange((padded - window.extents[axis]) // stride + 1) * stride
        inside = ((begins[:, None] + np.arange(kernel) * step) < length).sum(axis=1)
        share = share * (kernel / inside).reshape([-1 if k == axis + 2 else 1 for k in range(count + 2)])
    return share


def _norm(node: OnnxNode, powers: RelayExpr, p: int) -> RelayExpr:
    if p == 1:
        return powers
    return relay.sqrt(powers) if p == 2 else relay.power(powers, node.like(1 / p, node[0]))


def _powers(node: OnnxNode, p: int) -> RelayExpr:
    size = relay.abs(node[0])
    if p == 1:
        return size
    return relay.multiply(size, size) if p == 2 else relay.power(size, node.like(p, node[0]))


@converter("LpPool", since=2)
def _lp_pool(node: OnnxNode) -> RelayExpr:
    rank, window = _pooling_window(node, AVG_POOL)
    p = node.attrs.int("p", 2)
    mean = _average(node, _rounded_up(node, window), rank, True, _powers(node, p))
    return _norm(node, relay.multiply(mean, node.like(int(np.prod(window.kernel)), node[0])), p)


def _over_space(node: OnnxNode) -> list[int]:
    rank = node.rank(node[0])
    if rank < 3:
        raise node.error(f"the data must have at least 3 dimensions, got {rank}")
    return list(range(2, rank))


@converter("GlobalAveragePool")
def _global_average(node: OnnxNode) -> RelayExpr:
    axes = _over_space(node)
    return relay.nn.global_avg_pool2d(node[0]) if len(axes) == 2 else relay.mean(node[0], axis=axes, keepdims=True)


@converter("GlobalMaxPool")
def _global_max(node: OnnxNode) -> RelayExpr:
    axes = _over_space(node)
    return relay.nn.global_max_pool2d(node[0]) if len(axes) == 2 else relay.max(node[0], axis=axes, keepdims=True)


@converter("GlobalLpPool", since=2)
def _global_lp(node: OnnxNode) -> RelayExpr:
    p = node.attrs.int("p", 2)
    return _norm(node, relay.sum(_powers(node, p), axis=_over_space(node), keepdims=True), p)
