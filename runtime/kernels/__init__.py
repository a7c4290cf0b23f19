"""Numpy kernels by operator name: importing this package registers them all."""

from byoc.runtime.kernels import (
    activation,
    annotation,
    assign,
    batch_blocks,
    binary,
    blocked,
    compare,
    conv,
    creation,
    debug,
    dense,
    einsum,
    elementwise,
    fast_math,
    fixed_point,
    fourier,
    image,
    layouts,
    loss,
    norm,
    ordering,
    pad,
    pool,
    positions,
    qnn,
    random,
    reduce,
    scatter,
    slicing,
    sparse,
    sparse_matrix,
    transform,
)
from byoc.runtime.kernels.registry import KERNELS, Kernel, get_kernel, kernel

__all__ = ["KERNELS", "Kernel", "get_kernel", "kernel"]
__all__ += [name for name in dir() if not name.startswith("_") and name not in __all__]
