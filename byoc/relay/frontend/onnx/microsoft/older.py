"""Operators of ONNX Runtime's domain that ONNX has itself by now, or that follow from ONNX's.

Source: of com.microsoft ExpandDims-1, Pad-1, Unique-1, CDist-1, Trilu-1, GatherND-1, Range-1, GridSample-1 and
UnfoldTensor-1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter, find_converter


def _by_onnx(node: OnnxNode, opset: int) -> Sequence[RelayExpr]:
    """What ONNX's operator of the same name makes of the inputs in *opset*."""
    convert = find_converter("", node.op_type, opset)
    made = None if convert is None else convert(node.over(node.inputs, opset))
    if made is None:
        raise node.error(f"{node.op_type} of opset {opset} cannot be imported for these inputs")
    return [made] if isinstance(made, RelayExpr) else made


@converter("Trilu", domain=MICROSOFT)
def _trilu(node: OnnxNode) -> Sequence[RelayExpr]:
    return _by_onnx(node, 14)


@converter("GatherND", domain=MICROSOFT)
def _gather_nd(node: OnnxNode) -> Sequence[RelayExpr]:
    return _by_onnx(node, 11)


@converter("GridSample", domain=MICROSOFT)
def _grid_sample(node: OnnxNode) -> Sequence[RelayExpr]:
    return _by_onnx(node, 16)


@converter("Pad", domain=MICROSOFT)
def _pad(node: OnnxNode) -> Sequence[RelayExpr]:
    return _by_onnx(node, 11)


@converter("Range", domain=MICROSOFT)
def _range(node: OnnxNode) -> Sequence[RelayExpr]:
    """Inputs: start, limit and step, which is 1 where it is left out."""
    step = node.optional(2)
    inputs = [node[0], node[1], node.like(1, node[0]) if step is None else step]
    return _by_onnx(node.over(inputs), 11)


@converter("Unique", domain=MICROSOFT)
def _unique(node: OnnxNode) -> list[RelayExpr]:
    """Values in the order found, for each element the place of its value, and how often each value occurs."""
    values, _, inverse, _, counts = relay.unique(node[0], False, True)
    made: list[RelayExpr] = [values, relay.cast(inverse, "int64"), relay.cast(counts, "int64")]
    return made[: len(node.outputs)]


@converter("ExpandDims", domain=MICROSOFT)
def _expand_dims(node: OnnxNode) -> RelayExpr:
    """The axis is a number of the result."""
    axis = int(node.known(1, "axis").reshape(()))
    return relay.expand_dims(node[0], node.axis(axis, node.rank(node[0]) + 1))


@converter("CDist", domain=MICROSOFT)
def _distances(node: OnnxNode) -> RelayExpr:
    """T[M, N], T[K, N] -> T[M, K]: Euclid's distances of rows, or their squares."""
    metric = node.attrs.string("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise node.error(f"metric is euclidean or sqeuclidean, got {metric!r}")
    apart = relay.subtract(relay.expand_dims(node[0], 1), relay.expand_dims(node[1], 0))
    squares = relay.sum(relay.multiply(apart, apart), axis=[2])
    return relay.sqrt(squares) if metric == "euclidean" else squares


@converter("UnfoldTensor", domain=MICROSOFT)
def _unfold(node: OnnxNode) -> RelayExpr:
    """All slices of ``size`` elements along ``dim``, ``step`` apart, with their elements in a last axis."""
    axis = node.axis(node.attrs.int("dim", -1), node.rank(node[0]))
    size, step = node.attrs.int("size"), node.attrs.int("step", 1)
    (length,) = node.static_dims_of(node[0], [axis], "UnfoldTensor")
    if not 1 <= size <= length or step < 1:
        raise node.error(f"slices of {size} elements, {step} apart, cannot be taken of {length}")
    places = np.arange(0, length - size + 1, step)[:, None] + np.arange(size)
    taken = relay.take(node[0], constant(places.astype(np.int64)), axis=axis)
    order = [k for k in range(node.rank(taken)) if k != axis + 1]
    return relay.transpose(taken, axes=[*order, axis + 1])
