"""Windows whose padding follows from a size that only the run knows. Source: ONNX Conv-11, MaxPool-12."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.size_var import plus
from byoc.ir.types import Any, Dim
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.dims import matched
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.run_time.slices import item


def padded_to_strides(
    node: OnnxNode, data: RelayExpr, windows: Sequence[tuple[int, int, int]], fill: float | int
) -> RelayExpr:
    """*data* with *fill* around it, so that each of *windows* (axis, stride, extent) finds as many as strides.

    Which side has more of it, the node's ``auto_pad`` says. Along an axis it is the extent less one in all, so that
    the number of windows has a name.
    """
    more_at_end = node.attrs.string("auto_pad") == "SAME_UPPER"
    dims: list[Dim | None] = list(node.shape(data))
    shape = relay.shape_of(data, "int64")
    pairs: list[RelayExpr] = [constant(np.zeros(2, "int64")) for _ in dims]
    for axis, stride, extent in windows:
        before = _before(item(shape, axis), stride, extent, more_at_end)
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
