"""Quantised models: scales and zero points, products of integers, and operators between quantised tensors."""

from byoc.relay.frontend.onnx.quantized import attention, block_weights, operators, products, recurrent, scales

__all__ = ["attention", "block_weights", "operators", "products", "recurrent", "scales"]
