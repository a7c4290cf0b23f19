"""Classical models, as skl2onnx writes them (domain ai.onnx.ml): trees, linear models, encoders, scalers."""

from byoc.relay.frontend.onnx.ml import features, labels, linear, trees

__all__ = ["features", "labels", "linear", "trees"]
