"""Updates written into caches of keys and values, whose sizes may be free. Source: ONNX TensorScatter-24."""

from __future__ import annotations

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.converters.lengths import lengths_along
from byoc.relay.frontend.onnx.dims import matched
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.run_time.slices import item


@converter("TensorScatter")
def _tensor_scatter(node: OnnxNode) -> RelayExpr:
    """The update written into the cache: each place takes what the update has for it, else what it had."""
    cache, update = node[0], node[1]
    rank, mode = node.rank(cache), node.attrs.string("mode", "linear")
    axis = node.axis(node.attrs.int("axis", -2), rank)
    if axis == 0 or node.rank(update) != rank or mode not in ("linear", "circular"):
        raise node.error(
            f"writes {node.type_of(update)} into {node.type_of(cache)} along axis {axis}, mode {mode!r}: the axis "
            "cannot be 0, both have as many dimensions, and mode is linear or circular"
        )
    size, count = _size(node, cache, axis), _checked_count(node, axis)
    if node.optional(2) is None:
        whole = relay.concatenate([update, _behind(cache, axis, count, size)], axis=axis)
        return matched(node, whole, node.shape(cache))
    # of a linear update the last place to begin is where it just fits
    writes = node[2] if mode == "circular" else lengths_along(node, 2, _counted(_less(size, count)), 0)
    places = matched(node, _counted(size), [node.shape(cache)[axis]])
    distance = relay.subtract(relay.expand_dims(places, 0), relay.expand_dims(relay.cast(writes, "int64"), 1))
    if mode == "circular":
        distance = relay.floor_mod(distance, _scalar(size))
    written = relay.logical_and(
        relay.greater_equal(distance, constant(0, "int64")), relay.less(distance, _scalar(count))
    )
    moved = _moved(node, update, distance, axis, count)
    mask = relay.expand_dims(written, 1, axis - 1)
    mask = relay.expand_dims(mask, -1, rank - axis - 1) if axis < rank - 1 else mask
    return matched(node, relay.where(mask, moved, cache), node.shape(cache))


def _moved(node: OnnxNode, update: RelayExpr, distance: RelayExpr, axis: int, count: int | RelayExpr) -> RelayExpr:
    """For each place along *axis* of the cache the element of *update* at its *distance*, or any where it has none."""
    rank = node.rank(update)
    if isinstance(count, int):
        inside = relay.clip(distance, 0, count - 1)
    else:
        last = relay.subtract(count, constant(1, "int64"))
        inside = relay.minimum(relay.maximum(distance, constant(0, "int64")), last)
    order = [0, axis, *(k for k in range(1, rank) if k != axis)]
    taken = relay.transpose(update, axes=order)
    moved = relay.gather_nd(taken, relay.expand_dims(inside, 0), batch_dims=1, index_rank=1)
    return relay.transpose(moved, axes=[order.index(k) for k in range(rank)])


def _size(node: OnnxNode, data: RelayExpr, axis: int) -> int | RelayExpr:
    """The size of *data* along *axis*; an int64 scalar where it is free."""
    size = node.shape(data)[axis]
    return size if isinstance(size, int) else item(relay.shape_of(data, "int64"), axis)


def _checked_count(node: OnnxNode, axis: int) -> int | RelayExpr:
    """How many places the update has, 1 to as many as the cache: looked at now where it is known, else by the run."""
    size, count = (_size(node, value, axis) for value in (node[0], node[1]))
    if isinstance(size, int) and isinstance(count, int):
        if not 0 < count <= size:
            raise node.error(f"an update of {count} does not fit a cache of {size}")
        return count
    what = f"{node.place}: the size of the update along axis {axis}"
    least = relay.check_numbers(_scalar(count), 1, what)
    room = relay.check_numbers(relay.subtract(_scalar(size), least), 0, f"{what} less than that of the cache")
    return relay.subtract(_scalar(size), room)


def _behind(cache: RelayExpr, axis: int, count: int | RelayExpr, size: int | RelayExpr) -> RelayExpr:
    """The places of the cache from *count* on."""
    if isinstance(count, int) and isinstance(size, int):
        return relay.strided_slice(cache, begin=[count], end=[size], strides=[1], axes=[axis])
    begin, end = (relay.reshape(_scalar(bound), [1]) for bound in (count, size))
    return relay.strided_slice(cache, begin, end, constant([1], "int64"), axes=[axis])


def _counted(size: int | RelayExpr) -> RelayExpr:
    """The numbers from 0 to *size*."""
    if isinstance(size, int):
        return constant(np.arange(size))
    return relay.arange(constant(0, "int64"), size, constant(1, "int64"), dtype="int64")


def _less(a: int | RelayExpr, b: int | RelayExpr) -> int | RelayExpr:
    return a - b if isinstance(a, int) and isinstance(b, int) else relay.subtract(_scalar(a), _scalar(b))


def _scalar(number: int | RelayExpr) -> RelayExpr:
    return constant(number, "int64") if isinstance(number, int) else number
