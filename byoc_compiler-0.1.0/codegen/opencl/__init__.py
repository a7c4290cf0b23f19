"""The OpenCL code generator: each stage of a region is a kernel."""
