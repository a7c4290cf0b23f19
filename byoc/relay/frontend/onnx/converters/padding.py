"""Padding. Source: ONNX Pad-1/2/11/13/18/19."""

from __future__ import annotations

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.types import Any
from byoc.relay.expr import Constant, constant
from byoc.relay.frontend.onnx.dims import matched
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.run_time.axes import is_of_run
from byoc.relay.frontend.onnx.run_time.slices import pad_of_run, wrapped_by_run

OF_SIZES = ("constant", "edge", "reflect")  # modes whose pads may be computed from named sizes
MOST_POSITIONS = 1 << 24  # of a dimension that wraps, each of which the module keeps


@converter("Pad")
def _pad_attributes(node: OnnxNode) -> RelayExpr:
    pads = node.attrs.ints("paddings" if "paddings" in node.attrs else "pads")
    return _padded(node, pads, node.attrs.float("value", 0.0))


@converter("Pad", since=11)
def _pad(node: OnnxNode) -> RelayExpr:
    rank = node.rank(node[0])
    of_sizes = node.value(1) is None and node.services.dims(node[1]) is not None  # computed from sizes that have names
    if is_of_run(node, 3) or (is_of_run(node, 1) and not (of_sizes and _mode(node) in OF_SIZES)):
        axes_of_all = constant(np.arange(rank), "int64")
        return pad_of_run(node, node[1], axes_of_all if node.optional(3) is None else node[3], _fill(node))
    axes = [node.axis(a, rank) for a in node.ints(3, "axes", list(range(rank)))]
    if of_sizes:
        return _padded_by_sizes(node, axes)
    given = [int(v) for v in node.known(1, "pads").reshape(-1)]
    if len(given) != 2 * len(axes):
        raise node.error(f"pads needs {2 * len(axes)} numbers for {len(axes)} axes, got {len(given)}")
    pads = [0] * (2 * rank)
    for k, axis in enumerate(axes):
        pads[axis], pads[rank + axis] = given[k], given[len(axes) + k]
    return _padded(node, pads, _fill(node))


def _padded_by_sizes(node: OnnxNode, axes: list[int]) -> RelayExpr:
    """By pads that the model computes: the sizes of what they do not touch stay known."""
    shape, count, mode = node.shape(node[0]), len(axes), _mode(node)
    if node.static_dims(node[1], "pads") != (2 * count,):
        raise node.error(f"pads needs {2 * count} numbers for {count} axes, got {node.type_of(node[1])}")
    pads, none = relay.cast(node[1], "int64"), constant(np.zeros(1, "int64"))
    parts: list[RelayExpr] = [none] * (2 * len(shape))
    dims: list[int | Any | None] = list(shape)
    known = node.services.dims(node[1]) or (None,) * (2 * count)
    for k, axis in enumerate(axes):
        size, sides = shape[axis], (known[k], known[count + k])
        for side, place in enumerate((k, count + k)):
            parts[2 * axis + side] = relay.strided_slice(pads, begin=[place], end=[place + 1], strides=[1])
        if sides != (0, 0):
            numbers = [d for d in (size, *sides) if isinstance(d, int)]
            dims[axis] = sum(numbers) if len(numbers) == 3 else None
    pairs = relay.reshape(relay.concatenate(parts, axis=0), [len(shape), 2])
    return matched(node, relay.nn.pad(node[0], pairs, _fill(node), mode), dims)


def _mode(node: OnnxNode) -> str:
    return node.attrs.string("mode", "constant")


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
    mode = _mode(node)
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
    for axis, ((before, after), size) in enumerate(zip(width, node.shape(data), strict=True)):
        if not before and not after:
            continue
        if isinstance(size, Any):
            data = wrapped_by_run(node, data, axis, before, after)
            continue
        count = before + size + after
        if not size or count > MOST_POSITIONS:
            raise node.error(
                f"wrapping {size} elements to {count} of dimension {axis} is not supported: "
                f"at least 1, and at most {MOST_POSITIONS}"
            )
        positions = np.arange(-before, size + after, dtype="int64") % size
        data = relay.take(data, constant(positions, "int64"), axis=axis)
    return data
