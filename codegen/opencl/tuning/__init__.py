"""Tuning of OpenCL kernels on the device: candidates compiled, compared and timed there, and the thresholds of it."""
