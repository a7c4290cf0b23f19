"""Our OpenCL code against the peers of its device: ``python -m benchmarks.opencl``."""
