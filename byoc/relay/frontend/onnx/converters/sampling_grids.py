"""Grids of places to sample images at. Source: ONNX AffineGrid-20."""

from __future__ import annotations

import math

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.dims import reshaped
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter

MAX_PLACES = 1 << 24  # of a grid that is made when importing: a larger one is a damaged model


@converter("AffineGrid")
def _affine_grid(node: OnnxNode) -> RelayExpr | None:
    """``theta: f32[N, n, n + 1] -> f32[N, ..., n]``; by ONNX's definition where the size is known only when it runs."""
    size = node.value(1)
    if size is None:
        return None
    extents = [int(extent) for extent in size[2:]]
    if math.prod(extents) > MAX_PLACES:
        raise node.error(f"{math.prod(extents)} places are more than the {MAX_PLACES} that a grid can have")
    axes = [_centres(extent, node.attrs.flag("align_corners")) for extent in extents]
    places = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(extents)], axis=-1)
    rows = constant(places.reshape(1, -1, len(extents) + 1), node.dtype(node[0]))
    product = relay.nn.batch_matmul(rows, node[0])
    return reshaped(node, product, [node.shape(node[0])[0], *extents, len(extents)], (node[0],))


def _centres(extent: int, align_corners: bool) -> np.ndarray:
    """From -1 to 1: the pixels' middles, the outermost of them on the ends with *align_corners*, else their edges."""
    return np.linspace(-1, 1, extent) if align_corners else (2 * np.arange(extent) + 1) / extent - 1
