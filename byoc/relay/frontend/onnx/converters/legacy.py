"""Operators of the first, experimental operator sets, which old models still hold. Source: ONNX 1.0 to 1.4 schemas."""

from __future__ import annotations

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter


@converter("ImageScaler")
def _image_scaler(node: OnnxNode) -> RelayExpr:
    """``data * scale + bias[channel]`` of images [N, C, H, W]."""
    data, scale = node[0], node.attrs.float("scale", 1.0)
    if node.rank(data) != 4:
        raise node.error(f"an image is [N, C, H, W], got {node.type_of(data)}")
    if scale != 1:
        data = relay.multiply(data, node.like(scale, node[0]))
    bias = node.attrs.floats("bias", [])
    if not bias:
        return data
    return relay.add(data, constant(np.array(bias, node.dtype(node[0])).reshape(-1, 1, 1)))


@converter("Crop")
def _crop(node: OnnxNode) -> RelayExpr:
    """Images [N, C, H, W] without the border (left, top, right, bottom), or of the size *scale* from (left, top) on."""
    border = node.attrs.ints("border")
    if len(border) != 4 or node.rank(node[0]) != 4:
        found = node.type_of(node[0])
        raise node.error(f"needs a border of 4 numbers and images [N, C, H, W], got {border} and {found}")
    left, top, right, bottom = border
    height, width = node.static_dims_of(node[0], (2, 3), "Crop")
    scale = node.attrs.ints("scale", [])
    end = [top + scale[0], left + scale[1]] if scale else [height - bottom, width - right]
    if min(border) < 0 or end[0] > height or end[1] > width or end[0] <= top or end[1] <= left:
        raise node.error(f"the border {border} leaves nothing of an image of {height} x {width}")
    return relay.strided_slice(node[0], begin=[top, left], end=end, strides=[1, 1], axes=[2, 3])


@converter("Affine")
def _affine(node: OnnxNode) -> RelayExpr:
    scaled = relay.multiply(node[0], node.like(node.attrs.float("alpha", 1.0), node[0]))
    beta = node.attrs.float("beta", 0.0)
    return relay.add(scaled, node.like(beta, node[0])) if beta else scaled


@converter("ScaledTanh")
def _scaled_tanh(node: OnnxNode) -> RelayExpr:
    inner = relay.multiply(node[0], node.like(node.attrs.float("beta", 1.0), node[0]))
    return relay.multiply(relay.tanh(inner), node.like(node.attrs.float("alpha", 1.0), node[0]))


@converter("ParametricSoftplus")
def _parametric_softplus(node: OnnxNode) -> RelayExpr:
    inner = relay.multiply(node[0], node.like(node.attrs.float("beta", 1.0), node[0]))
    soft = relay.add(relay.nn.relu(inner), relay.log1p(relay.exp(relay.negative(relay.abs(inner)))))
    return relay.multiply(soft, node.like(node.attrs.float("alpha", 1.0), node[0]))


@converter("Scale")
def _scale(node: OnnxNode) -> RelayExpr:
    return relay.multiply(node[0], node.like(node.attrs.float("scale", 1.0), node[0]))


@converter("GivenTensorFill")
def _given_tensor_fill(node: OnnxNode) -> RelayExpr:
    values, shape = node.attrs.floats("values", []), node.attrs.ints("shape", [])
    if not shape or int(np.prod(shape)) != len(values):
        raise node.error(f"{len(values)} values do not fill the shape {shape}")
    return constant(np.array(values, "float32").reshape(shape))
