"""Convolutions in other forms against plain ones, ONNX Runtime and their own definitions."""

from __future__ import annotations

import numpy as np
import onnx.helper as oh
import onnxruntime
import pytest
from onnx import TensorProto

from byoc import relay
from byoc.annex.testing import run_infer_type
from byoc.errors import TypeInferenceError
from byoc.relay.analysis.type_infer import infer_expr
from byoc.runtime.kernels import get_kernel
from byoc.runtime.kernels.movement.layouts import layout_transform
from byoc.runtime.kernels.nn.conv import convolve
from byoc.runtime.kernels.nn.winograd import matrices

RNG = np.random.default_rng(17)


def run(call, *arrays):
    attrs = call.attrs.as_dict() if call.attrs else {}
    return get_kernel(call.op.kernel)(*arrays, **attrs)


def var(name, array):
    return relay.var(name, shape=array.shape, dtype=str(array.dtype))


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def onnxruntime_of(operator, opset, inputs, **attrs):
    """The first output of one ONNX node by ONNX Runtime."""
    infos = [oh.make_tensor_value_info(n, oh.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()]
    output = oh.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = oh.make_graph([oh.make_node(operator, list(inputs), ["y"], **attrs)], "g", infos, [output])
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", opset)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


@pytest.mark.parametrize("tile, taps", [(2, 3), (4, 3), (6, 3), (2, 5), (3, 2), (1, 1)])
def test_winograds_matrices_filter_a_row(tile, taps):
    a, g, b = matrices(tile, taps)
    row, taps_of_row = RNG.standard_normal(tile + taps - 1), RNG.standard_normal(taps)
    np.testing.assert_allclose(a @ ((g @ taps_of_row) * (b @ row)), np.correlate(row, taps_of_row), atol=1e-12)


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_convolution_by_winograd_is_a_convolution(tile, layout):
    data, weight = normal(2, 3, 9, 8), normal(5, 3, 3, 3)
    transform = relay.nn.contrib_conv2d_winograd_weight_transform(var("w", weight), tile_size=tile)
    assert infer_expr(transform) == relay.TensorType((tile + 2, tile + 2, 5, 3))
    given = data.transpose([("NCHW").index(c) for c in layout])
    call = relay.nn.contrib_conv2d_winograd_without_weight_transform(
        var("x", given), transform, tile, padding=(1, 1), channels=5, kernel_size=(3, 3), data_layout=layout
    )
    assert type(call.attrs).__name__ == "Conv2DWinogradAttrs"
    got = run(call, given, run(transform, weight))
    assert infer_expr(call) == relay.TensorType(got.shape)
    want = convolve(data, weight, (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    np.testing.assert_allclose(got, want.transpose([("NCHW").index(c) for c in layout]), atol=1e-4)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_3d_convolution_by_winograd_is_a_convolution(depth):
    data, weight = normal(1, 3, 5, 6, 7), normal(4, 3, depth, 3, 3)
    transform = relay.nn.contrib_conv3d_winograd_weight_transform(var("w", weight), 2)
    want_shape = (4, 4, 4, 4, 3) if depth == 3 else (4, 4, depth, 4, 3)
    assert infer_expr(transform) == relay.TensorType(want_shape)
    call = relay.nn.contrib_conv3d_winograd_without_weight_transform(
        var("x", data), transform, 2, padding=(0, 1, 1), channels=4, kernel_size=(depth, 3, 3)
    )
    got = run(call, data, run(transform, weight))
    want = convolve(data, weight, (1,) * 3, ((0, 0), (1, 1), (1, 1)), (1,) * 3, 1)
    assert infer_expr(call).shape == want.shape
    np.testing.assert_allclose(got, want, atol=1e-4)


def test_nnpacks_transform_has_tiles_of_eight():
    weight = normal(3, 2, 3, 3)
    call = relay.nn.contrib_conv2d_winograd_nnpack_weight_transform(var("w", weight), 1)
    g = matrices(6, 3)[1]
    assert infer_expr(call) == relay.TensorType((3, 2, 8, 8))
    np.testing.assert_allclose(run(call, weight), np.einsum("ah,kchw,bw->kcab", g, weight, g), rtol=1e-5, atol=1e-6)


def test_a_convolution_by_winograd_has_stride_one():
    call = relay.nn.contrib_conv2d_winograd_without_weight_transform(
        relay.var("x", shape=(1, 2, 8, 8)),
        relay.var("w", shape=(4, 4, 3, 2)),
        2,
        strides=(2, 2),
        channels=3,
        kernel_size=(3, 3),
    )
    with pytest.raises(TypeInferenceError, match="strides, dilation and groups of 1"):
        infer_expr(call)


@pytest.mark.parametrize("tiles", [(4, 16), (8, 3)])
def test_a_convolution_by_tiles_of_a_matrix_is_a_convolution(tiles):
    data, weight = normal(1, 6, 7, 3), normal(3, 2, 3, 5)
    transform = relay.nn.contrib_conv2d_gemm_weight_transform(var("w", weight), *tiles)
    packed = run(transform, weight)
    assert infer_expr(transform) == relay.TensorType((-(-5 // tiles[0]), -(-18 // tiles[1]), *tiles))
    call = relay.nn.contrib_conv2d_gemm_without_weight_transform(
        var("x", data),
        transform,
        strides=(2, 1),
        channels=5,
        kernel_size=(3, 2),
        data_layout="NHWC",
        kernel_layout="HWIO",
    )
    want = convolve(data.transpose(0, 3, 1, 2), weight.transpose(3, 2, 0, 1), (2, 1), ((0, 0), (0, 0)), (1, 1), 1)
    np.testing.assert_allclose(run(call, data, packed), want.transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-5)
    assert infer_expr(call).shape == (1, 2, 6, 5)


@pytest.mark.parametrize("depthwise", [False, True])
def test_a_convolution_in_blocks_is_a_convolution(depthwise):
    groups = 8 if depthwise else 1
    data, weight = normal(1, 8, 5, 6), normal(8, 8 // groups, 3, 3)
    layout = "OIHW1i4o" if depthwise else "OIHW4i4o"
    function = relay.nn.contrib_depthwise_conv2d_nchwc if depthwise else relay.nn.contrib_conv2d_nchwc
    blocked = layout_transform(data, src_layout="NCHW", dst_layout="NCHW4c")
    kernel = layout_transform(weight, src_layout="OIHW", dst_layout=layout)
    call = function(
        var("x", blocked),
        relay.var("w"),
        padding=(1, 1),
        groups=groups,
        channels=8,
        kernel_size=(3, 3),
        data_layout="NCHW4c",
        kernel_layout=layout,
        out_layout="NCHW4c",
    )
    name = "nn.contrib_depthwise_conv2d_NCHWc" if depthwise else "nn.contrib_conv2d_NCHWc"
    assert call.op.name == name and type(call.attrs).__name__ == "Conv2DAttrs"
    typed = relay.transform.InferType()(relay.IRModule.from_expr(call))["main"]
    assert typed.body.checked_type == relay.TensorType((1, 2, 5, 6, 4))
    assert typed.params[1].checked_type.shape == kernel.shape
    want = convolve(data, weight, (1, 1), ((1, 1), (1, 1)), (1, 1), groups)
    got = layout_transform(run(call, blocked, kernel), src_layout="NCHW4c", dst_layout="NCHW")
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "shape, weight, attrs",
    [
        ((2, 4, 7, 8), (4, 2, 2, 2), {"strides": (2, 2), "groups": 2, "deformable_groups": 2}),
        ((1, 3, 6, 6), (2, 3, 3, 3), {"padding": (1, 2)}),
        ((1, 2, 9, 9), (3, 2, 3, 3), {"dilation": (2, 3)}),
    ],
)
@pytest.mark.newer_onnxruntime
def test_a_deformable_convolution_is_onnxruntimes(shape, weight, attrs):
    data, kernel = normal(*shape), normal(*weight)
    call = relay.nn.deformable_conv2d(
        var("x", data), relay.var("offset"), relay.var("w"), channels=weight[0], kernel_size=weight[2:], **attrs
    )
    typed = relay.transform.InferType()(relay.IRModule.from_expr(call))["main"]
    assert typed.params[2].checked_type.shape == weight
    offset = normal(*typed.params[1].checked_type.shape) * 2
    pads = attrs.get("padding", (0, 0))
    want = onnxruntime_of(
        "DeformConv",
        19,
        {"X": data, "W": kernel, "offset": offset},
        kernel_shape=weight[2:],
        pads=[*pads, *pads],
        strides=attrs.get("strides", (1, 1)),
        dilations=attrs.get("dilation", (1, 1)),
        group=attrs.get("groups", 1),
        offset_group=attrs.get("deformable_groups", 1),
    )
    assert typed.body.checked_type.shape == want.shape
    np.testing.assert_allclose(run(call, data, offset, kernel), want, rtol=1e-3, atol=1e-4)


def test_the_gradient_of_a_kernel_is_the_adjoint_of_the_convolution():
    data, grad = normal(2, 4, 9, 8, dtype="float64"), normal(2, 6, 5, 5, dtype="float64")
    call = relay.nn.conv2d_backward_weight(
        var("g", grad),
        var("x", data),
        strides=(2, 2),
        padding=(1, 1),
        groups=2,
        channels=6,
        kernel_size=(3, 2),
    )
    got = run(call, grad, data)
    assert infer_expr(call) == relay.TensorType(got.shape, "float64") and got.shape == (6, 2, 3, 2)
    for _ in range(3):
        weight = normal(6, 2, 3, 2, dtype="float64")
        result = convolve(data, weight, (2, 2), ((1, 1), (1, 1)), (1, 1), 2)
        np.testing.assert_allclose((result * grad).sum(), (got * weight).sum(), rtol=1e-10)


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_the_gradient_of_an_average_pool_is_its_adjoint(include, layout):
    shape = (2, 3, 7, 6) if layout == "NCHW" else (2, 7, 6, 3)
    data = normal(*shape, dtype="float64")
    attrs = {"pool_size": (3, 2), "strides": (2, 2), "padding": (1, 0), "layout": layout, "count_include_pad": include}
    pooled = run(relay.nn.avg_pool2d(var("x", data), **attrs), data)
    grad = normal(*pooled.shape, dtype="float64")
    call = relay.nn.avg_pool2d_grad(var("g", grad), var("x", data), **attrs)
    assert infer_expr(call) == relay.TensorType(shape, "float64")
    np.testing.assert_allclose((pooled * grad).sum(), (run(call, grad, data) * data).sum(), rtol=1e-10)


def test_the_gradient_of_a_maximum_pool_goes_to_the_first_greatest_element():
    data = np.array([[[[1, 5, 5], [2, 5, 0], [9, 9, 9]]]], "float32")
    grad = np.array([[[[1, 10], [100, 1000]]]], "float32")
    call = relay.nn.max_pool2d_grad(var("g", grad), var("x", data), pool_size=(2, 2))
    assert run(call, grad, data)[0, 0].tolist() == [[0, 11, 0], [0, 0, 0], [100, 1000, 0]]
    data = RNG.permutation(2 * 49).reshape(1, 2, 7, 7).astype("float64")
    grad = normal(1, 2, 4, 4, dtype="float64")
    attrs = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1)}
    got = run(relay.nn.max_pool2d_grad(var("g", grad), var("x", data), **attrs), grad, data)
    pooled = run(relay.nn.max_pool2d(var("x", data), **attrs), data)
    np.testing.assert_allclose((pooled * grad).sum(), (got * data).sum())


@pytest.mark.parametrize("unipolar", [False, True])
def test_products_of_bits_are_products_of_numbers(unipolar):
    data, weight = RNG.integers(0, 4, (3, 16)).astype("uint8"), RNG.integers(0, 2, (5, 16)).astype("uint8")
    call = relay.nn.bitserial_dense(
        var("x", data), var("w", weight), units=5, data_bits=2, weight_bits=1, unipolar=unipolar, out_dtype="int32"
    )
    signs = 2 * weight.astype(int) - 1 if unipolar else weight.astype(int)
    assert infer_expr(call) == relay.TensorType((3, 5), "int32")
    np.testing.assert_array_equal(run(call, data, weight), data.astype(int) @ signs.T)


def test_a_packed_kernel_is_the_same_kernel():
    data, weight = RNG.integers(0, 2, (1, 16, 5, 5)).astype("uint8"), RNG.integers(0, 4, (3, 16, 3, 3)).astype("uint8")
    packing = relay.nn.bitpack(var("w", weight), bits=2, pack_axis=1, bit_axis=4, pack_type="uint8")
    packed = run(packing, weight)
    assert infer_expr(packing) == relay.TensorType((3, 2, 3, 3, 2), "uint8") and packed.shape == (3, 2, 3, 3, 2)
    assert int(packed[0, 0, 0, 0, 0]) == int("".join(str(v & 1) for v in weight[0, :8, 0, 0]), 2)
    results = [
        run(relay.nn.bitserial_conv2d(var("x", data), var("k", k), channels=3, weight_bits=2, unipolar=False), data, k)
        for k in (weight, packed)
    ]
    want = convolve(data.astype(float), weight.astype(float), (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
    np.testing.assert_array_equal(results[0], want)
    np.testing.assert_array_equal(results[1], want)


def test_correlation_is_flownets_definition():
    a, b = normal(1, 2, 8, 9), normal(1, 2, 8, 9)
    call = relay.nn.correlation(
        var("a", a),
        var("b", b),
        kernel_size=3,
        max_displacement=2,
        stride1=2,
        stride2=1,
        padding=1,
        is_multiply=True,
        layout="NCHW",
    )
    got = run(call, a, b)
    assert infer_expr(call) == relay.TensorType(got.shape) and got.shape[1] == 25
    x, y = (np.pad(v, [(0, 0), (0, 0), (1, 1), (1, 1)]) for v in (a, b))
    for q, i, j in np.ndindex(*got.shape[1:]):
        top, left, down, right = i * 2 + 2, j * 2 + 2, q // 5 - 2, q % 5 - 2
        first = x[0, :, top : top + 3, left : left + 3]
        second = y[0, :, top + down : top + down + 3, left + right : left + right + 3]
        np.testing.assert_allclose(got[0, q, i, j], (first * second).mean(), rtol=1e-4, atol=1e-6)


def test_a_packed_dense_layer_is_a_dense_layer():
    data, weight = normal(3, 6), normal(8, 6)
    packed = layout_transform(weight, src_layout="NC", dst_layout="NC4n")
    call = relay.nn.contrib_dense_pack(var("x", data), var("w", packed), weight_layout="NC4n")
    assert infer_expr(call) == relay.TensorType((3, 8))
    np.testing.assert_allclose(run(call, data, packed), data @ weight.T, rtol=1e-5, atol=1e-6)


def test_units_given_to_a_product_of_few_bits_are_the_size_of_its_result():
    data, weight = relay.var("x", shape=(4, 8), dtype="int16"), relay.var("w", shape=(8, 32), dtype="int16")
    call = relay.nn.bitserial_dense(data, weight, units=32)
    assert run_infer_type(call).checked_type == relay.TensorType((4, 32), "int16")
