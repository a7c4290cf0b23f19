"""Names, order and defaults of the parameters of Relay's operator functions, as v0.18 has them.

The table holds facts of an interface that others wrote code for; a parameter that differs makes their calls mean
something else. Ours may have more parameters after Relay's (``span``), if they have defaults.
"""

from __future__ import annotations

import ast
import importlib
import inspect

import pytest

UNARY = (
    "log log2 log10 tan cos cosh sin sinh acos acosh asin asinh atan atanh exp erf sqrt rsqrt sigmoid floor ceil trunc "
    "round abs sign tanh negative logical_not bitwise_not copy zeros_like ones_like isnan isfinite isinf"
)
BINARY = (
    "add subtract multiply divide floor_divide trunc_divide power mod floor_mod trunc_mod logical_and logical_or "
    "logical_xor bitwise_and bitwise_or bitwise_xor equal not_equal less less_equal greater greater_equal maximum "
    "minimum right_shift left_shift"
)
TABLE = {
    "byoc.relay": f"""
        {"; ".join(f"{n}(data)" for n in UNARY.split())}
        {"; ".join(f"{n}(lhs, rhs)" for n in BINARY.split())}
        zeros(shape, dtype); ones(shape, dtype); clip(a, a_min, a_max)
        fixed_point_multiply(data, multiplier, shift)
        fixed_point_multiply_per_axis(x, y, lshift, rshift, is_lshift_required, is_rshift_required, axes)
        concatenate(data, axis); einsum(data, equation); stack(data, axis)
        device_copy(data, src_device, dst_device); shape_of(data, dtype="int32"); ndarray_size(data, dtype="int32")
        argmax(data, axis=None, keepdims=False, exclude=False, select_last_index=False)
        argmin(data, axis=None, keepdims=False, exclude=False, select_last_index=False)
        sum(data, axis=None, keepdims=False, exclude=False); all(data, axis=None, keepdims=False, exclude=False)
        any(data, axis=None, keepdims=False, exclude=False); max(data, axis=None, keepdims=False, exclude=False)
        min(data, axis=None, keepdims=False, exclude=False); mean(data, axis=None, keepdims=False, exclude=False)
        prod(data, axis=None, keepdims=False, exclude=False); logsumexp(data, axis=None, keepdims=False)
        variance(data, axis=None, keepdims=False, exclude=False, unbiased=False, with_mean=None)
        std(data, axis=None, keepdims=False, exclude=False, unbiased=False)
        mean_variance(data, axis=None, keepdims=False, exclude=False, unbiased=False)
        mean_std(data, axis=None, keepdims=False, exclude=False)
        sort(data, axis=-1, is_ascend=1); argsort(data, axis=-1, is_ascend=1, dtype="int32")
        topk(data, k=1, axis=-1, ret_type="both", is_ascend=False, dtype="int32")
        searchsorted(sorted_sequence, values, right=False, dtype="int32")
        sliding_window(data, axis, window_shape, strides)
        cast(data, dtype); cast_like(data, dtype_like); reinterpret(data, dtype)
        expand_dims(data, axis, num_newaxis=1); transpose(data, axes=None); squeeze(data, axis=None)
        reshape(data, newshape, allowzero=False); argwhere(condition)
        scatter_elements(data, indices, updates, axis=0, reduction="update")
        scatter_nd(data, indices, updates, mode="update")
        reshape_like(data, shape_like, lhs_begin=0, lhs_end=None, rhs_begin=0, rhs_end=None)
        take(data, indices, axis=None, batch_dims=0, mode="clip")
        full(fill_value, shape=(), dtype=""); full_like(data, fill_value)
        arange(start, stop=None, step=None, dtype="float32"); meshgrid(data, indexing="ij")
        repeat(data, repeats, axis); tile(data, reps); reverse(data, axis)
        reverse_sequence(data, seq_lengths, seq_axis=1, batch_axis=0); where(condition, x, y)
        broadcast_to(data, shape); broadcast_to_like(data, broadcast_type)
        collapse_sum_like(data, collapse_type); collapse_sum_to(data, shape)
        split(data, indices_or_sections, axis=0)
        strided_slice(data, begin, end, strides=None, axes=None, slice_mode="end")
        strided_set(data, v, begin, end, strides=None); slice_like(data, shape_like, axes=None)
        layout_transform(data, src_layout, dst_layout); reverse_reshape(data, newshape)
        gather(data, axis, indices); gather_nd(data, indices, batch_dims=0, index_rank=None)
        sequence_mask(data, valid_length, mask_value=0, axis=0)
        one_hot(indices, on_value, off_value, depth, axis, dtype); unravel_index(indices, shape)
        sparse_to_dense(sparse_indices, output_shape, sparse_values, default_value=0)
        matrix_set_diag(data, diagonal, k=0, align="RIGHT_LEFT"); adv_index(inputs)
        sparse_fill_empty_rows(sparse_indices, sparse_values, dense_shape, default_value)
        sparse_reshape(sparse_indices, prev_shape, new_shape)
        segment_sum(data, segment_ids, num_segments=None)
        cumsum(data, axis=None, dtype=None, exclusive=None); cumprod(data, axis=None, dtype=None, exclusive=None)
        unique(data, is_sorted=True, return_counts=False); invert_permutation(data)
        stft(data, n_fft, hop_length, win_length, window, normalized, onesided)
        dft(re_data, im_data, inverse=False); trilu(data, k, upper=True)
    """,
    "byoc.relay.op.nn": """
        conv1d(data, weight, strides=1, padding=0, dilation=1, groups=1, channels=None, kernel_size=None,
               data_layout="NCW", kernel_layout="OIW", out_layout="", out_dtype="")
        conv2d(data, weight, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels=None,
               kernel_size=None, data_layout="NCHW", kernel_layout="OIHW", out_layout="", out_dtype="")
        conv3d(data, weight, strides=(1, 1, 1), padding=(0, 0, 0), dilation=(1, 1, 1), groups=1, channels=None,
               kernel_size=None, data_layout="NCDHW", kernel_layout="OIDHW", out_layout="", out_dtype="")
        contrib_conv3d_winograd_without_weight_transform(data, weight, tile_size, strides=(1, 1, 1),
               padding=(0, 0, 0), dilation=(1, 1, 1), groups=1, channels=None, kernel_size=None,
               data_layout="NCDHW", kernel_layout="OIDHW", out_layout="", out_dtype="")
        conv3d_transpose(data, weight, strides=(1, 1, 1), padding=(0, 0, 0), dilation=(1, 1, 1), channels=None,
               kernel_size=None, groups=1, data_layout="NCDHW", kernel_layout="IODHW", out_layout="",
               output_padding=(0, 0, 0), out_dtype="")
        conv2d_transpose(data, weight, strides=(1, 1), padding=(0, 0), dilation=(1, 1), channels=None,
               kernel_size=None, groups=1, data_layout="NCHW", kernel_layout="IOHW", out_layout="",
               output_padding=(0, 0), out_dtype="")
        conv1d_transpose(data, weight, strides=(1,), padding=(0,), dilation=(1,), channels=None, kernel_size=None,
               groups=1, data_layout="NCW", kernel_layout="IOW", out_layout="", output_padding=(0,), out_dtype="")
        softmax(data, axis=-1); fast_softmax(data, axis=-1); log_softmax(data, axis=-1)
        max_pool1d(data, pool_size=(1,), strides=(1,), dilation=(1,), padding=(0,), layout="NCW", out_layout="",
               ceil_mode=False)
        max_pool2d(data, pool_size=(1, 1), strides=(1, 1), dilation=(1, 1), padding=(0, 0), layout="NCHW",
               out_layout="", ceil_mode=False)
        max_pool3d(data, pool_size=(1, 1, 1), strides=(1, 1, 1), dilation=(1, 1, 1), padding=(0, 0, 0),
               layout="NCDHW", out_layout="", ceil_mode=False)
        avg_pool1d(data, pool_size=(1,), strides=(1,), dilation=(1,), padding=(0,), layout="NCW", out_layout="",
               ceil_mode=False, count_include_pad=False)
        avg_pool2d(data, pool_size=(1, 1), strides=(1, 1), dilation=(1, 1), padding=(0, 0), layout="NCHW",
               out_layout="", ceil_mode=False, count_include_pad=False)
        avg_pool3d(data, pool_size=(1, 1, 1), strides=(1, 1, 1), dilation=(1, 1, 1), padding=(0, 0, 0),
               layout="NCDHW", out_layout="", ceil_mode=False, count_include_pad=False)
        max_pool2d_grad(out_grad, data, pool_size=(1, 1), strides=(1, 1), padding=(0, 0), layout="NCHW",
               out_layout="", ceil_mode=False)
        avg_pool2d_grad(out_grad, data, pool_size=(1, 1), strides=(1, 1), padding=(0, 0), layout="NCHW",
               out_layout="", ceil_mode=False, count_include_pad=False)
        global_max_pool1d(data, layout="NCW", out_layout=""); global_avg_pool1d(data, layout="NCW", out_layout="")
        global_max_pool2d(data, layout="NCHW", out_layout=""); global_avg_pool2d(data, layout="NCHW", out_layout="")
        global_max_pool3d(data, layout="NCDHW", out_layout=""); global_avg_pool3d(data, layout="NCDHW", out_layout="")
        adaptive_max_pool1d(data, output_size=None, layout="NCW", out_layout="")
        adaptive_avg_pool1d(data, output_size=None, layout="NCW", out_layout="")
        adaptive_max_pool2d(data, output_size=None, layout="NCHW", out_layout="")
        adaptive_avg_pool2d(data, output_size=None, layout="NCHW", out_layout="")
        adaptive_max_pool3d(data, output_size=None, layout="NCDHW", out_layout="")
        adaptive_avg_pool3d(data, output_size=None, layout="NCDHW", out_layout="")
        upsampling(data, scale_h=1, scale_w=1, layout="NCHW", method="nearest_neighbor", align_corners=False)
        upsampling3d(data, scale_d=1, scale_h=1, scale_w=1, layout="NCDHW", method="nearest_neighbor",
               coordinate_transformation_mode="half_pixel")
        batch_flatten(data); bias_add(data, bias, axis=1)
        matmul(tensor_a, tensor_b, units=None, out_dtype="", transpose_a=False, transpose_b=False)
        dense(data, weight, units=None, out_dtype="")
        contrib_dense_pack(data, weight, weight_layout="NC", units=None, out_dtype="")
        fifo_buffer(data, buffer, axis); relu(data); leaky_relu(data, alpha=0.01); prelu(data, alpha, axis=1)
        pad(data, pad_width, pad_value=0, pad_mode="constant"); mirror_pad(data, pad_width, mode="SYMMETRIC")
        lrn(data, size=5, axis=1, bias=2, alpha=0.00001, beta=0.75); l2_normalize(data, eps, axis=None)
        dropout(data, rate=0.5); dropout_raw(data, rate=0.5)
        batch_norm(data, gamma, beta, moving_mean, moving_var, axis=1, epsilon=1e-5, center=True, scale=True)
        instance_norm(data, gamma, beta, axis=1, epsilon=1e-5, center=True, scale=True)
        layer_norm(data, gamma, beta, axis=-1, epsilon=1e-5, center=True, scale=True)
        group_norm(data, gamma, beta, num_groups, axis=1, epsilon=1e-5, center=True, scale=True)
        batch_matmul(tensor_a, tensor_b, out_dtype="", transpose_a=False, transpose_b=True)
        sparse_dense(dense_mat, sparse_mat, sparse_lhs=False); sparse_transpose(x); sparse_add(dense_mat, sparse_mat)
        contrib_conv2d_winograd_without_weight_transform(data, weight, tile_size, strides=(1, 1), padding=(0, 0),
               dilation=(1, 1), groups=1, channels=None, kernel_size=None, data_layout="NCHW", kernel_layout="OIHW",
               out_layout="", out_dtype="")
        contrib_conv2d_gemm_without_weight_transform(data, weight, strides=(1, 1), padding=(0, 0), dilation=(1, 1),
               groups=1, channels=None, kernel_size=None, data_layout="NCHW", kernel_layout="OIHW", out_layout="",
               out_dtype="")
        contrib_conv2d_nchwc(data, kernel, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels=None,
               kernel_size=None, data_layout="NCHW8c", kernel_layout="OIHW", out_layout="", out_dtype="")
        contrib_depthwise_conv2d_nchwc(data, kernel, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1,
               channels=None, kernel_size=None, data_layout="NCHW8c", kernel_layout="OIHW", out_layout="",
               out_dtype="")
        contrib_conv2d_winograd_weight_transform(weight, tile_size)
        contrib_conv2d_gemm_weight_transform(weights, tile_N, tile_K)
        contrib_conv3d_winograd_weight_transform(weight, tile_size)
        contrib_conv2d_winograd_nnpack_weight_transform(weight, convolution_algorithm, out_dtype="")
        deformable_conv2d(data, offset, weight, strides=(1, 1), padding=(0, 0), dilation=(1, 1), deformable_groups=1,
               groups=1, channels=None, kernel_size=None, data_layout="NCHW", kernel_layout="OIHW", out_layout="",
               out_dtype="")
        bitpack(data, bits=1, pack_axis=1, bit_axis=2, pack_type="uint32", name="BitPack")
        bitserial_conv2d(data, weight, strides=(1, 1), padding=(0, 0), channels=None, kernel_size=(3, 3),
               activation_bits=1, weight_bits=1, data_layout="NCHW", kernel_layout="OIHW", pack_dtype="uint32",
               out_dtype="int16", unipolar=True)
        bitserial_dense(data, weight, units=None, data_bits=1, weight_bits=1, pack_dtype="uint32",
               out_dtype="int16", unipolar=True)
        cross_entropy(predictions, targets); cross_entropy_with_logits(predictions, targets)
        nll_loss(predictions, targets, weights, reduction="mean", ignore_index=-100)
        depth_to_space(data, block_size, layout="NCHW", mode="DCR"); space_to_depth(data, block_size, layout="NCHW")
        correlation(data1, data2, kernel_size, max_displacement, stride1, stride2, padding, is_multiply, layout)
        space_to_batch_nd(data, block_shape, paddings, pad_value=0); batch_to_space_nd(data, block_shape, crops)
        conv2d_backward_weight(grad, data, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, channels=None,
               kernel_size=None, grad_layout="NCHW", data_layout="NCHW", kernel_layout="OIHW", out_dtype="")
    """,
    "byoc.relay.op.image": """
        resize1d(data, size, roi=None, layout="NCW", method="linear", coordinate_transformation_mode="half_pixel",
               rounding_method="", cubic_alpha=-0.5, cubic_exclude=0, extrapolation_value=0.0, out_dtype=None)
        resize2d(data, size, roi=None, layout="NCHW", method="linear", coordinate_transformation_mode="half_pixel",
               rounding_method="", cubic_alpha=-0.5, cubic_exclude=0, extrapolation_value=0.0, out_dtype=None)
        resize3d(data, size, roi=None, layout="NCDHW", method="linear", coordinate_transformation_mode="half_pixel",
               rounding_method="", cubic_alpha=-0.5, cubic_exclude=0, extrapolation_value=0.0, out_dtype=None)
        crop_and_resize(data, boxes, box_indices, crop_size, layout, method="bilinear", extrapolation_value=0,
               out_dtype=None)
        dilation2d(data, weight, strides=(1, 1), padding=(0, 0), dilations=(1, 1), data_layout="NCHW",
               kernel_layout="IHW", out_dtype="")
        affine_grid(data, target_shape=None)
        grid_sample(data, grid, method="bilinear", layout="NCHW", padding_mode="zeros", align_corners=True)
    """,
    "byoc.relay.op.vision": """
        multibox_prior(data, sizes=(1.0,), ratios=(1.0,), steps=(-1.0, -1.0), offsets=(0.5, 0.5), clip=False)
        multibox_transform_loc(cls_prob, loc_pred, anchor, clip=True, threshold=0.01, variances=(0.1, 0.1, 0.2, 0.2))
        get_valid_counts(data, score_threshold, id_index=0, score_index=1)
        non_max_suppression(data, valid_count, indices, max_output_size=-1, iou_threshold=0.5, force_suppress=False,
               top_k=-1, coord_start=2, score_index=1, id_index=0, return_indices=True, invalid_to_bottom=False)
        all_class_non_max_suppression(boxes, scores, max_output_boxes_per_class=-1, iou_threshold=-1.0,
               score_threshold=-1.0, output_format="onnx")
        regular_non_max_suppression(boxes, scores, max_detections_per_class, max_detections, num_classes,
               iou_threshold, score_threshold)
        roi_align(data, rois, pooled_size, spatial_scale, sample_ratio=-1, layout="NCHW", mode="avg")
        roi_pool(data, rois, pooled_size, spatial_scale, layout="NCHW")
        proposal(cls_prob, bbox_pred, im_info, scales, ratios, feature_stride, threshold, rpn_pre_nms_top_n,
               rpn_post_nms_top_n, rpn_min_size, iou_loss)
        yolo_reorg(data, stride)
    """,
    "byoc.relay.op.random": """
        threefry_key(seed); threefry_generate(key, shape); threefry_split(key)
        uniform(key, shape, dtype="float32", low=0.0, high=1.0)
        normal(key, shape, dtype="float32", mean=0.0, scale=1.0); multinomial(key, probs, num_samples)
    """,
    "byoc.relay.op.annotation": """
        compiler_begin(data, compiler); compiler_end(data, compiler); stop_fusion(data); checkpoint(data)
    """,
    "byoc.relay.op.memory": """
        flatten_tuple_type(ty); from_tuple_type(ty, expr); to_tuple_type(ty, exprs)
    """,
    "byoc.relay.op.vm": """
        shape_of(expr); reshape_tensor(data, shape, newshape)
    """,
}


def _entries() -> list[tuple[str, str, list[tuple[str, object]]]]:
    found = []
    for module, text in TABLE.items():
        program = ";".join(part.strip() for part in text.replace("\n        ", ";").split(";"))
        joined = _join_continued(program)
        for node in joined:
            call = ast.parse(node, mode="eval").body
            parameters = [(arg.id, inspect.Parameter.empty) for arg in call.args]
            parameters += [(k.arg, ast.literal_eval(k.value)) for k in call.keywords]
            found.append((module, call.func.id, parameters))
    return found


def _join_continued(program: str) -> list[str]:
    """The calls of *program*: pieces between semicolons, joined while a parenthesis is open."""
    calls, open_call = [], ""
    for piece in program.split(";"):
        open_call = f"{open_call} {piece}".strip()
        if open_call and open_call.count("(") == open_call.count(")"):
            calls.append(open_call)
            open_call = ""
    assert not open_call, open_call
    return calls


ENTRIES = _entries()


@pytest.mark.parametrize("module, name, expected", ENTRIES, ids=[f"{m.rpartition('.')[2]}.{n}" for m, n, _ in ENTRIES])
def test_a_function_takes_relays_parameters(module, name, expected):
    function = getattr(importlib.import_module(module), name)
    found = list(inspect.signature(function).parameters.values())
    assert [(p.name, p.default) for p in found[: len(expected)]] == expected
    assert all(p.default is not inspect.Parameter.empty for p in found[len(expected) :])


def test_modules_of_the_same_name_do_not_hide_an_operator():
    assert callable(importlib.import_module("byoc.relay").std)
    assert importlib.import_module("byoc.relay.std").__name__ == "byoc.relay.std"
    assert callable(importlib.import_module("byoc.relay").std)


def test_the_table_was_read_whole():
    assert len(ENTRIES) > 240
    assert len({(m, n) for m, n, _ in ENTRIES}) == len(ENTRIES)
