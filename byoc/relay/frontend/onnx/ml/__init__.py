"""Classical models, as skl2onnx writes them (domain ai.onnx.ml), and steps of optimisers."""
