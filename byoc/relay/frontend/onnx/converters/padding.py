"""Padding. Source: ONNX Pad-1/2/11/13/18/19."""

from __future__ import annotations

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.types import Any
from byoc.relay.expr import Constant, constant
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter

MOST_POSITIONS = 1 << 24  # of a dimension that wraps, each of which the module keeps


@converter("Pad")
def _pad_attributes(node: OnnxNode) -> RelayExpr:
    pads = node.attrs.ints("paddings" if "paddings" in node.attrs else "pads")
    return _padded(node, pads, node.attrs.float("value", 0.0))


@converter("Pad", since=11)
def _pad(node: OnnxNode) -> RelayExpr:
    rank = node.rank(node[0])
    given = [int(v) for v in node.known(1, "pads").reshape(-1)]
    axes = [node.axis(a, rank) for a in node.ints(3, "axes", list(range(rank)))]
    if len(given) != 2 * len(axes):
        raise node.error(f"pads needs {2 * len(axes)} numbers for {len(axes)} axes, got {len(given)}")
    pads = [0] * (2 * rank)
    for k, axis in enumerate(axes):
        pads[axis], pads[rank + axis] = given[k], given[len(axes) + k]
    return _padded(node, pads, _fill(node))


def _fill(node: OnnxNode) -> float | RelayExpr:
    fill = node.optional(2)
    if node.dtype(node[0]) == "string":
        return constant(np.array("", object)) if fill is None else relay.reshape(fill, ())
    if fill is None:
        return 0.0
    if isinstance(fill, Constant):
        result: float | RelayExpr = fill.data.numpy().reshape(()).item()
        return result
    return relay.squeeze(fill) if node.rank(fill) else fill


def _padded(node: OnnxNode, pads: list[int], fill: float | RelayExpr) -> RelayExpr:
    """Negative padding cuts; the rest pads by the mode."""
    rank = node.rank(node[0])
    if len(pads) != 2 * rank:
        raise node.error(f"pads needs {2 * rank} numbers for {rank} dimensions, got {len(pads)}")
    mode = node.attrs.string("mode", "constant")
    if mode == "constant":
        pads = _within(node, pads)
    data = _cut(node, pads, rank)
    width = [(max(pads[axis], 0), max(pads[rank + axis], 0)) for axis in range(rank)]
    if not any(before or after for before, after in width):
        return data
    if mode == "wrap":
        return _wrapped(node, data, width)
    if mode not in ("constant", "edge", "reflect"):
        raise node.error(f"mode is constant, edge, reflect or wrap, got {mode!r}")
    if mode == "reflect":
        for (before, after), size in zip(width, node.shape(data), strict=True):
            if isinstance(size, int) and max(before, after) >= size:
                raise node.error(f"reflecting {max(before, after)} elements needs more than the {size} that there are")
    if mode == "constant":
        return relay.nn.pad(data, width, fill)
    return relay.nn.pad(data, width, pad_mode=mode)


def _within(node: OnnxNode, pads: list[int]) -> list[int]:
    """*pads* where no side cuts more than there is: what it lacks, the padding of the other side loses."""
    shape, found = node.shape(node[0]), list(pads)
    for axis, size in enumerate(shape):
        before, after = pads[axis], pads[len(shape) + axis]
        if not isinstance(size, int):
            continue
        if size + before + after < 0:
            raise node.error(f"pads cut {-before - after} elements of the {size} of dimension {axis}")
        lacking = max(-before - size, 0), max(-after - size, 0)
        found[axis], found[len(shape) + axis] = before + lacking[0] - lacking[1], after + lacking[1] - lacking[0]
    return found


def _cut(node: OnnxNode, pads: list[int], rank: int) -> RelayExpr:
    axes = [axis for axis in range(rank) if pads[axis] < 0 or pads[rank + axis] < 0]
    if not axes:
        return node[0]
    begin = [max(-pads[axis], 0) for axis in axes]
    end: list[int] = []
    for axis in axes:
        size = node.shape(node[0])[axis]
        cut = max(-pads[rank + axis], 0)
        if isinstance(size, Any) and not cut:
            end.append(2**31 - 1)
        else:
            end.append(-cut if isinstance(size, Any) else size - cut)
    return relay.strided_slice(node[0], begin=begin, end=end, strides=[1] * len(axes), axes=axes)


def _wrapped(node: OnnxNode, data: RelayExpr, width: list[tuple[int, int]]) -> RelayExpr:
    """The data repeated around themselves, axis by axis, as positions modulo the size."""
    sizes = node.static_dims(data, "padding that wraps")
    for axis, ((before, after), size) in enumerate(zip(width, sizes, strict=True)):
        if before or after:
            count = before + size + after
            if not size or count > MOST_POSITIONS:
                raise node.error(
                    f"wrapping {size} elements to {count} of dimension {axis} is not supported: "
                    f"at least 1, and at most {MOST_POSITIONS}"
                )
            positions = np.arange(-before, size + after, dtype="int64") % size
            data = relay.take(data, constant(positions, "int64"), axis=axis)
    return data
