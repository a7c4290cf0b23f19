"""Grids of places, and images sampled at them. Source: ONNX AffineGrid-20, GridSample-16/20/22."""

from __future__ import annotations

import math

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.dims import reshaped
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.run_time.list_lengths import declared_rank, with_length

MAX_PLACES = 1 << 24  # of a grid that is made when importing: a larger one is a damaged model


@converter("AffineGrid")
def _affine_grid(node: OnnxNode) -> RelayExpr:
    """``theta: f32[N, n, n + 1] -> f32[N, ..., n]``, of a size that may be known only when it runs."""
    size = node.value(1)
    if size is None:
        return _run_time_grid(node)
    extents = [int(extent) for extent in size[2:]]
    if math.prod(extents) > MAX_PLACES:
        raise node.error(f"{math.prod(extents)} places are more than the {MAX_PLACES} that a grid can have")
    axes = [_centres(extent, node.attrs.flag("align_corners")) for extent in extents]
    places = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(extents)], axis=-1)
    rows = constant(places.reshape(1, -1, len(extents) + 1), node.dtype(node[0]))
    product = relay.nn.batch_matmul(rows, node[0])
    return reshaped(node, product, [node.shape(node[0])[0], *extents, len(extents)], (node[0],))


def _run_time_grid(node: OnnxNode) -> RelayExpr:
    theta = node.shape(node[0])
    lengths = [size + more for size, more in ((theta[1], 2), (theta[2], 1)) if isinstance(size, int)]
    node = with_length(node, 1, lengths[0] if lengths else declared_rank(node), 4, 5)
    (rank,) = node.static_dims_of(node[1], [0], "AffineGrid")
    count, dtype = rank - 2, node.dtype(node[0])
    extents = [relay.squeeze(relay.take(node[1], constant([k + 2], "int64"), axis=0), axis=[0]) for k in range(count)]
    axes = []
    for k, extent in enumerate(extents):
        numbers = relay.arange(constant(0, "int64"), extent, constant(1, "int64"), dtype="int64")
        centres = _run_time_centres(node, relay.cast(numbers, dtype), relay.cast(extent, dtype))
        axes.append(relay.reshape(centres, [-1 if axis == k else 1 for axis in range(count)]))
    nothing = axes[0]
    for centres in axes[1:]:
        nothing = relay.add(nothing, centres)
    nothing = relay.zeros_like(nothing)
    places = [relay.add(centres, nothing) for centres in (*axes[::-1], constant(1, dtype))]
    rows = relay.reshape(relay.stack(places, axis=-1), [1, -1, count + 1])
    product = relay.nn.batch_matmul(rows, node[0])
    shape = relay.concatenate(
        [relay.take(node[1], constant([0, *range(2, rank)], "int64"), axis=0), constant([count], "int64")], axis=0
    )
    return relay.reshape(product, shape)


def _run_time_centres(node: OnnxNode, numbers: RelayExpr, extent: RelayExpr) -> RelayExpr:
    """As :func:`_centres`; with *align_corners* one pixel alone lies on the first end."""
    one, two = node.like(1, numbers), node.like(2, numbers)
    if node.attrs.flag("align_corners"):
        last = relay.maximum(relay.subtract(extent, one), one)
        return relay.subtract(relay.divide(relay.multiply(numbers, two), last), one)
    return relay.subtract(relay.divide(relay.add(relay.multiply(numbers, two), one), extent), one)


def _centres(extent: int, align_corners: bool) -> np.ndarray:
    """From -1 to 1: the pixels' middles, the outermost of them on the ends with *align_corners*, else their edges."""
    return np.linspace(-1, 1, extent) if align_corners else (2 * np.arange(extent) + 1) / extent - 1


_METHODS = {
    "nearest": "nearest",
    "linear": "bilinear",
    "cubic": "bicubic",
    "bilinear": "bilinear",  # these two are opset 16's names
    "bicubic": "bicubic",
}
_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


@converter("GridSample")
def _grid_sample(node: OnnxNode) -> RelayExpr:
    """``T[N, C, *in], T[N, *out, n] -> T[N, C, *out]``.

    A cubic at the border takes each pixel from the border, as PyTorch and ONNX Runtime do; ONNX's reference moves
    the place first.
    """
    mode, padding = node.attrs.string("mode", "bilinear"), node.attrs.string("padding_mode", "zeros")
    rank = node.rank(node[0]) - 2
    if mode not in _METHODS or rank not in _LAYOUTS:
        raise node.error(
            f"mode is one of {', '.join(_METHODS)}, of data with 3 to 5 dimensions, got {mode!r} and "
            f"{node.type_of(node[0])}"
        )
    align_corners, method = node.attrs.flag("align_corners"), _METHODS[mode]
    grid = relay.transpose(node[1], axes=[0, rank + 1, *range(1, rank + 1)])
    return relay.image.grid_sample(node[0], grid, method, _LAYOUTS[rank], padding, align_corners)
