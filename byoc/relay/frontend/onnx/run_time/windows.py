"""Windows whose padding the run finds, by sizes that it knows. Source: ONNX Conv-11, ConvTranspose-11, MaxPool-12."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc import relay
from byoc.ir.dims import are_numbers
from byoc.ir.expr import RelayExpr
from byoc.ir.size_var import plus
from byoc.ir.types import Any, Dim
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.dims import matched
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.run_time.slices import item, padded_by


@dataclass(frozen=True)
class StridedAxis:
    """An axis on which a window moves by *stride* and covers *extent* elements, which may be an int64 scalar."""

    axis: int
    stride: int
    extent: int | RelayExpr


def strided_axes(weight: RelayExpr, strides: Sequence[int], dilations: Sequence[int]) -> list[StridedAxis]:
    """The spatial axes of a convolution whose *weight* has a window of free sizes."""
    shape, one = relay.shape_of(weight, "int64"), constant(1, "int64")
    extents = [
        relay.add(relay.multiply(relay.subtract(item(shape, k + 2), one), constant(dilation, "int64")), one)
        for k, dilation in enumerate(dilations)
    ]
    return [StridedAxis(k + 2, *each) for k, each in enumerate(zip(strides, extents, strict=True))]


def padded_to_strides(node: OnnxNode, data: RelayExpr, windows: Sequence[StridedAxis], fill: float | int) -> RelayExpr:
    """*data* with *fill* around it, so that each of *windows* finds as many as strides.

    Which side has more of it, the node's ``auto_pad`` says. Along an axis it is the extent less one in all, so that
    the number of windows has a name.
    """
    more_at_end = node.attrs.string("auto_pad") == "SAME_UPPER"
    dims: list[Dim | None] = list(node.shape(data))
    shape = relay.shape_of(data, "int64")
    pairs: list[RelayExpr] = [constant(np.zeros(2, "int64")) for _ in dims]
    for each in windows:
        room = _room(each.extent)
        before = _before(item(shape, each.axis), each, room, more_at_end)
        pairs[each.axis] = relay.stack([before, relay.subtract(room, before)], axis=0)
        size, extent = dims[each.axis], each.extent
        dims[each.axis] = plus(size, extent - 1) if isinstance(size, Any) and isinstance(extent, int) else None
    return matched(node, relay.nn.pad(data, relay.stack(pairs, axis=0), node.like(fill, data)), dims)


def _room(extent: int | RelayExpr) -> RelayExpr:
    """An int64 scalar: one less than *extent*."""
    return constant(extent - 1, "int64") if isinstance(extent, int) else relay.subtract(extent, constant(1, "int64"))


def _before(size: RelayExpr, window: StridedAxis, room: RelayExpr, more_at_end: bool) -> RelayExpr:
    """An int64 scalar: the padding before an axis of *size*."""
    rest = relay.floor_mod(relay.subtract(size, constant(1, "int64")), constant(window.stride, "int64"))
    total = relay.subtract(room, rest)
    if not isinstance(window.extent, int) or window.stride > window.extent:
        total = relay.maximum(total, constant(0, "int64"))
    rounded = total if more_at_end else relay.add(total, constant(1, "int64"))
    return relay.floor_divide(rounded, constant(2, "int64"))


def cut_to(
    node: OnnxNode, full: RelayExpr, sizes: Sequence[Dim], strides: Sequence[int], extra: Sequence[int]
) -> RelayExpr:
    """*full*, a transposed convolution without padding, cut at both ends to *sizes*, or with zeros behind.

    Args:
        node: its ``auto_pad`` says which end loses more.
        full: ``T[N, K, *out]``.
        sizes: along each spatial axis; a free one is the data's size times the stride.
        strides: how far a window moves along each.
        extra: the output padding along each, which comes before the cut.
    """
    count = len(sizes)
    behind = constant(np.arange(2, count + 2), "int64")
    found = relay.take(relay.shape_of(full, "int64"), behind, axis=0)
    wanted: RelayExpr
    if are_numbers(tuple(sizes)):
        wanted = constant(sizes, "int64")
    else:
        data = relay.take(relay.shape_of(node[0], "int64"), behind, axis=0)
        wanted = relay.multiply(data, constant(strides, "int64"))
    more, zero = constant(extra, "int64"), constant(0, "int64")
    total = relay.subtract(relay.add(found, more), wanted)
    cut = relay.maximum(total, zero)
    half = relay.floor_divide(cut, constant(2, "int64"))
    begin = half if node.attrs.string("auto_pad", "NOTSET") == "SAME_UPPER" else relay.subtract(cut, half)
    end = relay.subtract(relay.add(more, relay.maximum(relay.negative(total), zero)), relay.subtract(cut, begin))
    pads = relay.concatenate([relay.negative(begin), end], axis=0)
    result = padded_by(node, full, pads, behind, "constant", 0.0)
    return matched(node, result, [*node.shape(full)[:2], *sizes])
