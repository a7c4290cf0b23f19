"""Detection against ONNX Runtime (NonMaxSuppression, RoiAlign, MaxRoiPool) and against the definitions, box by box."""

from __future__ import annotations

import numpy as np
import onnx.helper as oh
import onnxruntime
import pytest

from byoc import relay
from byoc.errors import IndexOutsideError, KernelError, TypeInferenceError
from byoc.relay.analysis.type_infer import infer_expr
from byoc.runtime.kernels import get_kernel

RNG = np.random.default_rng(31)


def run(expr, *arrays):
    call = expr.astuple() if isinstance(expr, relay.TupleWrapper) else expr
    constants = [arg.data.numpy() for arg in call.args if isinstance(arg, relay.Constant)]
    return get_kernel(call.op.kernel)(*arrays, *constants, **call.attrs.as_dict())


def var(name, array):
    return relay.var(name, shape=array.shape, dtype=str(array.dtype))


def onnxruntime_of(operator, opset, inputs, **attrs):
    infos = [oh.make_tensor_value_info(n, oh.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()]
    output = oh.make_empty_tensor_value_info("y")
    graph = oh.make_graph([oh.make_node(operator, list(inputs), ["y"], **attrs)], "g", infos, [output])
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", opset)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


BOXES = np.array(
    [
        [
            [0, 0.8, 1, 20, 25, 45],
            [1, 0.7, 30, 60, 50, 80],
            [0, 0.4, 4, 21, 19, 40],
            [2, 0.9, 35, 61, 52, 79],
            [1, 0.5, 100, 60, 70, 110],
        ]
    ],
    "float32",
)
COUNT, INDICES = np.array([4], "int32"), np.array([[0, 1, 2, 3, -1]], "int32")
NONE = [-1.0] * 6


@pytest.mark.parametrize(
    "force, top_k, want, places",
    [
        (True, 2, [[2, 0.9, 35, 61, 52, 79], [0, 0.8, 1, 20, 25, 45], NONE, NONE, NONE], [3, 0, -1, -1, -1]),
        (
            False,
            -1,
            [
                [2, 0.9, 35, 61, 52, 79],
                [0, 0.8, 1, 20, 25, 45],
                [1, 0.7, 30, 60, 50, 80],
                [-1, -1, 4, 21, 19, 40],
                NONE,
            ],
            [3, 0, 1, -1, -1],
        ),
    ],
)
def test_suppression_gives_relays_example(force, top_k, want, places):
    x, n, i = var("x", BOXES), var("n", COUNT), var("i", INDICES)
    call = relay.vision.non_max_suppression(x, n, i, -1, 0.2, force_suppress=force, top_k=top_k, return_indices=False)
    assert infer_expr(call) == relay.TensorType((1, 5, 6))
    got = run(call, BOXES, COUNT, INDICES)
    np.testing.assert_allclose(got[0], np.array(want, "float32"))
    both = relay.vision.non_max_suppression(x, n, i, -1, 0.2, force_suppress=force, top_k=top_k)
    assert isinstance(both, relay.TupleWrapper) and len(both) == 2
    assert infer_expr(both.astuple()).fields[1] == relay.TensorType((1, 1), "int32")
    found, count = run(both, BOXES, COUNT, INDICES)
    assert found[0, : count[0, 0]].tolist() == [p for p in places if p >= 0]


def test_what_is_suppressed_has_no_class_and_no_score():
    boxes = np.array([[[0, 0.9, 0, 0, 10, 10], [0, 0.8, 0, 0, 10, 9], [1, 0.7, 0, 0, 10, 10]]], "float32")
    count, indices = np.array([3], "int32"), np.array([[5, 6, 7]], "int32")
    args = (var("x", boxes), var("n", count), var("i", indices))
    got = run(relay.vision.non_max_suppression(*args, return_indices=False), boxes, count, indices)
    np.testing.assert_allclose(got[0, 1], [-1, -1, 0, 0, 10, 9])
    assert got[0, 2, 0] == 1
    moved = relay.vision.non_max_suppression(*args, return_indices=False, invalid_to_bottom=True)
    np.testing.assert_allclose(run(moved, boxes, count, indices)[0], [*boxes[0, [0, 2]], NONE])
    found, number = run(relay.vision.non_max_suppression(*args), boxes, count, indices)
    assert found.tolist() == [[5, 7, -1]] and number.tolist() == [[2]]
    forced = relay.vision.non_max_suppression(*args, max_output_size=1, iou_threshold=0.99, force_suppress=True)
    assert run(forced, boxes, count, indices)[0].tolist() == [[5, -1, -1]]


def test_valid_counts_moves_boxes_with_a_score_to_the_front():
    data = RNG.uniform(-1, 1, (3, 7, 6)).astype("float32")
    call = relay.vision.get_valid_counts(var("x", data), 0.1, id_index=0, score_index=1)
    assert [str(f.dtype) for f in infer_expr(call.astuple()).fields] == ["int32", "float32", "int32"]
    counts, boxes, places = run(call, data)
    for n in range(3):
        found = [j for j in range(7) if data[n, j, 1] > 0.1 and data[n, j, 0] >= 0]
        assert counts[n] == len(found) and places[n].tolist() == found + [-1] * (7 - len(found))
        np.testing.assert_array_equal(boxes[n, : len(found)], data[n, found])
        assert (boxes[n, len(found) :] == -1).all()


@pytest.mark.parametrize("limit, iou, threshold", [(3, 0.5, 0.3), (100, 0.3, 0.0), (1, 0.9, 0.6)])
def test_suppression_in_all_classes_is_onnxruntimes(limit, iou, threshold):
    corners = RNG.uniform(0, 1, (2, 20, 2, 2)).astype("float32")
    boxes = np.sort(corners, axis=2).reshape(2, 20, 4)
    scores = RNG.uniform(0, 1, (2, 3, 20)).astype("float32")
    limits = [np.array([limit], "int64"), np.array([iou], "float32"), np.array([threshold], "float32")]
    inputs = dict(zip(("b", "s", "m", "i", "t"), (boxes, scores, *limits), strict=True))
    want = onnxruntime_of("NonMaxSuppression", 11, inputs)
    call = relay.vision.all_class_non_max_suppression(var("b", boxes), var("s", scores), limit, iou, threshold)
    found, count = run(call, boxes, scores)
    assert infer_expr(call.astuple()) == relay.TupleType(
        [relay.TensorType((120, 3), "int64"), relay.TensorType((1,), "int64")]
    )
    np.testing.assert_array_equal(found[: count[0]], want)
    flat = relay.vision.all_class_non_max_suppression(
        var("b", boxes), var("s", scores), limit, iou, threshold, output_format="tensorflow"
    )
    indices, values, counts = run(flat, boxes, scores)
    for n in range(2):
        mine = want[want[:, 0] == n][:, 1:]
        assert counts[n] == len(mine)
        np.testing.assert_array_equal(indices[n, : counts[n]], mine)  # class after class, as Relay lists them
        np.testing.assert_array_equal(values[n, : counts[n]], [scores[n, c, b] for c, b in indices[n, : counts[n]]])


def test_regular_suppression_keeps_the_best_of_all_classes():
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], "float32")
    scores = np.array([[[0.99, 0.9, 0.2], [0.99, 0.8, 0.6], [0.99, 0.1, 0.7]]], "float32")  # background first
    call = relay.vision.regular_non_max_suppression(var("b", boxes), var("s", scores), 2, 3, 2, 0.5, 0.15)
    assert len(call) == 4 and infer_expr(call.astuple()).fields[0] == relay.TensorType((1, 3, 4))
    out, labels, values, count = run(call, boxes, scores)
    np.testing.assert_allclose(values, [[0.9, 0.7, 0.6]])
    assert labels.tolist() == [[0, 1, 1]] and count.tolist() == [3]
    np.testing.assert_array_equal(out[0], boxes[0, [0, 2, 1]])


def test_priors_stand_around_every_pixel():
    data = np.zeros((1, 3, 4, 6), "float32")
    sizes, ratios = (0.5, 0.25), (1.0, 2.0, 0.5)
    call = relay.vision.multibox_prior(var("x", data), sizes, ratios, steps=(-1, -1), offsets=(0.3, 0.5))
    got = run(call, data)
    assert infer_expr(call) == relay.TensorType((1, 4 * 6 * 4, 4))
    for i, j, k in np.ndindex(4, 6, 4):
        size, root = (sizes[k], 1.0) if k < 2 else (sizes[0], np.sqrt(ratios[k - 1]))
        w, h, y, x = size * 4 / 6 * root / 2, size / root / 2, (i + 0.3) / 4, (j + 0.5) / 6
        np.testing.assert_allclose(got[0, (i * 6 + j) * 4 + k], [x - w, y - h, x + w, y + h], rtol=1e-5, atol=1e-6)
    clipped = run(relay.vision.multibox_prior(var("x", data), sizes, ratios, clip=True), data)
    assert clipped.min() >= 0 and clipped.max() <= 1


def test_transformed_locations_leave_out_the_background():
    scores = np.array([[[0.2, 0.5, 0.3], [0.25, 0.3, 0.7], [0.6, 0.2, 0.005]]], "float32")
    moves = np.zeros((1, 12), "float32")
    moves[0, :4] = [0.5, -0.5, 1.0, 0.0]
    anchors = np.array([[[0.1, 0.2, 0.3, 0.6], [0.4, 0.4, 0.6, 0.6], [0.5, 0.5, 1.5, 0.7]]], "float32")
    call = relay.vision.multibox_transform_loc(
        var("s", scores), var("l", moves), var("a", anchors), threshold=0.5, variances=(0.1, 0.1, 0.2, 0.2)
    )
    boxes, count = run(call, scores, moves, anchors)
    assert infer_expr(call.astuple()) == relay.TupleType([relay.TensorType((1, 3, 6)), relay.TensorType((1,), "int32")])
    assert count.tolist() == [2]
    half = np.exp(0.2) * 0.1
    np.testing.assert_allclose(boxes[0, 0], [1, 0.6, 0.21 - half, 0.18, 0.21 + half, 0.58], rtol=1e-5)
    np.testing.assert_allclose(boxes[0, 1], [0, 0.7, 0.5, 0.5, 1, 0.7], rtol=1e-5)
    assert (boxes[0, 2] == -1).all()


REGIONS = np.array([[0, 1, 1.5, 9, 7], [1, -3, 0, 5, 14], [0, 2.5, 3.5, 3, 3.7], [1, 8, 8, 30, 30]], "float32")


@pytest.mark.parametrize("ratio", [-1, 1, 2])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_roi_align_is_onnxruntimes(ratio, layout):
    images = RNG.standard_normal((2, 3, 11, 12)).astype("float32")
    data = images if layout == "NCHW" else images.transpose(0, 2, 3, 1).copy()
    call = relay.vision.roi_align(var("x", data), var("r", REGIONS), (3, 4), 0.8, sample_ratio=ratio, layout=layout)
    got = run(call, data, REGIONS)
    assert infer_expr(call) == relay.TensorType(got.shape)
    inputs = {"x": images, "r": REGIONS[:, 1:].copy(), "b": REGIONS[:, 0].astype("int64")}
    want = onnxruntime_of(
        "RoiAlign",
        16,
        inputs,
        output_height=3,
        output_width=4,
        spatial_scale=0.8,
        sampling_ratio=max(ratio, 0),
        coordinate_transformation_mode="output_half_pixel",
    )
    np.testing.assert_allclose(got if layout == "NCHW" else got.transpose(0, 3, 1, 2), want, atol=1e-5)


def test_roi_align_takes_the_maximum_of_its_places():
    data, roi = RNG.standard_normal((1, 2, 6, 6)).astype("float32"), np.array([[0, 0, 0, 4, 4]], "float32")
    call = relay.vision.roi_align(var("x", data), var("r", roi), 2, 1.0, sample_ratio=2, mode="max")
    # places 0.5, 1.5 and 2.5, 3.5 along each axis
    middles = (data[..., :5, :5] + data[..., 1:, :5] + data[..., :5, 1:] + data[..., 1:, 1:]) / 4
    want = middles[0, :, :4, :4].reshape(2, 2, 2, 2, 2).max((2, 4))
    np.testing.assert_allclose(run(call, data, roi)[0], want, rtol=1e-5)


@pytest.mark.parametrize("pixels", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 3])
@pytest.mark.parametrize("onnx_mode, mode", [("avg", "avg"), ("max", "max_of_parts")])
def test_a_region_larger_than_its_image_is_onnxruntimes(onnx_mode, mode, ratio, pixels):
    data = RNG.standard_normal((1, 2, 5, 4)).astype("float32")
    regions = np.array([[0, -30.5, -20, 50, 41], [0, -3, 2, 90, 3], [0, -60, -60, -20, 70], [0, 2, 1, 2, 1]], "float32")
    call = relay.vision.roi_align(
        var("x", data), var("r", regions), (3, 2), 1.0, sample_ratio=ratio, mode=mode, aligned=pixels == "half_pixel"
    )
    want = onnxruntime_of(
        "RoiAlign",
        16,
        {"x": data, "r": regions[:, 1:].copy(), "b": np.zeros(4, "int64")},
        output_height=3,
        output_width=2,
        mode=onnx_mode,
        sampling_ratio=ratio,
        coordinate_transformation_mode=pixels,
    )
    np.testing.assert_allclose(run(call, data, regions), want, atol=1e-5)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_a_region_of_billions_of_pixels_takes_only_the_places_inside(mode):
    """Places lie in the middle between pixels: the first cell's last one is at -0.5, which is pixel 0."""
    data, far = RNG.standard_normal((1, 2, 4, 4)).astype("float32"), 2.0**31
    regions = np.array([[0, -far, -far, far, far]], "float32")
    call = relay.vision.roi_align(var("x", data), var("r", regions), 2, 1.0, mode=mode)
    want = data[0, :, 0, 0] / far**2 if mode == "avg" else np.maximum(data[0, :, 0, 0], 0)
    np.testing.assert_allclose(run(call, data, regions)[0, :, 0, 0], want, rtol=1e-6)


@pytest.mark.parametrize("operator", [relay.vision.roi_align, relay.vision.roi_pool])
def test_regions_of_no_image_and_without_end_are_refused(operator):
    data = np.ones((2, 1, 4, 4), "float32")

    def pooled(*region):
        regions = np.array([[0, 0, 0, 2, 2], region], "float32")
        return run(operator(var("x", data), var("r", regions), (2, 2), 1.0), data, regions)

    assert (pooled(1, 0, 0, 2, 2) == 1).all()
    for image in (-1, 2, np.nan, np.inf):
        with pytest.raises(IndexOutsideError, match="region 1: image .* is outside a batch of 2; give images from 0"):
            pooled(image, 0, 0, 2, 2)
    for corner in (np.nan, np.inf, -np.inf):
        for k in range(4):
            region = [0.0, 0.0, 2.0, 2.0]
            region[k] = corner
            with pytest.raises(KernelError, match="region 1 is .* the corners of a region must be finite numbers"):
                pooled(0, *region)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_roi_pool_is_onnxruntimes(scale):
    data = RNG.standard_normal((2, 3, 11, 12)).astype("float32")
    regions = np.array([[0, 1, 1, 9, 7], [1, 0, 0, 5, 10], [0, 2, 3, 3, 4], [1, 7, 7, 11, 10]], "float32")
    call = relay.vision.roi_pool(var("x", data), var("r", regions), (3, 2), scale)
    want = onnxruntime_of("MaxRoiPool", 1, {"x": data, "r": regions}, pooled_shape=(3, 2), spatial_scale=scale)
    assert infer_expr(call) == relay.TensorType(want.shape)
    np.testing.assert_allclose(run(call, data, regions), want)


def test_proposals_are_the_best_anchors_inside_the_image():
    scores, moves = np.zeros((1, 2, 2, 3), "float32"), np.zeros((1, 4, 2, 3), "float32")
    scores[0, 1] = [[0.1, 0.9, 0.2], [0.3, 0.8, 0.95]]
    moves[0, 0, 0, 1], moves[0, 3, 1, 1] = 0.25, np.log(2)
    image = np.array([[32, 40, 1]], "float32")  # 2 rows, 2 whole columns of 16
    call = relay.vision.proposal(
        var("s", scores),
        var("b", moves),
        var("i", image),
        scales=(1,),
        ratios=(1,),
        feature_stride=16,
        threshold=0.5,
        rpn_pre_nms_top_n=6,
        rpn_post_nms_top_n=5,
        rpn_min_size=4,
        iou_loss=False,
    )
    got = run(call, scores, moves, image)
    assert infer_expr(call) == relay.TensorType((5, 5))
    np.testing.assert_allclose(
        got[:4, 1:], [[20, 0, 35, 15], [16, 8, 31, 31], [0, 16, 15, 31], [0, 0, 15, 15]], atol=1e-4
    )
    assert (got[:, 0] == 0).all()
    with pytest.raises(KernelError, match="im_info must be finite numbers"):
        run(call, scores, moves, np.array([[32, np.nan, 1]], "float32"))


@pytest.mark.parametrize("stride", [2, 3])
def test_yolo_reorg_is_darknets_loop(stride):
    channels, height, width = stride**2 * 2, stride * 2, stride * 3
    data = np.arange(channels * height * width, dtype="float32").reshape(1, channels, height, width)
    flat, want = data.reshape(-1), []
    few = channels // stride**2
    for k, j, i in np.ndindex(channels, height, width):
        offset = k // few
        column, row = i * stride + offset % stride, j * stride + offset // stride
        want.append(flat[column + width * stride * (row + height * stride * (k % few))])
    call = relay.vision.yolo_reorg(var("x", data), stride=stride)
    got = run(call, data)
    assert infer_expr(call) == relay.TensorType((1, channels * stride**2, 2, 3))
    np.testing.assert_array_equal(got.reshape(-1), want)


def test_what_does_not_fit_is_refused():
    with pytest.raises(TypeInferenceError, match=r"rois must be \[regions, 5\]"):
        infer_expr(relay.vision.roi_align(relay.var("x", shape=(1, 2, 4, 4)), relay.var("r", shape=(3, 4)), 2, 1.0))
    with pytest.raises(TypeInferenceError, match="output_format is one of onnx, tensorflow"):
        boxes, scores = relay.var("b", shape=(1, 5, 4)), relay.var("s", shape=(1, 2, 5))
        infer_expr(relay.vision.all_class_non_max_suppression(boxes, scores, output_format="caffe").astuple())
