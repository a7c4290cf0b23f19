"""Recurrent layers with weights of 8 bits. Source: ONNX Runtime's DynamicQuantizeLSTM-1.

It is LSTM with dequantised weights, whose products read the inputs, and at each step the hidden state, as 8 bits hold
them by their range: that of the inputs of all steps, and that of the states of the whole batch. ONNX Runtime takes the
latter for the rows of one thread, so that its numbers for a batch of several depend on how many threads share it; they
are these for one thread.
"""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.converters.recurrent import lstm
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.quantized.scales import dynamically_quantised
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter

OPSET = 14  # of ONNX, whose LSTM it is


@converter("DynamicQuantizeLSTM", domain=MICROSOFT)
def _dynamic_quantize_lstm(node: OnnxNode) -> list[RelayExpr]:
    """Inputs: those of LSTM, with W: i8[D, I, 4 H] and R: i8[D, H, 4 H], then each one's scale and zero point."""
    inputs = [node.optional(k) for k in range(8)]
    inputs[1], inputs[2] = (_weights(node, index, scale) for index, scale in ((1, 8), (2, 10)))
    codes, scale, zero = dynamically_quantised(node, node[0])
    inputs[0] = relay.multiply(relay.cast(_above(codes, zero), "float32"), scale)
    return lstm(node.over(inputs, OPSET), bytes_of_hidden=True)


def _above(codes: RelayExpr, zero: RelayExpr) -> RelayExpr:
    """Bytes above their zero point, in int32."""
    return relay.subtract(relay.cast(codes, "int32"), relay.cast(zero, "int32"))


def _weights(node: OnnxNode, index: int, scale: int) -> RelayExpr:
    """Input *index*, [D, rows, 4 H] of bytes, as f32[D, 4 H, rows]; a scale and a zero point for each D, or [D, 4 H].

    Raises ImportModelError for another type.
    """
    value = node[index]
    if node.dtype(value) not in ("int8", "uint8") or node.rank(value) != 3:
        raise node.error(f"input {index} is int8 or uint8 of three dimensions, got {node.type_of(value)}")
    zero = node.optional(scale + 1)
    codes = relay.cast(value, "int32") if zero is None else _above(value, _over_rows(node, zero))
    floats = relay.multiply(relay.cast(codes, "float32"), _over_rows(node, node[scale]))
    return node.fold(relay.transpose(floats, axes=[0, 2, 1]))


def _over_rows(node: OnnxNode, value: RelayExpr) -> RelayExpr:
    """[D] as [D, 1, 1], [D, 4 H] as [D, 1, 4 H]."""
    return relay.expand_dims(value, 1, 2 if node.rank(value) == 1 else 1)
