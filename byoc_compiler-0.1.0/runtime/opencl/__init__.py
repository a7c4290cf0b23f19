"""The OpenCL sub-module's engine: devices, programs, and runs of a launch plan."""
