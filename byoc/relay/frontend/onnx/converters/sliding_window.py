"""Sliding windows of convolutions and pools, with ``auto_pad`` resolved. Source: ONNX Conv-11, MaxPool-12.

``SAME_UPPER`` and ``SAME_LOWER`` give ``ceil(size / stride)`` windows. How much comes before the data then depends on
the remainder of the size by the stride, unless the window is short. Of a free size it is either one number for all
remainders, or computed when the model runs (:func:`in_place`). What comes after may always be so much that the sum is
the extent less one: no window reads beyond the last element that the others need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.size_var import plus
from byoc.ir.types import Any, Dim
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.dims import matched
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.run_time.slices import item


@dataclass(frozen=True)
class SlidingWindow:
    """A sliding window: per spatial dimension its size, stride and dilation, and the padding at begins, then ends.

    The dimensions *of_run* have no padding here: :func:`in_place` pads them by what the run finds.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    of_run: tuple[int, ...] = ()

    @property
    def extents(self) -> tuple[int, ...]:
        """What the window covers, dilation included."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def per_axis(node: OnnxNode, name: str, count: int, default: int) -> tuple[int, ...]:
    """An attribute with one number for each of *count* entries. Raises ImportModelError for another number of them."""
    values = tuple(node.attrs.ints(name, [default] * count))
    if len(values) != count:
        raise node.error(f"{name} needs {count} numbers, got {len(values)}: {list(values)}")
    return values


def read_window(node: OnnxNode, kernel: Sequence[int]) -> SlidingWindow:
    """The window of a convolution or pooling, with ``auto_pad`` resolved for the shape of the data."""
    count = len(kernel)
    strides, dilations = per_axis(node, "strides", count, 1), per_axis(node, "dilations", count, 1)
    if min((*strides, *dilations, *kernel), default=1) < 1:
        found = f"{list(kernel)}, {list(strides)} and {list(dilations)}"
        raise node.error(f"kernel, strides and dilations must be positive, got {found}")
    window = SlidingWindow(tuple(kernel), strides, dilations, per_axis(node, "pads", 2 * count, 0))
    mode = node.attrs.string("auto_pad", "NOTSET")
    if mode == "NOTSET":
        if min(window.pads, default=0) < 0:
            raise node.error(f"negative padding is not supported: {list(window.pads)}; slice the data instead")
        return window
    if mode == "VALID":
        return SlidingWindow(window.kernel, strides, dilations, (0,) * (2 * count))
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.error(f"auto_pad is NOTSET, VALID, SAME_UPPER or SAME_LOWER, got {mode!r}")
    sizes, more_at_end = node.shape(node[0])[2:], mode == "SAME_UPPER"
    found = [_same_pads(*axis, more_at_end) for axis in zip(sizes, strides, window.extents, strict=True)]
    begins, ends = zip(*(pads or (0, 0) for pads in found), strict=True)
    of_run = tuple(k for k, pads in enumerate(found) if pads is None)
    return SlidingWindow(window.kernel, strides, dilations, (*begins, *ends), of_run)


def _same_pads(size: Dim, stride: int, extent: int, more_at_end: bool) -> tuple[int, int] | None:
    """The padding before and after an axis; None where what comes before depends on its free *size*."""
    if not isinstance(size, Any):
        before, after = split_padding([max((-(-size // stride) - 1) * stride + extent - size, 0)], more_at_end)
        return before, after
    # of each remainder of the size less one by the stride
    found = {split_padding([max(extent - 1 - rest, 0)], more_at_end)[0] for rest in range(stride)}
    if len(found) > 1:
        return None
    (before,) = found
    return before, extent - 1 - before


def in_place(node: OnnxNode, data: RelayExpr, window: SlidingWindow, fill: float | int = 0) -> RelayExpr:
    """*data* (of the shape of input 0) padded with *fill* along the axes of *window* whose padding the run finds."""
    if not window.of_run:
        return data
    upper = node.attrs.string("auto_pad", "NOTSET") == "SAME_UPPER"
    dims: list[Dim | None] = list(node.shape(data))
    shape, pairs = relay.shape_of(data, "int64"), [constant(np.zeros(2, "int64"))] * len(dims)
    for k in window.of_run:
        axis, stride, extent = k + 2, window.strides[k], window.extents[k]
        before = _before(item(shape, axis), stride, extent, upper)
        pairs[axis] = relay.stack([before, relay.subtract(constant(extent - 1, "int64"), before)], axis=0)
        size = dims[axis]
        dims[axis] = plus(size, extent - 1) if isinstance(size, Any) and size.name else None
    return matched(node, relay.nn.pad(data, relay.stack(pairs, axis=0), node.like(fill, data)), dims)


def _before(size: RelayExpr, stride: int, extent: int, more_at_end: bool) -> RelayExpr:
    """An int64 scalar: the padding before an axis of *size*."""
    rest = relay.floor_mod(relay.subtract(size, constant(1, "int64")), constant(stride, "int64"))
    total = relay.subtract(constant(extent - 1, "int64"), rest)
    if stride > extent:
        total = relay.maximum(total, constant(0, "int64"))
    rounded = total if more_at_end else relay.add(total, constant(1, "int64"))
    return relay.floor_divide(rounded, constant(2, "int64"))


def split_padding(totals: Sequence[int], more_at_end: bool) -> tuple[int, ...]:
    """Paddings at begins, then at ends; the odd one goes to the end or to the begin."""
    small = [t // 2 for t in totals]
    large = [t - t // 2 for t in totals]
    return (*small, *large) if more_at_end else (*large, *small)
