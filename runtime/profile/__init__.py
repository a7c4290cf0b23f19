"""What a run costs, part by part: times, bytes and operations of regions, kernels, operators and ONNX nodes."""
