"""Classical models, as skl2onnx writes them (domain ai.onnx.ml), and steps of optimisers."""

from byoc.relay.frontend.onnx.ml import features, labels, linear, support_vectors, training, trees

__all__ = ["features", "labels", "linear", "support_vectors", "training", "trees"]
