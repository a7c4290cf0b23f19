"""Operators in numpy by their definitions, with the names and arguments of ``tvm.topi.testing``.

They are written without the kernels of the runtime, which tests compare with them.
"""

from byoc.relay.testing.references import resize_python
from byoc.relay.testing.references.convolution import (
    conv1d_ncw_python,
    conv2d_backward_weight_python,
    conv2d_hwcn_python,
    conv2d_nchw_python,
    conv2d_nhwc_python,
    conv3d_ncdhw_python,
    conv3d_ndhwc_python,
    depthwise_conv2d_python_nchw,
    depthwise_conv2d_python_nhwc,
    dilate_python,
    group_conv1d_ncw_python,
)
from byoc.relay.testing.references.displaced import (
    correlation_nchw_python,
    deformable_conv2d_nchw_python,
    deformable_conv2d_nhwc_python,
)
from byoc.relay.testing.references.indexing import (
    gather_nd_python,
    gather_python,
    matrix_set_diag,
    one_hot,
    searchsorted_ref,
    sequence_mask,
    slice_axis_python,
    strided_set_python,
    strided_slice_python,
)
from byoc.relay.testing.references.normalization import (
    batch_norm,
    group_norm_python,
    instance_norm_python,
    l2_normalize_python,
    layer_norm_python,
    log_softmax_python,
    lrn_python,
    nll_loss,
    softmax_python,
)
from byoc.relay.testing.references.pooling import adaptive_pool, pool_grad_nchw, poolnd_python
from byoc.relay.testing.references.rearranging import (
    batch_matmul,
    batch_to_space_nd_python,
    dense,
    depth_to_space_python,
    reorg_python,
    space_to_batch_nd_python,
    space_to_depth_python,
)
from byoc.relay.testing.references.resize_python import resize1d_python, resize2d_python, resize3d_python
from byoc.relay.testing.references.transposed_convolution import (
    conv1d_transpose_ncw_python,
    conv2d_transpose_nchw_python,
    conv2d_transpose_nhwc_python,
    conv3d_transpose_ncdhw_python,
    group_conv1d_transpose_ncw_python,
)
from byoc.relay.testing.references.vision import (
    affine_grid_python,
    crop_and_resize_python,
    grid_sample_python,
    roi_align_nchw_python,
    roi_align_nhwc_python,
    roi_pool_nchw_python,
)

__all__ = [
    "adaptive_pool", "affine_grid_python", "batch_matmul", "batch_norm", "batch_to_space_nd_python",
    "conv1d_ncw_python", "conv1d_transpose_ncw_python", "conv2d_backward_weight_python", "conv2d_hwcn_python",
    "conv2d_nchw_python", "conv2d_nhwc_python", "conv2d_transpose_nchw_python", "conv2d_transpose_nhwc_python",
    "conv3d_ncdhw_python", "conv3d_ndhwc_python", "conv3d_transpose_ncdhw_python", "correlation_nchw_python",
    "crop_and_resize_python", "deformable_conv2d_nchw_python", "deformable_conv2d_nhwc_python", "dense",
    "depth_to_space_python", "depthwise_conv2d_python_nchw", "depthwise_conv2d_python_nhwc", "dilate_python",
    "gather_nd_python", "gather_python", "grid_sample_python", "group_conv1d_ncw_python",
    "group_conv1d_transpose_ncw_python", "group_norm_python", "instance_norm_python", "l2_normalize_python",
    "layer_norm_python", "log_softmax_python", "lrn_python", "matrix_set_diag", "nll_loss", "one_hot",
    "pool_grad_nchw", "poolnd_python", "reorg_python", "resize1d_python", "resize2d_python", "resize3d_python",
    "resize_python", "roi_align_nchw_python", "roi_align_nhwc_python", "roi_pool_nchw_python", "searchsorted_ref",
    "sequence_mask", "slice_axis_python", "softmax_python", "space_to_batch_nd_python", "space_to_depth_python",
    "strided_set_python", "strided_slice_python",
]
