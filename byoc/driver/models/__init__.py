"""What is said of a model, and made of it, without compiling: its simplified graph as ONNX, and what to know of it."""
