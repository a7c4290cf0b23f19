"""Numpy kernels of nn and image operators give what ONNX Runtime gives for the same ONNX node."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from byoc.relay.frontend import from_onnx
from byoc.relay.interpreter import evaluate
from byoc.runtime.kernels import get_kernel

RNG = np.random.default_rng(7)


def f32(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def run_node(op: str, inputs: list[np.ndarray | None], opset: int = 19, **attrs: object) -> np.ndarray:
    """The first output of a one-node model; inputs after the first are initializers, None is left out."""
    names = ["" if a is None else f"i{k}" for k, a in enumerate(inputs)]
    node = helper.make_node(op, names, ["out"], **attrs)
    inits = [numpy_helper.from_array(a, n) for a, n in zip(inputs[1:], names[1:], strict=True) if a is not None]
    data = helper.make_tensor_value_info("i0", helper.np_dtype_to_tensor_dtype(inputs[0].dtype), inputs[0].shape)
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [data], [out], inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"i0": inputs[0]})[0]


def check(want: np.ndarray, name: str, arrays: list[np.ndarray], rtol: float = 1e-4, **attrs: object) -> None:
    got = get_kernel(name)(*arrays, **attrs)
    got = got[0] if isinstance(got, tuple) else got
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-5)


LAYOUTS = {1: ("NCW", "OIW", "IOW"), 2: ("NCHW", "OIHW", "IOHW"), 3: ("NCDHW", "OIDHW", "IODHW")}
CONVS = [
    ((2, 4, 15), (6, 2, 3), dict(strides=[2], pads=[1, 2], dilations=[2], group=2)),
    ((2, 3, 12, 13), (5, 3, 3, 4), dict(strides=[2, 1], pads=[0, 1, 2, 3], dilations=[1, 2], group=1)),
    ((1, 6, 9, 9), (12, 1, 3, 3), dict(strides=[1, 1], pads=[1, 1, 1, 1], dilations=[1, 1], group=6)),
    ((1, 6, 9, 9), (6, 2, 3, 3), dict(strides=[2, 2], pads=[1, 1, 1, 1], dilations=[2, 2], group=3)),
    ((1, 4, 6, 7, 8), (4, 2, 2, 3, 3), dict(strides=[1, 2, 1], pads=[1, 0, 1, 0, 1, 1], dilations=[1, 1, 2], group=2)),
]


@pytest.mark.parametrize("shape, weight, attrs", CONVS)
def test_convolutions_agree(shape: tuple, weight: tuple, attrs: dict) -> None:
    x, w, n = f32(*shape), f32(*weight), len(shape) - 2
    check(
        run_node("Conv", [x, w], **attrs),
        f"nn.conv{n}d",
        [x, w],
        strides=tuple(attrs["strides"]),
        padding=tuple(attrs["pads"]),
        dilation=tuple(attrs["dilations"]),
        groups=attrs["group"],
        data_layout=LAYOUTS[n][0],
        kernel_layout=LAYOUTS[n][1],
    )


def test_a_convolution_in_blocks_of_rows_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byoc.runtime.kernels.nn.conv.BLOCK_BYTES", 4096)
    x, w = f32(1, 3, 31, 29), f32(4, 3, 5, 5)
    check(run_node("Conv", [x, w]), "nn.conv2d", [x, w], data_layout="NCHW", kernel_layout="OIHW")


TRANSPOSED = [
    ((2, 4, 6), (4, 3, 4), dict(strides=[3], pads=[1, 2], output_padding=[2], dilations=[1], group=1)),
    (
        (1, 4, 5, 6),
        (4, 3, 3, 3),
        dict(strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1], dilations=[1, 1], group=1),
    ),
    (
        (2, 4, 5, 4),
        (4, 2, 3, 2),
        dict(strides=[1, 3], pads=[0, 1, 1, 0], output_padding=[0, 0], dilations=[2, 1], group=2),
    ),
    (
        (1, 2, 5, 4),
        (2, 3, 2, 2),
        dict(strides=[3, 3], pads=[0, 0, 0, 0], output_padding=[2, 1], dilations=[1, 1], group=1),
    ),
    (
        (1, 2, 3, 4, 3),
        (2, 2, 2, 3, 2),
        dict(strides=[2, 1, 2], pads=[1, 0, 1, 0, 1, 0], output_padding=[1, 0, 0], dilations=[1, 1, 1], group=1),
    ),
]


@pytest.mark.parametrize("shape, weight, attrs", TRANSPOSED)
def test_transposed_convolutions_agree(shape: tuple, weight: tuple, attrs: dict) -> None:
    x, w, n = f32(*shape), f32(*weight), len(shape) - 2
    check(
        run_node("ConvTranspose", [x, w], **attrs),
        f"nn.conv{n}d_transpose",
        [x, w],
        strides=tuple(attrs["strides"]),
        padding=tuple(attrs["pads"]),
        dilation=tuple(attrs["dilations"]),
        output_padding=tuple(attrs["output_padding"]),
        groups=attrs["group"],
        data_layout=LAYOUTS[n][0],
        kernel_layout=LAYOUTS[n][2],
    )


POOLS = [
    ((2, 3, 11), [3], [2], [1, 0]),
    ((1, 3, 9, 10), [3, 2], [2, 2], [1, 0, 0, 1]),
    ((1, 2, 7, 8), [3, 3], [2, 3], [1, 1, 1, 1]),
    ((1, 2, 5, 6, 7), [2, 3, 2], [2, 1, 2], [0, 1, 1, 1, 1, 0]),
]


@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("shape, kernel, strides, pads", POOLS)
def test_maximum_pools_agree(shape: tuple, kernel: list, strides: list, pads: list, ceil_mode: int) -> None:
    x, n = f32(*shape), len(kernel)
    want = run_node("MaxPool", [x], kernel_shape=kernel, strides=strides, pads=pads, ceil_mode=ceil_mode)
    check(
        want,
        f"nn.max_pool{n}d",
        [x],
        pool_size=tuple(kernel),
        strides=tuple(strides),
        padding=tuple(pads),
        layout=LAYOUTS[n][0],
        ceil_mode=bool(ceil_mode),
    )


def test_a_dilated_maximum_pool_agrees() -> None:
    x = f32(1, 2, 11, 12)
    want = run_node("MaxPool", [x], kernel_shape=[3, 2], strides=[2, 1], dilations=[2, 3], pads=[1, 0, 1, 0])
    check(
        want,
        "nn.max_pool2d",
        [x],
        pool_size=(3, 2),
        strides=(2, 1),
        dilation=(2, 3),
        padding=(1, 0, 1, 0),
        layout="NCHW",
    )


@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("shape, kernel, strides, pads", POOLS)
def test_average_pools_agree(
    shape: tuple, kernel: list, strides: list, pads: list, include: int, ceil_mode: int
) -> None:
    x, n = f32(*shape), len(kernel)
    want = run_node(
        "AveragePool",
        [x],
        kernel_shape=kernel,
        strides=strides,
        pads=pads,
        ceil_mode=ceil_mode,
        count_include_pad=include,
    )
    check(
        want,
        f"nn.avg_pool{n}d",
        [x],
        pool_size=tuple(kernel),
        strides=tuple(strides),
        padding=tuple(pads),
        layout=LAYOUTS[n][0],
        ceil_mode=bool(ceil_mode),
        count_include_pad=bool(include),
    )


def test_global_pools_agree() -> None:
    x = f32(2, 3, 5, 7)
    check(run_node("GlobalAveragePool", [x]), "nn.global_avg_pool2d", [x], layout="NCHW")
    check(run_node("GlobalMaxPool", [x]), "nn.global_max_pool2d", [x], layout="NCHW")


def test_norms_agree() -> None:
    x, gamma, beta, mean, variance = f32(2, 6, 5, 4), f32(6), f32(6), f32(6), np.abs(f32(6)) + 0.1
    want = run_node("BatchNormalization", [x, gamma, beta, mean, variance], epsilon=1e-3)
    check(want, "nn.batch_norm", [x, gamma, beta, mean, variance], epsilon=1e-3)
    want = run_node("InstanceNormalization", [x, gamma, beta], epsilon=1e-3)
    check(want, "nn.instance_norm", [x, gamma, beta], epsilon=1e-3)
    g, b = f32(4), f32(4)
    check(run_node("LayerNormalization", [x, g, b], axis=-1), "nn.layer_norm", [x, g, b])
    want = run_node("LRN", [x], size=3, alpha=0.2, beta=0.6, bias=1.5)
    check(want, "nn.lrn", [x], size=3, alpha=0.2, beta=0.6, bias=1.5)
    want = run_node("GroupNormalization", [x, gamma, beta], opset=21, num_groups=3, epsilon=1e-3)
    check(want, "nn.group_norm", [x, gamma, beta], num_groups=3, epsilon=1e-3)
    check(run_node("LpNormalization", [x], axis=1, p=2), "nn.l2_normalize", [x], eps=0.0, axis=(1,))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_agrees_and_survives_large_numbers(axis: int) -> None:
    x = f32(3, 4, 5) * 200
    check(run_node("Softmax", [x], axis=axis), "nn.softmax", [x], axis=axis)
    check(run_node("LogSoftmax", [x], axis=axis), "nn.log_softmax", [x], axis=axis)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_padding_agrees(mode: str) -> None:
    x, value = f32(1, 3, 4, 5), np.float32(1.5)
    want = run_node("Pad", [x, np.array([0, 0, 2, 1, 0, 1, 3, 4]), np.array(value)], mode=mode)
    check(want, "nn.pad", [x, value], pad_width=((0, 0), (0, 1), (2, 3), (1, 4)), pad_mode=mode)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_agrees(mode: str) -> None:
    x = f32(2, 12, 3, 2)
    check(run_node("DepthToSpace", [x], blocksize=2, mode=mode), "nn.depth_to_space", [x], block_size=2, mode=mode)


def test_space_to_depth_agrees() -> None:
    x = f32(2, 3, 6, 4)
    check(run_node("SpaceToDepth", [x], blocksize=2), "nn.space_to_depth", [x], block_size=2)


COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("size", [(8, 10), (3, 7), (2, 3), (13, 4)])
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_interpolating_resizes_agree(method: str, size: tuple, coordinates: str) -> None:
    x = f32(1, 2, 4, 5)
    want = run_node(
        "Resize",
        [x, None, None, np.array([1, 2, *size])],
        mode=method,
        cubic_coeff_a=-0.75,
        coordinate_transformation_mode=coordinates,
    )
    check(
        want,
        "image.resize2d",
        [x],
        size=size,
        layout="NCHW",
        method=method,
        cubic_alpha=-0.75,
        coordinate_transformation_mode=coordinates,
    )


def test_a_cubic_resize_that_excludes_the_outside_agrees() -> None:
    x = f32(1, 2, 4, 5)
    want = run_node("Resize", [x, None, None, np.array([1, 2, 9, 7])], mode="cubic", exclude_outside=1)
    check(want, "image.resize2d", [x], size=(9, 7), layout="NCHW", method="cubic", cubic_alpha=-0.75, cubic_exclude=1)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("size", [(8, 10), (3, 7), (2, 15)])
def test_nearest_resizes_agree(size: tuple, rounding: str, coordinates: str) -> None:
    x = f32(1, 2, 4, 5)
    want = run_node(
        "Resize",
        [x, None, None, np.array([1, 2, *size])],
        mode="nearest",
        nearest_mode=rounding,
        coordinate_transformation_mode=coordinates,
    )
    check(
        want,
        "image.resize2d",
        [x],
        size=size,
        layout="NCHW",
        method="nearest_neighbor",
        rounding_method=rounding,
        coordinate_transformation_mode=coordinates,
    )


def test_cropping_resizes_agree() -> None:
    x = f32(1, 2, 6, 7)
    roi = (0.25, -0.125, 0.75, 1.25)
    want = run_node(
        "Resize",
        [x, np.array([0, 0, *roi[:2], 1, 1, *roi[2:]], "float32"), None, np.array([1, 2, 4, 5])],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=9.0,
    )
    check(
        want,
        "image.resize2d",
        [x],
        size=(4, 5),
        layout="NCHW",
        roi=roi,
        extrapolation_value=9.0,
        coordinate_transformation_mode="tf_crop_and_resize",
    )


def test_products_agree() -> None:
    a, b = f32(2, 3, 4), f32(2, 4, 5)
    check(run_node("MatMul", [a, b]), "nn.batch_matmul", [a, b], transpose_b=False)
    x, w = f32(3, 4), f32(5, 4)
    check(run_node("Gemm", [x, w], transB=1), "nn.dense", [x, w])
    check(
        run_node("Gemm", [x.T.copy(), w], transA=1, transB=1), "nn.matmul", [x.T, w], transpose_a=True, transpose_b=True
    )


def test_an_even_number_of_neighbours_lies_as_onnx_says():
    x = np.random.default_rng(5).random((1, 6, 3, 2)).astype(np.float32)
    node = helper.make_node("LRN", ["x"], ["y"], size=4, alpha=0.5, bias=1.0, beta=0.75)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in "xy"]
    mod, _ = from_onnx(helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:])))
    sums = np.stack([np.square(x[:, max(c - 1, 0) : c + 3]).sum(1) for c in range(6)], 1)
    np.testing.assert_allclose(evaluate(mod, {"x": x}), x / (1 + 0.5 / 4 * sums) ** 0.75, rtol=1e-5)
