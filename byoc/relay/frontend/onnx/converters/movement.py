"""Moving elements without computing: transposes, joins, cuts, repetitions."""

from __future__ import annotations

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.types import Any
from byoc.relay.expr import Call, Constant, constant
from byoc.relay.frontend.onnx.converters.constants import MAX_ELEMENTS
from byoc.relay.frontend.onnx.dims import matched
from byoc.relay.frontend.onnx.node import OnnxNode, SingleSlice
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.run_time.axes import is_of_run
from byoc.relay.frontend.onnx.run_time.list_lengths import with_length
from byoc.relay.frontend.onnx.run_time.slices import equal_parts_of_run, slice_of_run, split_of_run
from byoc.relay.narrowing import tensor_type

INT32_MAX = 2**31 - 1


@converter("Transpose")
def _transpose(node: OnnxNode) -> RelayExpr:
    rank = node.rank(node[0])
    axes = node.attrs.ints("perm", list(reversed(range(rank))))
    if sorted(axes) != list(range(rank)):
        raise node.error(f"perm must name each of the {rank} dimensions once, got {axes}")
    return relay.transpose(node[0], axes=axes)


@converter("Concat")
def _concat_old(node: OnnxNode) -> RelayExpr:
    return _joined(node, node.attrs.int("axis", 1))


@converter("Concat", since=4)
def _concat(node: OnnxNode) -> RelayExpr:
    return _joined(node, node.attrs.int("axis"))


def _joined(node: OnnxNode, axis: int) -> RelayExpr:
    parts = node.required_inputs()
    if not parts:
        raise node.error("has no input to join")
    axis = node.axis(axis, max(map(node.rank, parts)))
    # what a loop begins with is often empty, with other sizes than what is joined to it
    parts = [part for part in parts if axis >= node.rank(part) or node.shape(part)[axis] != 0] or parts[:1]
    return parts[0] if len(parts) == 1 else relay.concatenate(parts, axis=axis)


@converter("Split")
def _split(node: OnnxNode) -> list[RelayExpr]:
    count = len(node.outputs)
    axis = node.axis(node.attrs.int("axis", 0), node.rank(node[0]))
    if is_of_run(node, 1):
        return split_of_run(with_length(node, 1, count), axis)
    size = node.shape(node[0])[axis]
    sizes = node.ints(1, "split", [])
    if not sizes and count > 1 and isinstance(size, Any) and node.attrs.int("num_outputs", count) == count:
        return equal_parts_of_run(node, axis)
    if not sizes:
        sizes = _equal_parts(node, size, node.attrs.int("num_outputs", count))
    if len(sizes) != count:
        raise node.error(f"{len(sizes)} parts {sizes} for {count} outputs")
    if isinstance(size, int) and sum(sizes) != size:
        raise node.error(f"the parts {sizes} do not add up to the size {size} of axis {axis}")
    if count == 1:
        return [node[0]]
    whole = relay.split(node[0], [int(v) for v in np.cumsum(sizes)[:-1]], axis=axis)
    return [whole[k] for k in range(count)]


def _equal_parts(node: OnnxNode, size: int | Any, count: int) -> list[int]:
    """*count* parts of one size; the last is smaller where it does not divide (opset 18)."""
    if isinstance(size, Any):
        raise node.error("splitting a dynamic dimension needs the sizes of the parts; give the input split")
    part = -(-size // count)
    last = size - part * (count - 1)
    if last < 0 or (last != part and node.opset < 18):
        raise node.error(f"the size {size} does not divide into {count} equal parts")
    return [part] * (count - 1) + [last]


@converter("Slice")
def _slice_attributes(node: OnnxNode) -> RelayExpr:
    starts, ends = node.attrs.ints("starts"), node.attrs.ints("ends")
    return _sliced(node, starts, ends, node.attrs.ints("axes", list(range(len(starts)))), [1] * len(starts))


@converter("Slice", since=10)
def _slice(node: OnnxNode) -> RelayExpr:
    starts, ends = node.value(1), node.value(2)
    if is_of_run(node, 3) or is_of_run(node, 4):
        return slice_of_run(node)
    if starts is None or ends is None:
        return _slice_dynamic(node)
    count = starts.size
    axes = node.ints(3, "axes", list(range(count)))
    steps = node.ints(4, "steps", [1] * count)
    return _sliced(node, [int(v) for v in starts.reshape(-1)], [int(v) for v in ends.reshape(-1)], axes, steps)


def _sliced(node: OnnxNode, starts: list[int], ends: list[int], axes: list[int], steps: list[int]) -> RelayExpr:
    """Python's slices, but that a start before the data is its first element for a negative step too (Slice-10)."""
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise node.error(f"starts {starts}, ends {ends}, axes {axes} and steps {steps} must be equally many")
    if 0 in steps:
        raise node.error("a step of 0 does not move")
    shape = node.shape(node[0])
    begin: list[int] = []
    end: list[int] = []
    chosen = [node.axis(a, len(shape)) for a in axes]
    for axis, start, stop, step in zip(chosen, starts, ends, steps, strict=True):
        size = shape[axis]
        if isinstance(size, int):
            start, stop, _ = slice(start, stop, step).indices(size)
            if step < 0:
                start, stop = max(start, 0), stop if stop >= 0 else -size - 1
        elif step < 0 and start < -1:
            return slice_of_run(node)  # the run says whether it starts before the data
        begin.append(max(min(start, INT32_MAX), -INT32_MAX))
        end.append(max(min(stop, INT32_MAX), -INT32_MAX))
    return relay.strided_slice(node[0], begin=begin, end=end, strides=steps, axes=chosen)


def _slice_dynamic(node: OnnxNode) -> RelayExpr:
    """Bounds that are known at run time only: every axis gets one, whole where none is given.

    The run says how many there are where that is free.
    """
    rank, count = node.rank(node[0]), node.shape(node[1])[0]
    if not isinstance(count, int):
        return slice_of_run(node)
    if count > rank:
        raise node.error(f"{count} starts for data of {rank} dimensions")
    axes = [node.axis(a, rank) for a in node.ints(3, "axes", list(range(count)))]
    steps = node.ints(4, "steps", [1] * count)
    if min(steps, default=1) < 1:
        return slice_of_run(node)
    begin = _full_rank(node, node[1], axes, rank, 0)
    end = _full_rank(node, node[2], axes, rank, INT32_MAX)
    strides = [steps[axes.index(axis)] if axis in axes else 1 for axis in range(rank)]
    cut = relay.strided_slice(node[0], begin, end, constant(np.array(strides, "int64")))
    found = matched(node, cut, [None if axis in axes else size for axis, size in enumerate(node.shape(node[0]))])
    if count == 1 and steps == [1]:
        (start, first), (end, last) = _offset(node[1]), _offset(node[2])
        if start is end and last == first + 1:
            node.services.single_slices[found] = SingleSlice(node[0], axes[0], node[1])
    return found


def _offset(number: RelayExpr) -> tuple[RelayExpr, int]:
    """What *number*, one integer, is counted from by adding constants, and their sum."""
    total = 0
    while isinstance(number, Call) and isinstance(number.op, Op):
        op = number.op
        constants = [a for a in number.args if isinstance(a, Constant)]
        if op.name == "add" and len(constants) == 1 and constants[0].data.numpy().size == 1:
            total += int(constants[0].data.numpy().item())
            (number,) = (a for a in number.args if a is not constants[0])
        elif op.traits.is_view or (op.name == "cast" and "int" in tensor_type(number.args[0]).dtype):
            number = number.args[0]
        else:
            break
    return number, total


def _full_rank(node: OnnxNode, bounds: RelayExpr, axes: list[int], rank: int, default: int) -> RelayExpr:
    wide = relay.cast(bounds, "int64") if node.dtype(bounds) != "int64" else bounds
    filler = constant(np.array([default], "int64"))
    parts = [
        relay.strided_slice(wide, begin=[axes.index(axis)], end=[axes.index(axis) + 1], strides=[1])
        if axis in axes
        else filler
        for axis in range(rank)
    ]
    return relay.concatenate(parts, axis=0) if rank > 1 else parts[0]


@converter("Tile")
def _tile_old(node: OnnxNode) -> RelayExpr:
    """Opset 1: a number of copies along one axis."""
    axis = int(node.known(2, "axis").reshape(()))
    repeats = [1] * node.rank(node[0])
    repeats[node.axis(axis, len(repeats))] = int(node.known(1, "tiles").reshape(()))
    return relay.tile(node[0], repeats)


@converter("Tile", since=6)
def _tile(node: OnnxNode) -> RelayExpr:
    repeats, rank = node.value(1), node.rank(node[0])
    node = with_length(node, 1, rank)
    (count,) = node.shape(node[1]) if node.rank(node[1]) == 1 else (None,)
    if count is None or (isinstance(count, int) and count != rank):
        raise node.error(
            f"repeats has the type {node.type_of(node[1])}: one number for each of the {rank} axes is needed"
        )
    return relay.tile(node[0], node[1] if repeats is None else [int(v) for v in repeats.reshape(-1)])


@converter("DepthToSpace")
def _depth_to_space(node: OnnxNode) -> RelayExpr:
    mode = node.attrs.string("mode", "DCR")
    return relay.nn.depth_to_space(node[0], node.attrs.int("blocksize"), layout="NCHW", mode=mode)


@converter("SpaceToDepth")
def _space_to_depth(node: OnnxNode) -> RelayExpr:
    block, mode = node.attrs.int("blocksize"), node.attrs.string("mode", "DCR")
    if mode == "DCR":
        return relay.nn.space_to_depth(node[0], block, layout="NCHW")
    if mode != "CRD":
        raise node.error(f"mode is DCR or CRD, got {mode!r}")
    batch, channels, height, width = node.static_dims(node[0], "mode CRD")
    if height % block or width % block:
        raise node.error(f"blocks of {block} do not divide an image of {height} x {width}")
    split = relay.reshape(node[0], [batch, channels, height // block, block, width // block, block])
    moved = relay.transpose(split, axes=[0, 1, 3, 5, 2, 4])
    return relay.reshape(moved, [batch, channels * block * block, height // block, width // block])


@converter("Trilu")
def _trilu(node: OnnxNode) -> RelayExpr:
    """A mask of the triangle selects the elements that stay; it is made when importing where the sizes are known."""
    if node.rank(node[0]) < 2:
        raise node.error(f"the data must have at least 2 dimensions, got {node.type_of(node[0])}")
    rows, columns = node.shape(node[0])[-2:]
    data, upper = node[0], node.attrs.flag("upper", True)
    diagonal = node.value(1) if node.optional(1) is not None else np.zeros((), np.int64)
    if isinstance(rows, Any) or isinstance(columns, Any) or diagonal is None:
        k = constant(diagonal.reshape(())) if diagonal is not None else relay.reshape(node[1], [])
        row, column = (_counted(node, data, node.rank(data) - back) for back in (2, 1))
        distance = relay.subtract(relay.expand_dims(column, 0), relay.expand_dims(row, 1))
        mask: RelayExpr = relay.greater_equal(distance, k) if upper else relay.less_equal(distance, k)
    else:
        if rows * columns > MAX_ELEMENTS:
            raise node.error(f"a mask of {rows} x {columns} elements is more than can be made when importing")
        positions = np.arange(columns)[None, :] - np.arange(rows)[:, None]
        mask = constant(positions >= int(diagonal.reshape(())) if upper else positions <= int(diagonal.reshape(())))
    return relay.where(mask, data, relay.zeros_like(data))


def _counted(node: OnnxNode, data: RelayExpr, axis: int) -> RelayExpr:
    """``0, 1, ...`` up to the size of a dimension of *data*."""
    size = relay.take(relay.shape_of(data, "int64"), constant(axis, "int64"))
    numbers = relay.arange(constant(0, "int64"), size, constant(1, "int64"), dtype="int64")
    return matched(node, numbers, [node.shape(data)[axis]])
