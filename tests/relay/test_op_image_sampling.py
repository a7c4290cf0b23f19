"""Sampling of images against ONNX Runtime's GridSample, AffineGrid's definition and TensorFlow's crop_and_resize."""

from __future__ import annotations

import numpy as np
import onnx.helper as oh
import onnxruntime
import pytest
import scipy.ndimage
from onnx import TensorProto

from byoc import relay
from byoc.errors import IndexOutsideError, TypeInferenceError
from byoc.relay.analysis.type_infer import infer_expr
from byoc.runtime.kernels import get_kernel

RNG = np.random.default_rng(23)


def run(call, *arrays):
    return get_kernel(call.op.kernel)(*arrays, **call.attrs.as_dict())


def var(name, array):
    return relay.var(name, shape=array.shape, dtype=str(array.dtype))


def onnx_grid_sample(data, grid, **attrs):
    infos = [oh.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in (("x", data), ("grid", grid))]
    output = oh.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = oh.make_graph([oh.make_node("GridSample", ["x", "grid"], ["y"], **attrs)], "g", infos, [output])
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 20)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": data, "grid": grid})[0]


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(
    "n, method, onnx_method",
    [
        (2, "nearest", "nearest"),
        (2, "bilinear", "linear"),
        (2, "bicubic", "cubic"),
        (3, "nearest", "nearest"),
        (3, "bilinear", "linear"),
    ],
)
def test_grid_sample_is_onnxruntimes(n, method, onnx_method, padding, align_corners):
    data = RNG.standard_normal((2, 3, 5, 6, 4)[: n + 2]).astype("float32")
    places = RNG.uniform(-1.6, 1.6, (*(2, 4, 3, 2)[: n + 1], n)).astype("float32")
    grid = np.asarray(np.moveaxis(places, -1, 1), order="C")
    layout = "NCHW" if n == 2 else "NCDHW"
    call = relay.image.grid_sample(var("x", data), var("g", grid), method, layout, padding, align_corners)
    got = run(call, data, grid)
    assert infer_expr(call) == relay.TensorType(got.shape)
    want = onnx_grid_sample(data, places, mode=onnx_method, padding_mode=padding, align_corners=int(align_corners))
    np.testing.assert_allclose(got, want, atol=2e-5)


def test_the_identity_maps_a_grid_onto_the_image():
    data = np.array([[[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [1, 0, 0.5]]], "float32")
    call = relay.image.affine_grid(var("m", data), target_shape=(3, 5))
    grid = run(call, data)
    assert infer_expr(call) == relay.TensorType((2, 2, 3, 5))
    np.testing.assert_allclose(grid[0, 0], np.tile([-1, -0.5, 0, 0.5, 1], (3, 1)))
    np.testing.assert_allclose(grid[1, 1], grid[0, 0] + 0.5)
    np.testing.assert_allclose(grid[1, 0], np.tile([[-1], [0], [1]], (1, 5)))
    image = RNG.standard_normal((1, 2, 3, 5)).astype("float32")
    sampled = get_kernel("image.grid_sample")(image, grid[:1])
    np.testing.assert_allclose(sampled, image, atol=1e-6)


def _crop(image, box, size, method, outside):
    """TensorFlow's definition, pixel by pixel: image [C, H, W]."""
    out = np.empty((image.shape[0], *size))
    for i, j in np.ndindex(*size):
        place = []
        for low, high, count, extent, k in zip(box[:2], box[2:], size, image.shape[1:], (i, j), strict=True):
            if count > 1:
                place.append(low * (extent - 1) + k * (high - low) * (extent - 1) / (count - 1))
            else:
                place.append(0.5 * (low + high) * (extent - 1))
        y, x = place
        if not (0 <= y <= image.shape[1] - 1 and 0 <= x <= image.shape[2] - 1):
            out[:, i, j] = outside
        elif method == "nearest_neighbor":
            out[:, i, j] = image[:, int(np.floor(y + 0.5)), int(np.floor(x + 0.5))]
        else:
            t, left = int(np.floor(y)), int(np.floor(x))
            b, r = int(np.ceil(y)), int(np.ceil(x))
            top = image[:, t, left] + (image[:, t, r] - image[:, t, left]) * (x - left)
            bottom = image[:, b, left] + (image[:, b, r] - image[:, b, left]) * (x - left)
            out[:, i, j] = top + (bottom - top) * (y - t)
    return out


@pytest.mark.parametrize("image", [-1, 2])
def test_a_crop_of_no_image_is_refused(image):
    data, boxes, images = np.ones((2, 1, 4, 4), "float32"), np.array([[0, 0, 1, 1]], "float32"), np.array([image])
    call = relay.image.crop_and_resize(var("x", data), var("b", boxes), var("i", images), (2, 2), "NCHW")
    with pytest.raises(IndexOutsideError, match=f"box_indices: image {image} is outside a batch of 2; give images"):
        run(call, data, boxes, images)


@pytest.mark.parametrize("method", ["bilinear", "nearest_neighbor"])
@pytest.mark.parametrize("size", [(4, 3), (1, 5)])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_crop_and_resize_is_tensorflows(method, size, layout):
    images = RNG.standard_normal((2, 3, 7, 8)).astype("float32")
    boxes = np.array([[0.1, 0.2, 0.83, 0.7], [0.9, 1.2, -0.1, 0.3], [0, 0, 1, 1]], "float32")
    indices = np.array([1, 0, 1], "int32")
    data = images if layout == "NCHW" else images.transpose(0, 2, 3, 1).copy()
    call = relay.image.crop_and_resize(
        var("x", data), var("b", boxes), var("i", indices), size, layout, method, extrapolation_value=-3.5
    )
    got = run(call, data, boxes, indices)
    assert infer_expr(call) == relay.TensorType(got.shape)
    want = np.stack([_crop(images[i], b, size, method, -3.5) for b, i in zip(boxes, indices, strict=True)])
    np.testing.assert_allclose(got if layout == "NCHW" else got.transpose(0, 3, 1, 2), want, atol=1e-5)


def test_dilation_is_scipys_grey_dilation():
    data, weight = RNG.standard_normal((2, 3, 7, 8)).astype("float32"), RNG.standard_normal((3, 3, 5)).astype("float32")
    call = relay.image.dilation2d(var("x", data), var("w", weight), padding=(1, 2))
    got = run(call, data, weight)
    assert infer_expr(call) == relay.TensorType(got.shape)
    for n, c in np.ndindex(2, 3):
        want = scipy.ndimage.grey_dilation(
            data[n, c], structure=weight[c, ::-1, ::-1], mode="constant", cval=np.finfo("float32").min
        )
        np.testing.assert_allclose(got[n, c], want, rtol=1e-6)


def test_dilation_takes_steps_and_other_layouts():
    data, weight = RNG.standard_normal((1, 3, 9, 8)).astype("float32"), RNG.standard_normal((3, 2, 3)).astype("float32")
    plain = relay.image.dilation2d(var("x", data), var("w", weight), strides=(2, 1), dilations=(3, 2))
    want = run(plain, data, weight)
    for i, j in np.ndindex(want.shape[2:]):
        window = data[0, :, i * 2 : i * 2 + 4 : 3, j : j + 5 : 2]
        np.testing.assert_allclose(want[0, :, i, j], (window + weight).max((1, 2)))
    x, w = data.transpose(0, 2, 3, 1).copy(), weight.transpose(1, 2, 0).copy()
    other = relay.image.dilation2d(
        var("x", x), var("w", w), strides=(2, 1), dilations=(3, 2), data_layout="NHWC", kernel_layout="HWI"
    )
    np.testing.assert_array_equal(run(other, x, w).transpose(0, 3, 1, 2), want)


def test_what_is_no_grid_is_refused():
    data, grid = relay.var("x", shape=(1, 2, 4, 4)), relay.var("g", shape=(1, 3, 4, 4))
    with pytest.raises(TypeInferenceError, match=r"grid must be \[batch, 2, ...\]"):
        infer_expr(relay.image.grid_sample(data, grid))
    with pytest.raises(TypeInferenceError, match="padding_mode of zeros, border, reflection"):
        infer_expr(relay.image.grid_sample(data, relay.var("g", shape=(1, 2, 4, 4)), padding_mode="wrap"))
