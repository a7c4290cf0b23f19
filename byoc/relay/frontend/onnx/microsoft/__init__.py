"""ONNX Runtime's own operators (domain com.microsoft): what its optimiser, its tools and its exporters write."""

from byoc.relay.frontend.onnx.microsoft import attention, fused, gates, grouped, heads, images, norms, older, rotary

__all__ = ["attention", "fused", "gates", "grouped", "heads", "images", "norms", "older", "rotary"]
