"""Our generated host code against ONNX Runtime and OpenVINO: ``python -m benchmarks.cpu``."""
