"""Positions by order (TopK, ArgMax, ArgMin): between which ones noise of the values may choose."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from fuzz.judge.undefined import attribute

ORDERS = {"TopK": 1, "ArgMax": 0, "ArgMin": 0}  # operator -> which output has positions


def extreme_positions(
    node: NodeProto, value: np.ndarray, positions: np.ndarray, noise: float, last: bool
) -> np.ndarray:
    """For each of *positions* the first, or the *last*, of those whose element may stand there.

    An element comes before another for certain where their values in *value* differ by more than twice the *noise*.
    """
    axis = int(attribute(node, "axis", -1 if node.op_type == "TopK" else 0)) % value.ndim
    falling = node.op_type == "ArgMax" or (node.op_type == "TopK" and bool(attribute(node, "largest", 1)))
    kept = positions if positions.ndim == value.ndim else np.expand_dims(positions, axis)
    wide = np.moveaxis(-value.astype("float64") if falling else value.astype("float64"), axis, -1)
    count = kept.shape[axis]
    found = np.empty((*wide.shape[:-1], count), positions.dtype)
    for place in np.ndindex(wide.shape[:-1]):
        order = np.argsort(wide[place], kind="stable")
        row = wide[place][order]
        begins = np.searchsorted(np.searchsorted(row, row + 2 * noise, "right") - 1, np.arange(count), "left")
        ends = np.searchsorted(np.searchsorted(row, row - 2 * noise, "left"), np.arange(count), "right")
        choose = np.max if last else np.min
        found[place] = [choose(order[begin:end]) for begin, end in zip(begins, ends, strict=True)]
    return np.moveaxis(found, -1, axis).reshape(positions.shape)
