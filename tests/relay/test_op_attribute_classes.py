"""The class of the attributes of each operator, by Relay's name: users ask ``type(call.attrs).__name__``."""

from __future__ import annotations

import pytest

from byoc import relay
from byoc.ir.op import OPS

# class -> fields, then the operators that have it
CLASSES: dict[str, tuple[str, str]] = {
    **{
        f"MaxPool{n}DAttrs": ("pool_size strides dilation padding layout out_layout ceil_mode", f"nn.max_pool{n}d")
        for n in (1, 2, 3)
    },
    **{
        f"AvgPool{n}DAttrs": (
            "pool_size strides dilation padding layout out_layout ceil_mode count_include_pad",
            f"nn.avg_pool{n}d",
        )
        for n in (1, 2, 3)
    },
    **{
        f"AdaptivePool{n}DAttrs": (
            "output_size layout out_layout",
            f"nn.adaptive_avg_pool{n}d nn.adaptive_max_pool{n}d",
        )
        for n in (1, 2, 3)
    },
    "GlobalPool2DAttrs": ("layout out_layout", "nn.global_avg_pool2d nn.global_max_pool2d"),
    **{
        f"Resize{n}DAttrs": (
            "size roi layout method coordinate_transformation_mode rounding_method cubic_alpha cubic_exclude "
            "extrapolation_value out_dtype",
            f"image.resize{n}d",
        )
        for n in (1, 2, 3)
    },
    **{
        f"Conv{n}DAttrs": (
            "strides padding dilation groups channels kernel_size data_layout kernel_layout out_layout out_dtype",
            f"nn.conv{n}d",
        )
        for n in (1, 2, 3)
    },
    "ReduceAttrs": ("axis keepdims exclude", "sum mean max min prod all any"),
    "ArgReduceAttrs": ("axis keepdims exclude select_last_index", "argmax argmin"),
    "VarianceAttrs": ("axis keepdims exclude unbiased", "variance"),
    "InitOpAttrs": ("shape dtype", "zeros ones full broadcast_to collapse_sum_to"),
    "FixedPointMultiplyAttrs": ("multiplier shift", "fixed_point_multiply"),
    "FixedPointMultiplyPerAxisAttrs": ("is_lshift_required is_rshift_required axes", "fixed_point_multiply_per_axis"),
    "DebugAttrs": ("debug_func", "debug"),
    "SequenceMaskAttrs": ("mask_value axis", "sequence_mask"),
    "MatrixSetDiagAttrs": ("k1 k2 super_diag_right_align sub_diag_right_align", "matrix_set_diag"),
    "SparseToDenseAttrs": ("output_shape", "sparse_to_dense dyn.sparse_to_dense"),
    "SearchSortedAttrs": ("right dtype", "searchsorted"),
    "SlidingWindowAttrs": ("axis window_shape strides", "sliding_window"),
    "StftAttrs": ("n_fft hop_length win_length normalized onesided", "stft"),
    "DFTAttrs": ("inverse", "dft"),
    "ThreefryGenerateAttrs": ("out_shape", "random.threefry_generate"),
    "UniformAttrs": ("out_shape out_dtype", "random.uniform"),
    "NormalAttrs": ("out_shape out_dtype", "random.normal"),
    "LikeAttrs": ("out_dtype", "random.uniform_like random.normal_like"),
    "MultinomialAttrs": ("num_samples", "random.multinomial"),
    "SpaceToBatchNDAttrs": ("block_shape paddings pad_value", "nn.space_to_batch_nd"),
    "BatchToSpaceNDAttrs": ("block_shape crops", "nn.batch_to_space_nd"),
    "FIFOBufferAttrs": ("axis", "nn.fifo_buffer"),
    "NLLLossAttrs": ("reduction ignore_index", "nn.nll_loss"),
    "SparseDenseAttrs": ("sparse_lhs", "nn.sparse_dense"),
    "DensePackAttrs": ("units out_dtype weight_layout", "nn.contrib_dense_pack"),
    "BitPackAttrs": ("bits pack_axis bit_axis pack_type name", "nn.bitpack"),
    "BinaryConv2DAttrs": (
        "strides padding channels kernel_size activation_bits weight_bits data_layout kernel_layout pack_dtype "
        "out_dtype unipolar",
        "nn.bitserial_conv2d",
    ),
    "BinaryDenseAttrs": ("units data_bits weight_bits pack_dtype out_dtype unipolar", "nn.bitserial_dense"),
    "CorrelationAttrs": ("kernel_size max_displacement stride1 stride2 padding is_multiply layout", "nn.correlation"),
    "DeformableConv2DAttrs": (
        "strides padding dilation deformable_groups groups channels kernel_size data_layout kernel_layout out_layout "
        "out_dtype",
        "nn.deformable_conv2d",
    ),
    "Conv2DWinogradAttrs": ("tile_size strides padding", "nn.contrib_conv2d_winograd_without_weight_transform"),
    "ConvWinogradWeightTransformAttrs": (
        "tile_size",
        "nn.contrib_conv2d_winograd_weight_transform nn.contrib_conv3d_winograd_weight_transform",
    ),
    "AffineGridAttrs": ("target_shape", "image.affine_grid"),
    "GridSampleAttrs": ("method layout padding_mode align_corners", "image.grid_sample"),
    "CropAndResizeAttrs": ("crop_size layout method extrapolation_value out_dtype", "image.crop_and_resize"),
    "Dilation2DAttrs": ("strides padding dilations data_layout kernel_layout out_dtype", "image.dilation2d"),
    "MultiBoxPriorAttrs": ("sizes ratios steps offsets clip", "vision.multibox_prior"),
    "MultiBoxTransformLocAttrs": ("clip threshold variances", "vision.multibox_transform_loc"),
    "GetValidCountsAttrs": ("id_index score_index", "vision.get_valid_counts"),
    "NonMaximumSuppressionAttrs": (
        "force_suppress top_k coord_start score_index id_index return_indices invalid_to_bottom",
        "vision.non_max_suppression",
    ),
    "ROIAlignAttrs": ("pooled_size spatial_scale sample_ratio layout mode", "vision.roi_align"),
    "ROIPoolAttrs": ("pooled_size spatial_scale layout", "vision.roi_pool"),
    "YoloReorgAttrs": ("stride layout", "vision.yolo_reorg"),
    "ReshapeAttrs": ("newshape", "reshape contrib_reverse_reshape"),
    "CompilerAttrs": ("compiler", "annotation.compiler_begin annotation.compiler_end"),
}


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_an_attribute_class_has_relays_name_and_fields(name):
    fields, operators = CLASSES[name]
    for operator in operators.split():
        cls = OPS[operator].attrs_type
        assert cls.__name__ == name
        assert set(fields.split()) <= set(cls.__dataclass_fields__)


def test_a_call_is_printed_without_the_defaults_of_its_own_class():
    x = relay.var("x", shape=(1, 4, 4, 4))
    for call, want in (
        (relay.nn.max_pool2d(x, pool_size=(2, 2)), "nn.max_pool2d(%x, pool_size=[2, 2], padding=[0, 0, 0, 0])"),
        (
            relay.nn.avg_pool2d(x, (2, 2), (2, 2)),
            "nn.avg_pool2d(%x, pool_size=[2, 2], strides=[2, 2], padding=[0, 0, 0, 0])",
        ),
        (relay.nn.adaptive_avg_pool2d(x, 2), "nn.adaptive_avg_pool2d(%x, output_size=[2, 2])"),
        (relay.nn.global_avg_pool2d(x), "nn.global_avg_pool2d(%x)"),
        (
            relay.nn.max_pool3d(relay.var("x", shape=(1, 1, 2, 2, 2))),
            "nn.max_pool3d(%x, pool_size=[1, 1, 1], padding=[0, 0, 0, 0, 0, 0])",
        ),
    ):
        assert want in call.astext()
