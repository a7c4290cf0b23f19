"""The ONNX frontend: models of opset 1 to the newest become modules of the graph language."""

from byoc.relay.frontend.onnx.importer import from_onnx, import_onnx
from byoc.relay.frontend.onnx.registry import converter

__all__ = ["converter", "from_onnx", "import_onnx"]
