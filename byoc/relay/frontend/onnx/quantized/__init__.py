"""Quantised models: scales and zero points, products of integers, and operators between quantised tensors."""

from byoc.relay.frontend.onnx.quantized import operators, products, scales

__all__ = ["operators", "products", "scales"]
