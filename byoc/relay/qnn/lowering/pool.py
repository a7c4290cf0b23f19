"""Lowering of ``qnn.avg_pool2d``: the mean in float32, between a dequantization and a quantization."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType, Type
from byoc.relay.op.attributes.pool import AvgPool2DAttrs
from byoc.relay.op.core.builder import make_call
from byoc.relay.qnn.lowering.quantize import dequantized, quantized
from byoc.relay.qnn.op.op import register_qnn_canonicalize


@register_qnn_canonicalize("qnn.avg_pool2d")
def lower_avg_pool2d(attrs: AvgPool2DAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr:
    """``qnn.avg_pool2d`` through float32."""
    data, out = types[0], types[5]
    assert isinstance(data, TensorType) and isinstance(out, TensorType)
    mean = make_call("nn.avg_pool2d", [dequantized(inputs[0], data, inputs[1:3], types[1:3], -1)], attrs)
    return quantized(mean, TensorType(out.shape, "float32"), inputs[3:5], types[3:5], -1, out.dtype)
