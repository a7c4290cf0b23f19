"""What every operator is given when it is registered, whichever module does it; its support level."""

from __future__ import annotations

from byoc.ir.op import Op

# How widely each operator is supported, from 1 (basic) on; the others are at level 10. Source: ``set_support_level`` of
# Relay's operators and the levels of its operator reference.
SUPPORT_LEVELS: dict[int, str] = {
    1: "log log2 log10 tan cos cosh sin sinh acos acosh asin asinh atan atanh exp erf sqrt rsqrt sigmoid tanh add "
    "subtract multiply divide floor_divide mod floor_mod concatenate expand_dims zeros_like ones_like "
    "nn.softmax nn.fast_softmax nn.log_softmax nn.relu nn.dropout nn.batch_norm nn.bias_add nn.dense nn.matmul "
    "nn.instance_norm nn.layer_norm nn.group_norm fast_exp fast_tanh fast_erf",
    2: "nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose nn.max_pool1d "
    "nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.global_max_pool2d "
    "nn.global_avg_pool2d nn.max_pool2d_grad nn.avg_pool2d_grad nn.upsampling nn.upsampling3d nn.batch_flatten "
    "nn.pad nn.mirror_pad nn.lrn nn.l2_normalize nn.bitserial_conv2d nn.bitserial_dense nn.bitpack "
    "nn.conv2d_backward_weight",
    3: "nn.leaky_relu nn.prelu reshape reshape_like copy transpose squeeze floor ceil sign trunc clip round abs "
    "negative isnan isfinite isinf take zeros ones full full_like cast cast_like reinterpret split arange meshgrid "
    "stack repeat tile reverse reverse_sequence gather gather_nd unravel_index sparse_to_dense scatter_elements "
    "scatter_nd fixed_point_multiply fixed_point_multiply_per_axis sliding_window",
    4: "right_shift left_shift equal not_equal greater greater_equal less less_equal all any logical_and logical_or "
    "logical_not logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not maximum minimum power where argmax "
    "argmin sum max min mean variance prod strided_slice strided_set broadcast_to",
    5: "image.resize1d image.resize2d image.resize3d image.crop_and_resize image.dilation2d image.affine_grid "
    "image.grid_sample vision.multibox_prior vision.multibox_transform_loc vision.get_valid_counts "
    "vision.non_max_suppression vision.roi_align vision.roi_pool vision.proposal vision.yolo_reorg "
    "nn.deformable_conv2d",
    6: "argsort sort topk searchsorted",
}


_LEVEL_OF = {name: level for level, names in SUPPORT_LEVELS.items() for name in names.split()}


def set_support_level(op: Op) -> None:
    """Give *op* its level, where the table has it."""
    if op.name in _LEVEL_OF:
        op.set_support_level(_LEVEL_OF[op.name])


def complete(op: Op) -> None:
    """Give *op* its support level and, where its traits say so, let it take blocked layouts."""
    set_support_level(op)
    if op.traits.takes_blocks and op.rel is not None:
        from byoc.relay.op.blocked import allow_blocks  # which is made of operators

        allow_blocks(op)
