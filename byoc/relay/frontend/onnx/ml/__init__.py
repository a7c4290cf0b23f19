"""Classical models, as skl2onnx writes them (domain ai.onnx.ml), and steps of optimisers."""

from byoc.relay.frontend.onnx.ml import features, labels, linear, training, trees

__all__ = ["features", "labels", "linear", "training", "trees"]
