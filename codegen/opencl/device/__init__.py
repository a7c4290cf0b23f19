"""What OpenCL kernels are made of: their statements and spellings, how they are launched, and what a device is like."""
