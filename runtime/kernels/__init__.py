"""Numpy kernels by operator name: importing this package registers them all."""

from byoc.runtime.kernels import binary, compare, elementwise, reduce
from byoc.runtime.kernels.registry import KERNELS, Kernel, get_kernel, kernel

__all__ = ["KERNELS", "Kernel", "binary", "compare", "elementwise", "get_kernel", "kernel", "reduce"]
