"""Where the greatest elements of windows stand: the second output of MaxPool. Source: ONNX MaxPool-8."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.converters.convolution import SlidingWindow
from byoc.relay.frontend.onnx.node import OnnxNode

ROW_MAJOR: Literal["C"] = "C"
COLUMN_MAJOR: Literal["F"] = "F"


def max_positions(node: OnnxNode, window: SlidingWindow, pooled: RelayExpr) -> RelayExpr:
    """int64, like *pooled*: the first of the greatest elements of each window, as a place in the flattened data."""
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
