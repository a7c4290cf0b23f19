"""Regions, grids, patches and Fourier transforms of the importer against ONNX Runtime, on random sizes."""

import itertools

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_single_node import assert_like_onnx_runtime, feeds_of, ours, single_node

import byoc
from byoc.errors import ImportModelError, IndexOutsideError

RNG = np.random.default_rng(11)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def i64(*values: int) -> np.ndarray:
    return np.array(values, "int64")


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("centre", [0, 1])
@pytest.mark.parametrize(
    "limits",
    [
        (i64(3), np.array([0.4], "float32"), np.array([0.2], "float32")),
        (i64(2**63 - 1), np.array([0.2], "float32"), None),
        (i64(2), None, None),
        (i64(0), np.array([0.4], "float32"), None),
        (),
    ],
)
def test_boxes_are_suppressed_as_onnx_runtime_does(limits: tuple, centre: int, free: bool) -> None:
    corners = RNG.random((2, 40, 2)).astype("float32")
    boxes = np.concatenate([corners, corners + RNG.random((2, 40, 2)).astype("float32")], axis=2)
    scores = np.round(RNG.random((2, 3, 40)), 1).astype("float32")
    model = single_node("NonMaxSuppression", 11, [boxes, scores], limits, center_point_box=centre, free=free)
    assert_like_onnx_runtime(model, feeds_of([boxes, scores]))


MODES = [(16, "bilinear"), (16, "nearest"), (16, "bicubic"), (22, "linear"), (22, "nearest"), (22, "cubic")]


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("opset, mode", MODES)
def test_a_grid_is_sampled_as_onnx_runtime_does(opset: int, mode: str, padding: str, align: int) -> None:
    inputs = [f32(2, 3, 5, 6), (RNG.random((2, 4, 7, 2)) * 4 - 2).astype("float32")]
    model = single_node("GridSample", opset, inputs, mode=mode, padding_mode=padding, align_corners=align)
    assert_like_onnx_runtime(model, feeds_of(inputs))


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_a_volume_is_sampled_as_onnx_runtime_does(mode: str, padding: str, align: int) -> None:
    inputs = [f32(2, 3, 5, 6, 4), (RNG.random((2, 4, 3, 2, 3)) * 3 - 1.5).astype("float32")]
    model = single_node("GridSample", 20, inputs, mode=mode, padding_mode=padding, align_corners=align, free=True)
    assert_like_onnx_runtime(model, feeds_of(inputs))


ROIS = np.array([[0, 0, 7, 9], [1.5, 2, 3, 2.5], [4, 4, 6.3, 8], [-2, -1, 20, 30], [3, 3, 3.2, 3.1]], "float32")


@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("opset, pixels", [(10, None), (16, "half_pixel"), (16, "output_half_pixel")])
def test_regions_are_aligned_as_onnx_runtime_does(opset: int, pixels: str | None, ratio: int) -> None:
    """Their means: the maximum of ONNX Runtime is that of ONNX's own tests."""
    inputs = [f32(2, 3, 9, 11), ROIS, i64(0, 1, 1, 0, 1)]
    attrs = {"coordinate_transformation_mode": pixels} if pixels else {}
    model = single_node(
        "RoiAlign", opset, inputs, output_height=3, output_width=2, spatial_scale=0.75, sampling_ratio=ratio, **attrs
    )
    assert_like_onnx_runtime(model, feeds_of(inputs))


@pytest.mark.parametrize("opset, pixels", [(16, "half_pixel"), (16, "output_half_pixel")])
def test_the_maximum_of_a_region_is_onnx_runtimes(opset: int, pixels: str) -> None:
    inputs = [f32(2, 3, 9, 11), ROIS, i64(0, 1, 1, 0, 1)]
    model = single_node(
        "RoiAlign", opset, inputs, output_height=3, output_width=2, mode="max", coordinate_transformation_mode=pixels
    )
    assert_like_onnx_runtime(model, feeds_of(inputs))


@pytest.mark.parametrize("image", [-1, 2])
def test_a_region_of_no_image_is_an_error_of_the_run(image: int) -> None:
    inputs = [f32(2, 3, 9, 11), ROIS[:1], i64(image)]
    with pytest.raises(IndexOutsideError, match=f"region 0: image {image} is outside a batch of 2; give images from 0"):
        ours(single_node("RoiAlign", 16, inputs), feeds_of(inputs))


def test_regions_are_pooled_as_onnx_runtime_does() -> None:
    regions = np.concatenate([np.array([[0], [1], [1], [0], [1]], "float32"), ROIS], axis=1)
    inputs = [f32(2, 3, 9, 11), regions]
    model = single_node("MaxRoiPool", 7, inputs, pooled_shape=[3, 2], spatial_scale=0.75)
    assert_like_onnx_runtime(model, feeds_of(inputs))


@pytest.mark.parametrize("inverse, onesided, last", [(0, 0, 1), (0, 0, 2), (1, 0, 2), (0, 1, 1)])
@pytest.mark.parametrize("length", [None, 4, 9])
@pytest.mark.parametrize("opset, axis", [(17, 1), (17, 2), (20, 1), (20, -2)])
def test_a_transform_is_onnx_runtimes(
    opset: int, axis: int, length: int | None, inverse: int, onesided: int, last: int
) -> None:
    inputs, size = [f32(2, 6, 7, last)], None if length is None else np.array(length, "int64")
    attrs: dict[str, object] = {"inverse": inverse, "onesided": onesided}
    constants = [size, np.array(axis, "int64")] if opset == 20 else [size]
    if opset < 20:
        attrs["axis"] = axis
    assert_like_onnx_runtime(single_node("DFT", opset, inputs, constants, **attrs), feeds_of(inputs))


@pytest.mark.parametrize("count, length", list(itertools.product([4, 5], [None, 6, 7])))
def test_a_half_spectrum_gives_its_real_signal(count: int, length: int | None) -> None:
    """Against numpy's ``irfft``: ONNX Runtime does not have it yet."""
    data = f32(2, count, 2)
    model = single_node(
        "DFT", 20, [data], [None if length is None else np.array(length, "int64")], inverse=1, onesided=1
    )
    (got,) = ours(model, {"x0": data})
    wanted = np.fft.irfft(data[..., 0] + 1j * data[..., 1], n=length, axis=1)
    np.testing.assert_allclose(got[..., 0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "onesided, last",
    [(1, (1,)), (0, (1,)), pytest.param(0, (2,), marks=pytest.mark.newer_onnxruntime), (1, ()), (0, ())],
)
@pytest.mark.parametrize("window, length", [(True, True), (True, False), (False, True)])
def test_a_short_time_transform_is_onnx_runtimes(
    onesided: int, last: tuple[int, ...], window: bool, length: bool
) -> None:
    inputs = [f32(2, 30, *last)]
    constants = [
        np.array(3, "int64"),
        np.hanning(8).astype("float32") if window else None,
        np.array(8, "int64") if length else None,
    ]
    assert_like_onnx_runtime(single_node("STFT", 17, inputs, constants, onesided=onesided), feeds_of(inputs))


@pytest.mark.parametrize("bins, length, rate, low, high", [(8, 16, 8192, 0, 4000), (10, 64, 16000, 80, 7600)])
def test_mel_weights_are_onnx_runtimes(bins: int, length: int, rate: int, low: float, high: float) -> None:
    numbers = [np.array(n, "int64") for n in (bins, length, rate)]
    edges = [np.array(e, "float32") for e in (low, high)]
    for inputs, constants in (([*numbers, *edges], []), ([], [*numbers, *edges])):
        assert_like_onnx_runtime(single_node("MelWeightMatrix", 17, inputs, constants), feeds_of(inputs))


@pytest.mark.parametrize(
    "image, patch, attrs",
    [
        ([5, 6], [2, 3], {}),
        ([5, 6], [2, 3], {"strides": [2, 1], "pads": [1, 0, 0, 1]}),
        ([7, 6], [2, 2], {"dilations": [2, 3], "pads": [1, 1, 1, 1]}),
        pytest.param([6], [3], {"strides": [2], "pads": [0, 1]}, marks=pytest.mark.newer_onnxruntime),
    ],
)
@pytest.mark.parametrize("free", [False, True])
def test_patches_become_onnx_runtimes_image(image: list[int], patch: list[int], attrs: dict, free: bool) -> None:
    n = len(image)
    pads, strides, dilations = (
        attrs.get(k, [d] * c) for k, d, c in (("pads", 0, 2 * n), ("strides", 1, n), ("dilations", 1, n))
    )
    steps = [(image[k] + pads[k] + pads[k + n] - (patch[k] - 1) * dilations[k] - 1) // strides[k] + 1 for k in range(n)]
    inputs = [f32(2, 3 * int(np.prod(patch)), int(np.prod(steps)))]
    model = single_node("Col2Im", 18, inputs, [i64(*image), i64(*patch)], **attrs)
    if free:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    assert_like_onnx_runtime(model, feeds_of(inputs))


def test_patches_that_do_not_fit_the_image_are_refused() -> None:
    inputs = [f32(2, 12, 7)]
    with pytest.raises(ImportModelError, match=r"patches of \[2, 3\] in an image of \[5, 6\]"):
        ours(single_node("Col2Im", 18, inputs, [i64(5, 6), i64(2, 3)]), feeds_of(inputs))


@pytest.mark.parametrize("opset", [9, 11])
def test_pooled_elements_go_back_where_onnx_runtime_puts_them(opset: int) -> None:
    places = np.sort(RNG.permutation(2 * 3 * 8 * 6)[:72]).reshape(2, 3, 4, 3).astype("int64")
    inputs = [f32(2, 3, 4, 3), places]
    model = single_node("MaxUnpool", opset, inputs, kernel_shape=[2, 2], strides=[2, 2])
    assert_like_onnx_runtime(model, feeds_of(inputs))


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("size", [[2, 3, 4, 5], [1, 3, 1, 5], [2, 3, 4, 5, 6], [1, 2, 3, 1, 4]])
def test_an_affine_grid_may_get_its_size_when_it_runs(size: list[int], align_corners: int) -> None:
    axes = len(size) - 2
    inputs = [f32(size[0], axes, axes + 1), i64(*size)]
    model = single_node("AffineGrid", 20, inputs, align_corners=align_corners)
    (wanted,) = ReferenceEvaluator(model).run(None, feeds_of(inputs))
    np.testing.assert_allclose(ours(model, feeds_of(inputs))[0], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.needs_cc
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("mode, padding", [("linear", "reflection"), ("nearest", "border"), ("cubic", "zeros")])
def test_code_is_generated_for_a_sampled_grid_and_a_place_that_is_no_number(
    mode: str, padding: str, free: bool
) -> None:
    inputs = [f32(2, 3, 5, 6), (RNG.random((2, 4, 7, 2)) * 4 - 2).astype("float32")]
    inputs[1][0, 0, 0] = np.nan
    model = single_node("GridSample", 20, inputs, mode=mode, padding_mode=padding, free=free)
    library = byoc.compile(model)
    assert library.report["host_fallbacks"] == {}
    found, wanted = np.asarray(library.run(feeds_of(inputs))[0]), ours(model, feeds_of(inputs))[0]
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
