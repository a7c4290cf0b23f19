"""Boxes and regions of images. Source: ONNX NonMaxSuppression-10/11, RoiAlign-10/16/22, MaxRoiPool-1/22."""

from __future__ import annotations

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter


def _part(data: RelayExpr, begin: int, end: int) -> RelayExpr:
    """Elements *begin* to *end* of the last axis."""
    return relay.strided_slice(data, begin=[begin], end=[end], strides=[1], axes=[-1])


@converter("NonMaxSuppression")
def _non_max_suppression(node: OnnxNode) -> RelayExpr:
    """``boxes: f32[N, B, 4], scores: f32[N, C, B] -> int64[?, 3]``; how many are left is known when it runs."""
    boxes = node[0]
    if node.attrs.flag("center_point_box"):
        centre, half = _part(boxes, 0, 2), relay.multiply(_part(boxes, 2, 4), node.like(0.5, boxes))
        boxes = relay.concatenate([relay.subtract(centre, half), relay.add(centre, half)], axis=-1)
    limit = _given(node, 2, 0, "int64")
    least = constant(0, "int64")
    found = relay.vision.all_class_non_max_suppression(
        boxes,
        node[1],
        relay.maximum(limit, least),
        _given(node, 3, 0.0),
        _given(node, 4, -np.inf),
    )
    places = relay.arange(least, relay.squeeze(found[1]), constant(1, "int64"), dtype="int64")
    return relay.take(found[0], places, axis=0)


def _given(node: OnnxNode, index: int, default: float, dtype: str = "float32") -> RelayExpr:
    """Input *index*, one number in whatever list, as a scalar."""
    value = node.optional(index)
    if value is None:
        return constant(default, dtype)
    return relay.reshape(value, []) if node.rank(value) else value


@converter("RoiAlign")
def _roi_align_outputs(node: OnnxNode) -> RelayExpr:
    return _roi_align(node, "output_half_pixel")


@converter("RoiAlign", since=16)
def _roi_align_pixels(node: OnnxNode) -> RelayExpr:
    return _roi_align(node, node.attrs.string("coordinate_transformation_mode", "half_pixel").lower())


def _roi_align(node: OnnxNode, coordinates: str) -> RelayExpr:
    mode = node.attrs.string("mode", "avg").lower()
    if coordinates not in ("half_pixel", "output_half_pixel") or mode not in ("avg", "max"):
        raise node.error(
            "coordinate_transformation_mode is half_pixel or output_half_pixel and mode is avg or max, got "
            f"{coordinates!r} and {mode!r}"
        )
    data, rois = node[0], node[1]
    wide = "float64" if node.dtype(rois) == "float64" else "float32"  # 16 bits do not hold the number of an image
    images = relay.cast(relay.expand_dims(node[2], 1), wide)
    regions = relay.concatenate([images, relay.cast(rois, wide)], axis=1)
    return relay.vision.roi_align(
        data,
        regions,
        (node.attrs.int("output_height", 1), node.attrs.int("output_width", 1)),
        node.attrs.float("spatial_scale", 1.0),
        node.attrs.int("sampling_ratio", 0),
        mode="avg" if mode == "avg" else "max_of_parts",
        aligned=coordinates == "half_pixel",
    )


@converter("MaxRoiPool")
def _max_roi_pool(node: OnnxNode) -> RelayExpr:
    size, scale = node.attrs.ints("pooled_shape"), node.attrs.float("spatial_scale", 1.0)
    return relay.vision.roi_pool(node[0], node[1], size, scale)
