"""Slices, pads and parts by bounds that inputs of the run hold. Source: ONNX Slice-13, Pad-19, Split-18."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.size_var import plus
from byoc.ir.types import Dim
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.dims import matched
from byoc.relay.frontend.onnx.node import OnnxNode

_MODES = ("constant", "edge", "reflect", "wrap")


def number_of_run(node: OnnxNode, index: int, what: str, least: int) -> RelayExpr:
    """Input *index*, one number, as an int64 scalar; the run looks whether it is at least *least*."""
    return relay.reshape(relay.check_numbers(node[index], least, f"{node.place}: {what}"), [])


def item(numbers: RelayExpr, *places: int) -> RelayExpr:
    """One row or one number of a constant shape: ``T[n, ...] -> T[...]``."""
    for place in places:
        numbers = relay.take(numbers, constant(place, "int64"), axis=0)
    return numbers


def sliced_at_run_time(node: OnnxNode, data: RelayExpr, bounds: RelayExpr, kept: Sequence[Dim | None]) -> RelayExpr:
    """*data* cut by *bounds*, ``int64[3, rank]`` of the run; *kept* are the sizes that are not changed, else None."""
    cut = relay.strided_slice(data, item(bounds, 0), item(bounds, 1), item(bounds, 2))
    return matched(node, cut, kept)


def slice_of_run(node: OnnxNode) -> RelayExpr:
    """A Slice of which any list is known only when the model runs."""
    data, rank = node[0], node.rank(node[0])
    count = node.shape(node[1])[0] if node.rank(node[1]) else 1
    lists = [node.optional(k) for k in (3, 4)]
    axes, steps = (
        usual if given is None else given for usual, given in zip(_usual_lists(node[1], count), lists, strict=True)
    )
    bounds = relay.slice_bounds(data, node[1], node[2], axes, steps, node.place)
    known = node.value(3) if lists[0] is not None else np.arange(count) if isinstance(count, int) else None
    cut = range(rank) if known is None else [node.axis(int(a), rank) for a in known.reshape(-1)]
    return sliced_at_run_time(node, data, bounds, [None if k in cut else d for k, d in enumerate(node.shape(data))])


def _usual_lists(numbers: RelayExpr, count: Dim) -> tuple[RelayExpr, RelayExpr]:
    """The axes, from the first on, and the steps of a Slice that has as many *numbers*: *count*."""
    if isinstance(count, int):
        return constant(np.arange(count), "int64"), constant(np.ones(count), "int64")
    ones = relay.ones_like(relay.cast(numbers, "int64"))
    return relay.subtract(relay.cumsum(ones, axis=0), constant(1, "int64")), ones


def pad_of_run(node: OnnxNode, pads: RelayExpr, axes: RelayExpr, fill: float | RelayExpr) -> RelayExpr:
    """A Pad whose numbers, or axes, are known only when the model runs: first it cuts, then it pads."""
    mode = node.attrs.string("mode", "constant")
    if mode not in _MODES:
        raise node.error(f"mode is constant, edge, reflect or wrap, got {mode!r}")
    (given,), (count,) = node.shape(pads), node.shape(axes)
    if isinstance(given, int) and isinstance(count, int) and given != 2 * count:
        raise node.error(f"pads needs {2 * count} numbers for {count} axes, got {given}")
    return padded_by(node, node[0], pads, axes, mode, fill)


def padded_by(
    node: OnnxNode, data: RelayExpr, pads: RelayExpr, axes: RelayExpr, mode: str, fill: float | RelayExpr
) -> RelayExpr:
    """*data* cut and padded by *pads*, two numbers for each of *axes*."""
    bounds = relay.pad_bounds(data, pads, axes, mode, node.place)
    ones = constant(np.ones(node.rank(data), "int64"))
    data = relay.strided_slice(data, item(bounds, 0), item(bounds, 1), ones)
    width = relay.stack([item(bounds, 2), item(bounds, 3)], axis=1)
    return relay.nn.pad(data, width, fill, pad_mode=mode)


def wrapped_by_run(node: OnnxNode, data: RelayExpr, axis: int, before: int, after: int) -> RelayExpr:
    """*data* repeated around itself along *axis*, which has a free size from 1 on."""
    what = f"{node.place}: the size of axis {axis}, which is wrapped"
    size = relay.check_numbers(item(relay.shape_of(data, "int64"), axis), 1, what)
    end = relay.add(size, constant(after, "int64"))
    numbers = relay.arange(constant(-before, "int64"), end, constant(1, "int64"), dtype="int64")
    dims = list(node.shape(data))
    dims[axis] = plus(dims[axis], before + after)
    return matched(node, relay.take(data, relay.floor_mod(numbers, size), axis=axis), dims)


def split_of_run(node: OnnxNode, axis: int) -> list[RelayExpr]:
    """A Split whose sizes are known only when the model runs: as many as there are outputs."""
    count = len(node.outputs)
    if node.shape(node[1]) != (count,):
        raise node.error(f"{count} outputs need as many sizes of parts, got {node.type_of(node[1])}")
    return _split_into(node, node[1], axis)


def equal_parts_of_run(node: OnnxNode, axis: int) -> list[RelayExpr]:
    """A Split into equal parts, the last one smaller, of an axis whose size is known only when the model runs."""
    count = len(node.outputs)
    size = relay.take(relay.shape_of(node[0], "int64"), constant([axis], "int64"), axis=0)
    part = relay.floor_divide(relay.add(size, constant([count - 1], "int64")), constant([count], "int64"))
    last = relay.subtract(size, relay.multiply(part, constant([count - 1], "int64")))
    if node.opset < 18:  # parts that are not equal are refused by the bounds, which do not add up
        last = part
    sizes = relay.concatenate([part] * (count - 1) + [last], axis=0)
    return _split_into(node, sizes, axis)


def _split_into(node: OnnxNode, sizes: RelayExpr, axis: int) -> list[RelayExpr]:
    """Parts of the first input along *axis*, whose *sizes* are int64[n]."""
    data, count = node[0], len(node.outputs)
    bounds = relay.split_bounds(data, sizes, axis, node.place)
    kept = [None if k == axis else d for k, d in enumerate(node.shape(data))]

    def place(k: int) -> RelayExpr:
        return relay.take(bounds, constant([k], "int64"), axis=0)

    step = constant(np.ones(1, "int64"))
    parts = [relay.strided_slice(data, place(k), place(k + 1), step, axes=[axis]) for k in range(count)]
    return [matched(node, part, kept) for part in parts]
