"""The ONNX frontend: models of opset 1 to the newest become modules of the graph language."""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
