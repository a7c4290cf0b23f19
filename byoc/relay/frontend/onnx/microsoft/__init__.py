"""ONNX Runtime's own operators (domain com.microsoft): what its optimiser, its tools and its exporters write."""
