"""Numpy kernels by operator name: importing this package registers them all."""

from byoc.runtime.kernels import (
    annotation,
    binary,
    compare,
    debug,
    einsum,
    elementwise,
    fast_math,
    fixed_point,
    fourier,
    ordering,
    qnn,
    random,
    reduce,
    sparse,
    sparse_matrix,
)
from byoc.runtime.kernels.images import boxes, dilation, dynamic_images, image, image_sampling, regions
from byoc.runtime.kernels.movement import (
    assign,
    check_indices,
    creation,
    layouts,
    positions,
    scatter,
    slicing,
    transform,
)
from byoc.runtime.kernels.nn import (
    activation,
    batch_blocks,
    bit_serial,
    blocked,
    conv,
    conv_contrib,
    correlation,
    dense,
    loss,
    norm,
    pad,
    pool,
    pool_gradient,
    recurrent,
    winograd,
)
from byoc.runtime.kernels.registry import KERNELS, Kernel, get_kernel, kernel

__all__ = ["KERNELS", "Kernel", "get_kernel", "kernel"]
__all__ += [name for name in dir() if not name.startswith("_") and name not in __all__]
