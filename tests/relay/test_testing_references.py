"""The references in numpy agree with ONNX Runtime, or with sums written out."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from byoc import relay
from byoc.annex.testing import references as ref
from byoc.errors import UserError
from byoc.relay.interpreter import evaluate

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype("float32")


def by_onnx(op, *arrays, opset=18, outputs=1, **attributes):
    """The first output of one ONNX operator by ONNX Runtime."""
    names = [f"i{k}" if array is not None else "" for k, array in enumerate(arrays)]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, arrays, strict=True)
        if a is not None
    ]
    made = [f"o{k}" for k in range(outputs)]
    node = helper.make_node(op, names, made, **attributes)
    unknown = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in made]
    graph = helper.make_graph([node], "g", infos, unknown)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    given = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, given)[0]


def same(found, expected):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("spatial", "kernel", "stride", "padding", "groups"),
    [
        ((9,), (3,), 2, 1, 2),
        ((7, 8), (3, 2), (2, 1), (1, 0), 1),
        ((7, 8), (3, 3), 1, (0, 1, 2, 1), 2),
        ((5, 6, 4), (2, 3, 1), (1, 2, 1), (1, 0, 1), 1),
    ],
)
def test_convolutions(spatial, kernel, stride, padding, groups):
    data, weight = normal(2, 4, *spatial), normal(6, 4 // groups, *kernel)
    n = len(spatial)
    pads = list(padding) if np.ndim(padding) and len(padding) == 2 * n else list(np.broadcast_to(padding, n)) * 2
    expected = by_onnx(
        "Conv", data, weight, strides=np.broadcast_to(stride, n).tolist(), pads=[int(p) for p in pads], group=groups
    )
    found = {
        1: lambda: ref.group_conv1d_ncw_python(data, weight, stride, padding, 1, groups),
        2: lambda: ref.conv2d_nchw_python(data, weight, stride, padding, groups),
        3: lambda: ref.conv3d_ncdhw_python(data, weight, stride, padding, groups),
    }[n]()
    same(found, expected)


def test_convolutions_of_other_layouts_are_those_of_the_first():
    data, weight = normal(2, 3, 7, 8), normal(5, 3, 3, 2)
    expected = ref.conv2d_nchw_python(data, weight, 2, "SAME")
    by_rows = ref.conv2d_nhwc_python(data.transpose(0, 2, 3, 1), weight.transpose(2, 3, 1, 0), 2, "SAME")
    same(by_rows.transpose(0, 3, 1, 2), expected)
    batch_last = ref.conv2d_hwcn_python(data.transpose(2, 3, 1, 0), weight.transpose(2, 3, 1, 0), 2, "SAME")
    same(batch_last.transpose(3, 2, 0, 1), expected)
    cube, kernel = normal(1, 2, 4, 5, 6), normal(3, 2, 2, 2, 2)
    found = ref.conv3d_ndhwc_python(np.moveaxis(cube, 1, -1), kernel.transpose(2, 3, 4, 1, 0), 1, "VALID")
    same(np.moveaxis(found, -1, 1), ref.conv3d_ncdhw_python(cube, kernel, 1, "VALID"))


def test_same_padding_keeps_the_size_at_stride_one_and_half_floats_are_summed_in_more():
    data, weight = normal(1, 64, 9, 9), normal(2, 64, 4, 3)
    assert ref.conv2d_nchw_python(data, weight, 1, "SAME").shape == (1, 2, 9, 9)
    half = ref.conv2d_nchw_python(data.astype("float16"), weight.astype("float16"), 1, 0)
    rounded = [array.astype("float16").astype("float32") for array in (data, weight)]
    wide = ref.conv2d_nchw_python(*rounded, 1, 0)
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, wide.astype("float16"))


def test_a_depthwise_convolution_convolves_each_channel_with_each_of_its_kernels():
    data, kernels = normal(1, 3, 6, 6), normal(3, 2, 3, 3)
    found = ref.depthwise_conv2d_python_nchw(data, kernels, 1, 1)
    for c, m in np.ndindex(3, 2):
        one = ref.conv2d_nchw_python(data[:, c : c + 1], kernels[c : c + 1, m : m + 1], 1, 1)
        same(found[:, 2 * c + m], one[:, 0])
    rows = ref.depthwise_conv2d_python_nhwc(data.transpose(0, 2, 3, 1), kernels.transpose(2, 3, 0, 1), 1, 1)
    same(rows.transpose(0, 3, 1, 2), found)


@pytest.mark.parametrize(("groups", "extra", "padding"), [(1, 0, 1), (2, 1, (1, 0, 0, 1))])
def test_transposed_convolutions(groups, extra, padding):
    data, weight = normal(2, 4, 5, 6), normal(4, 3, 3, 3)
    pads = [padding] * 4 if isinstance(padding, int) else list(padding)
    expected = by_onnx(
        "ConvTranspose", data, weight, strides=[2, 2], pads=pads, group=groups, output_padding=[extra] * 2
    )
    found = ref.conv2d_transpose_nchw_python(data, weight, (2, 2), padding, (extra, extra), groups)
    same(found, expected)
    if groups == 1:
        rows = ref.conv2d_transpose_nhwc_python(
            data.transpose(0, 2, 3, 1), weight.transpose(2, 3, 1, 0), "HWOI", 2, padding, (extra, extra)
        )
        same(rows.transpose(0, 3, 1, 2), expected)


def test_a_transposed_convolution_is_the_transpose_of_a_convolution():
    data, weight, other = normal(1, 2, 4, 5, 3), normal(2, 3, 2, 2, 2), normal(1, 3, 5, 6, 4)
    up = ref.conv3d_transpose_ncdhw_python(data, weight, 1, 0, 0)
    down = ref.conv3d_ncdhw_python(other, weight, 1, 0)
    np.testing.assert_allclose((up * other).sum(), (down * data).sum(), rtol=1e-4)
    line, kernel = normal(1, 2, 6), normal(2, 1, 3)
    assert ref.group_conv1d_transpose_ncw_python(line, kernel, 2, 1, 1, 2).shape == (1, 2, 12)
    with pytest.raises(UserError, match="smaller than the strides"):
        ref.conv1d_transpose_ncw_python(line, kernel, 2, 1, 2)


def test_the_gradient_of_a_convolution_by_its_kernel():
    data, weight, dy = normal(2, 4, 6, 7), normal(6, 2, 3, 2), normal(2, 6, 3, 4)
    found = ref.conv2d_backward_weight_python(dy, data, (3, 2), (2, 2), (1, 1), groups=2)
    for place in [(0, 0, 0, 0), (5, 1, 2, 1), (3, 0, 1, 1)]:
        moved = weight.astype("float64").copy()
        moved[place] += 1
        wide = data.astype("float64")
        change = ref.conv2d_nchw_python(wide, moved, 2, 1, 2) - ref.conv2d_nchw_python(wide, weight, 2, 1, 2)
        assert found[place] == pytest.approx((change * dy).sum(), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("count_include_pad", [False, True])
@pytest.mark.parametrize("spatial", [(10,), (7, 8), (4, 5, 6)])
def test_pools(spatial, ceil_mode, count_include_pad):
    n, data = len(spatial), normal(1, 2, *spatial)
    common = {"kernel_shape": [3] * n, "strides": [2] * n, "pads": [1] * 2 * n, "ceil_mode": int(ceil_mode)}
    arguments = (data, (3,) * n, (2,) * n, (1,) * n, (1,) * n, (1,) * n)
    same(ref.poolnd_python(*arguments, "max", count_include_pad, ceil_mode), by_onnx("MaxPool", data, **common))
    if not ceil_mode:  # what counts beyond the padded data differs by version of ONNX; the next test says it
        expected = by_onnx("AveragePool", data, **common, count_include_pad=int(count_include_pad))
        same(ref.poolnd_python(*arguments, "avg", count_include_pad, ceil_mode), expected)


def test_a_window_that_ends_outside_the_padded_data_counts_what_is_inside():
    data = np.arange(1, 7, dtype="float32").reshape(1, 1, 6)
    found = ref.poolnd_python(data, (3,), (2,), (1,), (1,), (0,), "avg", True, True)
    np.testing.assert_allclose(found[0, 0], [(0 + 1 + 2) / 3, 3, 5])
    spread = ref.poolnd_python(data, (2,), (1,), (3,), (0,), (0,), "max")
    np.testing.assert_array_equal(spread[0, 0], [4, 5, 6])


def test_a_pool_of_channels_last_is_that_of_channels_first():
    data, window = normal(1, 2, 5, 6), ((3, 2), (2, 1), (1, 1), (1, 0), (1, 0), "avg")
    last = ref.poolnd_python(np.moveaxis(data, 1, -1), *window, layout="NHWC")
    same(last, np.moveaxis(ref.poolnd_python(data, *window), 1, -1))


def test_adaptive_pools_cover_all_the_data():
    data = normal(1, 2, 7, 5)
    found = ref.adaptive_pool(data, (3, 2), "avg", "NCHW")
    assert found[0, 1, 1, 1] == pytest.approx(data[0, 1, 2:5, 2:5].mean(), rel=1e-5)
    rows = ref.adaptive_pool(data.transpose(0, 2, 3, 1), (3, 2), "max", "NHWC").transpose(0, 3, 1, 2)
    same(rows, ref.adaptive_pool(data, (3, 2), "max", "NCHW"))
    same(ref.adaptive_pool(data, (1, 1), "avg", "NCHW"), data.mean((2, 3), keepdims=True))


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_the_gradient_of_a_pool_is_its_transpose(kind):
    data = RNG.permutation(72).reshape(1, 2, 6, 6).astype("float64")
    out_grad = RNG.normal(size=(1, 2, 3, 3))
    found = ref.pool_grad_nchw(data, out_grad, (3, 3), (2, 2), (1, 1, 0, 0), kind, False)

    def value(x):
        return (ref.poolnd_python(x, (3, 3), (2, 2), (1, 1), (1, 1), (0, 0), kind, dtype="float64") * out_grad).sum()

    for place in [(0, 0, 0, 0), (0, 1, 3, 3), (0, 0, 5, 2)]:
        ahead, behind = data.copy(), data.copy()
        ahead[place] += 1e-3
        behind[place] -= 1e-3
        assert found[place] == pytest.approx((value(ahead) - value(behind)) / 2e-3, abs=1e-6)


@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "align_corners"])
@pytest.mark.parametrize(
    ("method", "onnx_mode"), [("linear", "linear"), ("cubic", "cubic"), ("nearest_neighbor", "nearest")]
)
def test_resizes(mode, method, onnx_mode):
    data, scale = normal(1, 2, 5, 4), (2.0, 1.5)
    sizes = np.array([1, 2, 10, 6], "int64")
    nearest = "round_prefer_ceil" if mode == "align_corners" else "floor"
    expected = by_onnx(
        "Resize",
        data,
        None,
        None,
        sizes,
        mode=onnx_mode,
        coordinate_transformation_mode=mode,
        nearest_mode=nearest,
        cubic_coeff_a=-0.5,
    )
    same(ref.resize2d_python(data, scale, "NCHW", method, mode), expected)
    rows = ref.resize2d_python(data.transpose(0, 2, 3, 1), scale, "NHWC", method, mode)
    same(rows.transpose(0, 3, 1, 2), expected)


def test_resizes_of_one_and_three_axes_are_those_of_two_with_others_kept():
    data = normal(2, 3, 6)
    flat = ref.resize2d_python(data[:, :, None], (1, 2), "NCHW", "linear", "half_pixel")
    same(ref.resize1d_python(data, (2,), "NCW", "linear", "half_pixel"), flat[:, :, 0])
    same(ref.resize3d_python(data[:, :, None, None], (1, 1, 2), "NCDHW", "linear", "half_pixel")[:, :, 0], flat)
    with pytest.raises(UserError, match="known methods"):
        ref.resize1d_python(data, (2,), "NCW", "magic")


def test_normalisations():
    data, gamma, beta = normal(2, 6, 4, 5), normal(6), normal(6)
    same(ref.instance_norm_python(data, gamma, beta, (2, 3)), by_onnx("InstanceNormalization", data, gamma, beta))
    wide = by_onnx("GroupNormalization", data, gamma, beta, num_groups=3, opset=21)
    same(ref.group_norm_python(data, gamma, beta, 3, 1, (2, 3)), wide)
    last, shift = normal(5), normal(5)
    same(ref.layer_norm_python(data, last, shift, -1), by_onnx("LayerNormalization", data, last, shift, axis=-1))
    both = normal(4, 5)
    same(ref.layer_norm_python(data, both, both, (2, 3)), by_onnx("LayerNormalization", data, both, both, axis=2))
    same(ref.lrn_python(data, 3, 1, 1.0, 2e-3, 0.75), by_onnx("LRN", data, size=3, bias=1.0, alpha=2e-3, beta=0.75))
    same(ref.l2_normalize_python(data, 1e-12, 1), by_onnx("LpNormalization", data, axis=1, p=2))
    mean, variance = normal(6), np.abs(normal(6))
    expected = by_onnx("BatchNormalization", data, gamma, beta, mean, variance)
    same(ref.batch_norm(data, gamma, beta, mean, variance, 1, 1e-5, True, True)[0], expected)
    trained = ref.batch_norm(data, gamma, beta, mean, variance, 1, 1e-5, False, False, training=True)
    assert abs(trained[0].mean()) < 1e-5 and trained[1] == pytest.approx(0.9 * mean + 0.1 * data.mean((0, 2, 3)))


def test_softmaxes_and_losses():
    data = normal(3, 5) * 10
    same(ref.softmax_python(data, 1), by_onnx("Softmax", data, axis=1))
    same(ref.log_softmax_python(data, 0), by_onnx("LogSoftmax", data, axis=0))
    log, target, weight = ref.log_softmax_python(normal(3, 5, 2)), RNG.integers(0, 5, (3, 2)), np.abs(normal(5))
    for reduction in ("mean", "sum", "none"):
        expected = by_onnx("NegativeLogLikelihoodLoss", log, target, weight, reduction=reduction, ignore_index=2)
        np.testing.assert_allclose(ref.nll_loss(log, target, weight, reduction, 2), expected, rtol=1e-5)


def test_slices():
    data = normal(4, 6, 5)
    np.testing.assert_array_equal(ref.strided_slice_python(data, [1, 5], [3, 0], [1, -2]), data[1:3, 5:0:-2])
    np.testing.assert_array_equal(ref.strided_slice_python(data, [0, -1], [4, -7], [1, -1]), data[:, ::-1])
    np.testing.assert_array_equal(ref.strided_slice_python(data, [1, 2], [2, -1], [], "size"), data[1:3, 2:])
    np.testing.assert_array_equal(ref.strided_slice_python(data, [1], [4], [2], axes=[2]), data[:, :, 1:4:2])
    np.testing.assert_array_equal(ref.slice_axis_python(data, 1, 2, -1), data[:, 2:-1])
    changed = ref.strided_set_python(data, np.zeros((2, 6, 5), "float32"), [0], [4], [2])
    assert (changed[::2] == 0).all() and (changed[1::2] == data[1::2]).all() and (data != 0).all()


def test_gathers_and_masks():
    data = normal(3, 4, 5)
    indices = RNG.integers(0, 4, (3, 2, 5))
    np.testing.assert_array_equal(ref.gather_python(data, 1, indices), np.take_along_axis(data, indices, 1))
    places = np.array([[0, 2, 1], [3, 0, 0]])
    np.testing.assert_array_equal(ref.gather_nd_python(data, places), by_onnx("GatherND", data, places.T.copy()))
    hot = ref.one_hot(np.array([[0, 2]]), 5, -1, 3, 1, "int32")
    np.testing.assert_array_equal(hot, [[[5, -1], [-1, -1], [-1, 5]]])
    masked = ref.sequence_mask(data, np.array([1, 2, 0, 3]), -1.0, 0)
    for b, length in enumerate([1, 2, 0, 3]):
        assert (masked[length:, b] == -1).all() and (masked[:length, b] == data[:length, b]).all()
    rows = np.sort(normal(2, 3, 6))
    wanted = normal(2, 3, 4)
    assert ref.searchsorted_ref(rows, wanted, True, "int32")[1, 2, 3] == (rows[1, 2] <= wanted[1, 2, 3]).sum()


def test_diagonals_are_set():
    found = ref.matrix_set_diag(np.zeros((3, 4)), np.array([[1, 2, 3], [4, 5, 6], [7, 8, 0]]), (-1, 1), "LEFT_RIGHT")
    np.testing.assert_array_equal(found, [[4, 1, 0, 0], [8, 5, 2, 0], [0, 0, 6, 3]])
    np.testing.assert_array_equal(ref.matrix_set_diag(np.zeros((2, 2)), np.array([1, 2])), np.diag([1, 2]))


def test_blocks_move_and_move_back():
    data = normal(2, 8, 4, 6)
    for mode in ("DCR", "CRD"):
        same(ref.depth_to_space_python(data, 2, mode), by_onnx("DepthToSpace", data, blocksize=2, mode=mode))
    same(ref.space_to_depth_python(data, 2), by_onnx("SpaceToDepth", data, blocksize=2))
    moved = ref.space_to_batch_nd_python(data[:, 0], (2, 3), (1, 0), (1, 3))
    assert moved.shape == (12, 3, 3) and moved[0, 0, 0] == 0 and moved[2 * 3, 0, 0] == data[0, 0, 0, 0]
    same(ref.batch_to_space_nd_python(moved, (2, 3), (1, 0), (1, 3)), data[:, 0])
    assert sorted(ref.reorg_python(data, 2).ravel()) == sorted(data.ravel())
    spread = ref.dilate_python(data[0, 0], (2, 1), 7.0)
    assert spread.shape == (7, 6) and (spread[1::2] == 7).all() and (spread[::2] == data[0, 0]).all()


def test_products():
    a, b = normal(1, 3, 4), normal(5, 2, 4)
    same(ref.batch_matmul(a, b), np.einsum("bij,bkj->bik", np.repeat(a, 5, 0), b))
    same(ref.batch_matmul(a.swapaxes(1, 2), b.swapaxes(1, 2), None, True, False), ref.batch_matmul(a, b))
    found = ref.dense(a[0], b[0], np.array([1, -9], "float32"), True, True)
    same(found, np.maximum(a[0] @ b[0].T + [1, -9], 0).astype("float32"))


def test_regions_of_interest():
    data = np.abs(normal(2, 3, 8, 9))
    rois = np.array([[0, 1.2, 0.7, 7.3, 6.1], [1, 2, 3, 5, 7]], "float32")
    expected = by_onnx(
        "RoiAlign",
        data,
        rois[:, 1:].copy(),
        rois[:, 0].astype("int64"),
        output_height=3,
        output_width=2,
        sampling_ratio=2,
        spatial_scale=1.0,
        coordinate_transformation_mode="output_half_pixel",
        mode="avg",
    )
    same(ref.roi_align_nchw_python(data, rois, (3, 2), 1.0, 2, b"avg"), expected)
    rows = ref.roi_align_nhwc_python(data.transpose(0, 2, 3, 1), rois, (3, 2), 1.0, 2, b"max")
    same(rows.transpose(0, 3, 1, 2), ref.roi_align_nchw_python(data, rois, (3, 2), 1.0, 2, b"max"))
    whole = ref.roi_pool_nchw_python(data, np.array([[0, 0, 0, 8, 7]]), 1, 1.0)
    same(whole, data[:1].max((2, 3), keepdims=True))


def test_grids():
    data = normal(1, 2, 5, 6)
    identity = ref.affine_grid_python(np.array([[[1.0, 0, 0], [0, 1, 0]]]), (5, 6))
    same(ref.grid_sample_python(data, identity), data)
    grid = RNG.uniform(-1.4, 1.4, (1, 2, 4, 3)).astype("float32")
    for padding in ("zeros", "border", "reflection"):
        for align in (True, False):
            expected = by_onnx(
                "GridSample",
                data,
                grid.transpose(0, 2, 3, 1),
                mode="linear",
                opset=20,
                padding_mode=padding,
                align_corners=int(align),
            )
            same(ref.grid_sample_python(data, grid, padding_mode=padding, align_corners=align), expected)


def test_crops_are_resized():
    image, boxes = normal(2, 3, 8, 9), np.array([[0, 0, 1, 1], [0.25, 0.5, 0.75, 1.5]])
    found = ref.crop_and_resize_python(image, boxes, np.array([0, 1]), (8, 9), "NCHW", extrapolation_value=7)
    same(found[0], image[0])
    assert (found[1, :, :, -1] == 7).all() and not (found[1, :, :, 0] == 7).any()
    rows = ref.crop_and_resize_python(image.transpose(0, 2, 3, 1), boxes, [0, 1], (4, 4), "NHWC", "nearest_neighbor")
    assert rows.shape == (2, 4, 4, 3)


def relay_result(call, *arrays):
    """What the reference interpreter computes for *call*, over its free variables in the order of *arrays*."""
    return evaluate(call, arrays)


@pytest.mark.parametrize(
    "deformable_groups,groups,stride,padding,dilation", [(1, 1, 1, 1, 1), (2, 2, (2, 1), (0, 1), 2)]
)
def test_a_deformable_convolution_agrees_with_the_operator(deformable_groups, groups, stride, padding, dilation):
    a, w = normal(1, 4, 7, 6), normal(6, 4 // groups, 3, 3)
    sides = ref.padding.both_sides(padding, [2 * d + 1 for d in ref.padding.per_axis(dilation, 2)])
    extents = [2 * d + 1 for d in ref.padding.per_axis(dilation, 2)]
    outs = [
        (n + sum(p) - e) // s + 1
        for n, p, e, s in zip((7, 6), sides, extents, ref.padding.per_axis(stride, 2), strict=True)
    ]
    offset = RNG.uniform(-1, 1, (1, 18 * deformable_groups, *outs)).astype("float32")
    call = relay.nn.deformable_conv2d(
        *(relay.var(n, shape=v.shape) for n, v in (("a", a), ("o", offset), ("w", w))),
        strides=stride,
        padding=padding,
        dilation=dilation,
        deformable_groups=deformable_groups,
        groups=groups,
    )
    arguments = (stride, padding, dilation, deformable_groups, groups)
    found = ref.deformable_conv2d_nchw_python(a, offset, w, *arguments)
    same(found, relay_result(call, a, offset, w))
    last = ref.deformable_conv2d_nhwc_python(
        a.transpose(0, 2, 3, 1), offset.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), *arguments
    )
    same(last, found.transpose(0, 2, 3, 1))


@pytest.mark.parametrize(
    "kernel,moved,stride1,stride2,padding,multiply", [(1, 2, 1, 1, 2, True), (3, 4, 2, 2, 5, False)]
)
def test_a_correlation_agrees_with_the_operator(kernel, moved, stride1, stride2, padding, multiply):
    a, b = normal(2, 3, 8, 9), normal(2, 3, 8, 9)
    arguments = (kernel, moved, stride1, stride2, padding, multiply)
    call = relay.nn.correlation(relay.var("a", shape=a.shape), relay.var("b", shape=b.shape), *arguments, "NCHW")
    same(ref.correlation_nchw_python(a, b, *arguments), relay_result(call, a, b))


@pytest.mark.parametrize("method", ["nearest", "bilinear"])
@pytest.mark.parametrize("mode", ["zeros", "border", "reflection"])
def test_a_volume_is_sampled_as_the_operator_does(method, mode):
    data, grid = normal(1, 2, 3, 4, 5), RNG.uniform(-1.3, 1.3, (1, 3, 2, 3, 4)).astype("float32")
    call = relay.image.grid_sample(
        relay.var("d", shape=data.shape), relay.var("g", shape=grid.shape), method, "NCDHW", mode, True
    )
    same(ref.grid_sample_python(data, grid, method, "NCDHW", mode, True), relay_result(call, data, grid))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_window_that_sees_only_padding_gives_the_least_value(dtype):
    data = np.ones((1, 1, 2), dtype)
    found = ref.poolnd_python(data, [1], [1], [1], [2], [1], "max", dtype=dtype, layout="NCW")
    least = np.finfo(dtype).min if dtype == "float32" else np.iinfo(dtype).min
    assert found.tolist() == [[[least, least, 1, 1, least]]]
