"""Pooling by windows and over everything. Source: ONNX MaxPool-1/8/10/12, AveragePool-1/7/10/19, LpPool-1/2/18."""

from __future__ import annotations

import math

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.converters.convolution import SlidingWindow, in_place, read_window, spatial_rank
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter

MAX_POOL = {1: "max_pool1d", 2: "max_pool2d", 3: "max_pool3d"}
AVG_POOL = {1: "avg_pool1d", 2: "avg_pool2d", 3: "avg_pool3d"}


def _pooling_window(node: OnnxNode, table: dict[int, str]) -> tuple[int, SlidingWindow]:
    rank = spatial_rank(node, table)
    kernel = node.attrs.ints("kernel_shape")
    if len(kernel) != rank:
        raise node.error(f"kernel_shape needs {rank} numbers, got {kernel}")
    return rank, read_window(node, kernel)


def _ceil_mode(node: OnnxNode) -> bool:
    return node.attrs.flag("ceil_mode") and node.attrs.string("auto_pad", "NOTSET") in ("NOTSET", "VALID")


def _lowest(dtype: str) -> float | int:
    return int(np.iinfo(dtype).min) if dtype.lstrip("u").startswith("int") else -math.inf


@converter("MaxPool")
def _max_pool(node: OnnxNode) -> list[RelayExpr]:
    rank, window = _pooling_window(node, MAX_POOL)
    pooled = getattr(relay.nn, MAX_POOL[rank])(
        in_place(node, node[0], window, _lowest(node.dtype(node[0]))),
        pool_size=window.kernel,
        strides=window.strides,
        dilation=window.dilations,
        padding=window.pads,
        ceil_mode=_ceil_mode(node),
    )
    if not node.has_output(1):
        return [pooled]
    from byoc.relay.frontend.onnx.converters.pool_positions import max_positions

    return [pooled, max_positions(node, window, pooled)]


@converter("AveragePool")
def _average_pool(node: OnnxNode) -> RelayExpr:
    rank, window = _pooling_window(node, AVG_POOL)
    data, include = in_place(node, node[0], window), node.attrs.flag("count_include_pad")
    if include or not window.of_run:
        return _average(data, window, rank, include, _ceil_mode(node))
    ones = in_place(node, relay.ones_like(node[0]), window)  # their mean: how much of a window is no padding
    return relay.divide(_average(data, window, rank, True, False), _average(ones, window, rank, True, False))


def _average(data: RelayExpr, window: SlidingWindow, rank: int, include: bool, ceil_mode: bool) -> RelayExpr:
    result: RelayExpr = getattr(relay.nn, AVG_POOL[rank])(
        data,
        pool_size=window.kernel,
        strides=window.strides,
        dilation=window.dilations,
        padding=window.pads,
        ceil_mode=ceil_mode,
        count_include_pad=include,
    )
    return result


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
    if _ceil_mode(node):
        raise node.error("ceil_mode is not supported; give pads instead")
    mean = _average(in_place(node, _powers(node, p), window), window, rank, True, False)
    return _norm(node, relay.multiply(mean, node.like(math.prod(window.kernel), node[0])), p)


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
