"""Numpy kernels by operator name: importing this package registers them all."""

from byoc.runtime.kernels.registry import KERNELS, Kernel, get_kernel, kernel

__all__ = ["KERNELS", "Kernel", "get_kernel", "kernel"]
