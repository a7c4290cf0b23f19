"""Numpy kernels by operator name. A family of kernels is imported when one of its names is first asked for."""

from byoc.runtime.kernels.core.registry import KERNELS, NumpyKernel, get_kernel, kernel

__all__ = ["KERNELS", "NumpyKernel", "get_kernel", "kernel"]
