"""Where the greatest elements of windows stand: the second output of MaxPool. Source: ONNX MaxPool-8.

Each window names the places in its image that it covers, padding the first of them; the first of its greatest elements
is found among these. The places are a table that is made when importing, and for free sizes one that the run makes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from byoc import relay
from byoc.ir.dims import are_numbers
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.converters.convolution import SlidingWindow
from byoc.relay.frontend.onnx.dims import matched
from byoc.relay.frontend.onnx.node import OnnxNode

ROW_MAJOR: Literal["C"] = "C"
COLUMN_MAJOR: Literal["F"] = "F"


def max_positions(node: OnnxNode, window: SlidingWindow, pooled: RelayExpr) -> RelayExpr:
    """int64, like *pooled*: the first of the greatest elements of each window, as a place in the flattened data."""
    if not are_numbers(node.shape(node[0])):
        return _positions_of_run(node, window, pooled)
    batch, channels, *sizes = node.static_dims(node[0], "the output Indices")
    rows, outputs = batch * channels, node.static_dims(pooled, "the output Indices")[2:]
    area, count = math.prod(sizes), math.prod(outputs)
    places, inside = _places(window, sizes, outputs)
    order = COLUMN_MAJOR if node.attrs.flag("storage_order") else ROW_MAJOR
    read = constant(_flat(places, inside, sizes, ROW_MAJOR))
    seen = relay.take(relay.reshape(node[0], [rows, area]), read, axis=1)
    best = relay.cast(relay.argmax(seen, axis=[1]), "int64")
    cells = relay.add(relay.multiply(best, constant(count, "int64")), constant(np.arange(count)))
    named = relay.take(constant(_flat(places, inside, sizes, order).reshape(-1)), cells, axis=0)
    starts = constant(np.arange(rows).reshape(-1, 1) * area)
    return relay.reshape(relay.add(named, starts), [batch, channels, *outputs])


def _places(window: SlidingWindow, sizes: Sequence[int], outputs: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The coordinates ``[axis, offset, output]`` of what windows cover, and which of them are no padding."""
    rank = len(sizes)
    offsets = np.indices(window.kernel).reshape(rank, -1, 1) * np.reshape(window.dilations, (rank, 1, 1))
    starts = np.indices(outputs).reshape(rank, 1, -1) * np.reshape(window.strides, (rank, 1, 1))
    places = offsets + starts - np.reshape(window.pads[:rank], (rank, 1, 1))
    return places, ((places >= 0) & (places < np.reshape(sizes, (rank, 1, 1)))).all(axis=0)


def _flat(places: np.ndarray, inside: np.ndarray, sizes: Sequence[int], order: Literal["C", "F"]) -> np.ndarray:
    """The places ``[offset, output]`` in the flattened image; padding repeats what a window covers first."""
    flat = np.ravel_multi_index(tuple(places), tuple(sizes), mode="clip", order=order)
    first = np.take_along_axis(flat, inside.argmax(axis=0)[None], axis=0)
    return np.where(inside, flat, first).astype("int64")


def _positions_of_run(node: OnnxNode, window: SlidingWindow, pooled: RelayExpr) -> RelayExpr:
    """:func:`max_positions` for sizes that the run knows: the tables of places are made of them."""
    rank = len(window.kernel)
    shape, found = relay.shape_of(node[0], "int64"), relay.shape_of(pooled, "int64")
    sizes, outputs = ([_at(of, k + 2) for k in range(rank)] for of in (shape, found))
    axes = [_axis_places(node, window, k, sizes[k], outputs[k], rank) for k in range(rank)]
    images = _count(relay.multiply(_at(shape, 0), _at(shape, 1)))
    starts = relay.multiply(images, _product(sizes))

    def cells(order: Iterable[int]) -> RelayExpr:
        """The places ``[image, offset, output]`` in all of the data."""
        inside = relay.reshape(_joined(axes, sizes, order), [1, math.prod(window.kernel), -1])
        return relay.add(relay.reshape(starts, [-1, 1, 1]), inside)

    read = cells(reversed(range(rank)))
    seen = relay.take(relay.reshape(node[0], [-1]), read, axis=0)
    best = relay.expand_dims(relay.cast(relay.argmax(seen, axis=[1]), "int64"), 1)
    named = cells(range(rank)) if node.attrs.flag("storage_order") else read
    places = relay.reshape(relay.gather(named, 1, best), found)
    return matched(node, places, node.shape(pooled))


def _axis_places(
    node: OnnxNode, window: SlidingWindow, axis: int, size: RelayExpr, outputs: RelayExpr, rank: int
) -> RelayExpr:
    """int64: along *axis* the places ``[offset, output]`` that windows cover, the first for padding; with axes of 1 for
    the other offsets and outputs.
    """
    count, step, apart = window.kernel[axis], window.strides[axis], window.dilations[axis]
    begin = _begin_of_run(node, window, axis, size, outputs) if axis in window.of_run else _number(window.pads[axis])
    starts = relay.subtract(relay.multiply(_count(outputs), _number(step)), begin)
    before = relay.maximum(relay.negative(starts), _number(0))  # padding before the first element
    skipped = relay.floor_divide(relay.add(before, _number(apart - 1)), _number(apart))
    first = relay.add(starts, relay.multiply(skipped, _number(apart)))
    offsets = constant(np.arange(count, dtype="int64").reshape(-1, 1) * apart)
    places = relay.add(relay.expand_dims(starts, 0), offsets)
    inside = relay.logical_and(relay.greater_equal(places, _number(0)), relay.less(places, size))
    places = relay.where(inside, places, relay.expand_dims(first, 0))
    others = [a for a in range(2 * rank) if a not in (axis, axis + rank)]
    for other in others:
        places = relay.expand_dims(places, other)
    return places


def _begin_of_run(node: OnnxNode, window: SlidingWindow, axis: int, size: RelayExpr, outputs: RelayExpr) -> RelayExpr:
    """The padding before *axis* that ``auto_pad`` gives for this size."""
    reach = relay.add(
        relay.multiply(relay.subtract(outputs, _number(1)), _number(window.strides[axis])),
        _number(window.extents[axis]),
    )
    total = relay.maximum(relay.subtract(reach, size), _number(0))
    half = relay.floor_divide(total, _number(2))
    return half if node.attrs.string("auto_pad", "") == "SAME_UPPER" else relay.subtract(total, half)


def _joined(axes: Sequence[RelayExpr], sizes: Sequence[RelayExpr], order: Iterable[int]) -> RelayExpr:
    """The places of all axes together in the flattened image; *order* are the axes, that of the shortest step first."""
    total, step = None, None
    for axis in order:
        part = axes[axis] if step is None else relay.multiply(axes[axis], step)
        total = part if total is None else relay.add(total, part)
        step = sizes[axis] if step is None else relay.multiply(step, sizes[axis])
    assert total is not None
    return total


def _product(sizes: Sequence[RelayExpr]) -> RelayExpr:
    return functools.reduce(relay.multiply, sizes)


def _at(shape: RelayExpr, index: int) -> RelayExpr:
    """A size as a number."""
    return relay.take(shape, constant(index, "int64"), axis=0)


def _number(value: int) -> RelayExpr:
    return constant(value, "int64")


def _count(end: RelayExpr) -> RelayExpr:
    """0, 1, 2 and so on, before *end*."""
    return relay.arange(_number(0), end, _number(1), dtype="int64")
