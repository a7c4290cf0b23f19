"""Recurrent layers with weights of 8 bits. Source: ONNX Runtime's DynamicQuantizeLSTM-1.

It is LSTM with dequantised weights. ONNX Runtime also rounds the inputs, and at each step the hidden state, to 8 bits
by their range at that moment, which depends on how many threads share the batch: that is not done here.
"""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter, find_converter

OPSET = 14  # of ONNX, whose LSTM it is


@converter("DynamicQuantizeLSTM", domain=MICROSOFT)
def _dynamic_quantize_lstm(node: OnnxNode) -> list[RelayExpr]:
    """Inputs: those of LSTM, with W: i8[D, I, 4 H] and R: i8[D, H, 4 H], then each one's scale and zero point."""
    inputs = [node.optional(k) for k in range(8)]
    inputs[1], inputs[2] = (_weights(node, index, scale) for index, scale in ((1, 8), (2, 10)))
    convert = find_converter("", "LSTM", OPSET)
    assert convert is not None
    made = convert(node.over(inputs, OPSET))
    assert isinstance(made, list)
    return made


def _weights(node: OnnxNode, index: int, scale: int) -> RelayExpr:
    """Input *index*, [D, rows, 4 H] of bytes, as f32[D, 4 H, rows]; a scale and a zero point for each D, or [D, 4 H].

    Raises ImportModelError for another type.
    """
    value = node[index]
    if node.dtype(value) not in ("int8", "uint8") or node.rank(value) != 3:
        raise node.error(f"input {index} is int8 or uint8 of three dimensions, got {node.type_of(value)}")
    codes = relay.cast(value, "int32")
    zero = node.optional(scale + 1)
    if zero is not None:
        codes = relay.subtract(codes, relay.cast(_over_rows(node, zero), "int32"))
    floats = relay.multiply(relay.cast(codes, "float32"), _over_rows(node, node[scale]))
    return node.fold(relay.transpose(floats, axes=[0, 2, 1]))


def _over_rows(node: OnnxNode, value: RelayExpr) -> RelayExpr:
    """[D] as [D, 1, 1], [D, 4 H] as [D, 1, 4 H]."""
    return relay.expand_dims(value, 1, 2 if node.rank(value) == 1 else 1)
