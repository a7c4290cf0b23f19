"""Ways into the graph language. Source: ``relay.frontend``."""

from byoc.relay.frontend.onnx import from_onnx

__all__ = ["from_onnx"]
