"""Numpy kernels by operator name: importing this package registers them all."""

from byoc.runtime.kernels import annotation, binary, compare, elementwise, reduce, slicing, transform
from byoc.runtime.kernels.registry import KERNELS, Kernel, get_kernel, kernel

__all__ = ["KERNELS", "Kernel", "annotation", "binary", "compare", "elementwise", "get_kernel", "kernel", "reduce", "slicing", "transform"]
