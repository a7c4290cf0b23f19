"""Types of nn and image operators: dynamic sizes that flow, and the sentences for what does not fit."""

import numpy as np
import pytest

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.types import Any, TensorType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import const, var
from byoc.relay.op import image, nn
from byoc.runtime.kernels import get_kernel

N, H = Any("N"), Any("H")


def data(*shape: object, dtype: str = "float32"):
    return var("x", shape=shape, dtype=dtype)


def weight(*shape: int):
    return const(np.ones(shape, "float32"))


def shape_of(expr) -> tuple:
    return infer_expr(expr).shape


@pytest.mark.parametrize(
    "make, shape, expected",
    [
        (lambda x: nn.conv2d(x, weight(4, 3, 3, 3), strides=2, padding=1), (N, 3, 8, 8), (N, 4, 4, 4)),
        (lambda x: nn.conv2d(x, weight(4, 3, 3, 3), padding=1), (N, 3, H, 8), (N, 4, H, 8)),
        (lambda x: nn.conv2d(x, weight(4, 3, 3, 3)), (N, 3, H, 8), (N, 4, Any("(window(H-2))"), 6)),
        (lambda x: nn.max_pool2d(x, 2, 2), (N, 3, 8, H), (N, 3, 4, Any("(window(div(H,2)))"))),
        (lambda x: nn.global_avg_pool2d(x), (N, 3, H, 8), (N, 3, 1, 1)),
        (lambda x: nn.conv2d_transpose(x, weight(3, 4, 2, 2), strides=2), (N, 3, 5, 5), (N, 4, 10, 10)),
        (lambda x: nn.dense(x, weight(7, 5)), (N, 5), (N, 7)),
        (lambda x: nn.batch_matmul(x, weight(1, 7, 5)), (N, 2, 5), (N, 2, 7)),
        (lambda x: nn.softmax(x), (N, 5), (N, 5)),
        (lambda x: nn.batch_norm(x, *[weight(3)] * 4)[0], (N, 3, H, 8), (N, 3, H, 8)),
        (lambda x: nn.batch_flatten(x), (N, 3, 4), (N, 12)),
        (lambda x: nn.pad(x, ((0, 0), (1, 1))), (N, 5), (N, 7)),
        (lambda x: image.resize2d(x, (4, 6)), (N, 3, H, 8), (N, 3, 4, 6)),
    ],
)
def test_named_dimensions_flow_where_a_window_keeps_them(make, shape: tuple, expected: tuple) -> None:
    assert shape_of(make(data(*shape))) == expected


@pytest.mark.parametrize(
    "make, sentence",
    [
        (
            lambda: nn.conv2d(data(1, 3, 8, 8), weight(4, 4, 3, 3)),
            "data has 3 channels, the kernel expects 4 x groups 1",
        ),
        (
            lambda: nn.conv2d(data(1, 4, 8, 8), weight(3, 2, 3, 3), groups=2),
            "3 output channels cannot be divided into 2",
        ),
        (lambda: nn.conv2d(data(1, 3, 8, 8), weight(4, 3, 3, 3), channels=5), "channels is 5, the kernel gives 4"),
        (
            lambda: nn.conv2d(data(1, 3, 8, 8), weight(4, 3, 3, 3), kernel_size=5),
            "kernel_size is .5, 5., the kernel has",
        ),
        (lambda: nn.conv2d(data(1, 3, 2, 2), weight(4, 3, 3, 3)), "a window of 3 does not fit in an axis of 2"),
        (
            lambda: nn.conv2d(data(1, 3, 8, 8), weight(4, 3, 3, 3), data_layout="NCHW8c"),
            "is no tensor in layout NCHW8c",
        ),
        (lambda: nn.conv2d(data(3, 8, 8), weight(4, 3, 3, 3)), "data must be a tensor of 4 dimensions"),
        (lambda: nn.conv2d(data(1, 3, 8, 8), weight(4, 3, 3, 3), padding=(1, 2, 3)), "padding takes 1, 2 or 4 numbers"),
        (lambda: nn.conv2d(data(1, 3, 8, 8), weight(4, 3, 3, 3), padding=-1), "padding must not be negative"),
        (
            lambda: nn.conv2d_transpose(data(1, 3, 8, 8), weight(3, 4, 3, 3), output_padding=-1),
            "output_padding must not",
        ),
        (lambda: nn.avg_pool2d(data(1, 3, 8, 8), 2, padding=2), "must be less than the window of 2"),
        (lambda: nn.dense(data(2, 5), weight(7, 4)), "data has 5 features, the weight expects 4"),
        (lambda: nn.batch_matmul(data(2, 3, 5), weight(3, 4, 5)), "batches of 2 and 3 do not fit"),
        (lambda: nn.batch_norm(data(1, 3, 4, 4), *[weight(4)] * 4)[0], "gamma must hold 3 numbers"),
        (lambda: nn.bias_add(data(1, 3, 4), weight(4)), "bias must hold 3 numbers, the size of axis 1"),
        (lambda: nn.softmax(data(2, 3), axis=2), "axis 2 is outside"),
        (lambda: nn.lrn(data(1, 3, 4, 4), size=0), "size must be positive"),
        (lambda: nn.pad(data(2, 3), ((0, 0), (3, 0)), pad_mode="reflect"), "axis 1 has 3 elements, too few to add 3"),
        (lambda: nn.pad(data(2, 3), ((1, 1),)), "a pair for each of 2 axes"),
        (lambda: nn.pad(data(2, 3), ((-1, -2), (0, 0))), "axis 0 has 2 elements, too few to cut 1 and 2 off"),
        (lambda: nn.depth_to_space(data(1, 6, 2, 2), 2), "the depth 6 cannot be divided by 4"),
        (
            lambda: nn.group_norm(data(1, 6, 2, 2), weight(6), weight(6), 4),
            "6 channels cannot be divided into 4 groups",
        ),
        (lambda: image.resize2d(data(1, 3, 4, 4), (2, 2), method="lanczos"), "method is one of nearest_neighbor"),
        (lambda: image.resize2d(data(1, 3, 4, 4), (0, 2)), "size must be 2 positive numbers"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(make, sentence: str) -> None:
    with pytest.raises(TypeInferenceError, match=sentence):
        infer_expr(make())


def test_padding_is_kept_as_relay_keeps_it() -> None:
    w = weight(4, 3, 3, 3)
    assert nn.conv2d(data(1, 3, 8, 8), w, padding=(1, 2)).attrs.padding == (1, 2, 1, 2)
    assert nn.conv2d(data(1, 3, 8, 8), w, padding=1, strides=2).attrs.padding == (1, 1, 1, 1)
    assert nn.max_pool2d(data(1, 3, 8, 8), 3, padding=1).attrs.padding == (1, 1, 1, 1)


@pytest.mark.parametrize(
    "make, name, shape",
    [
        (lambda x: nn.conv2d(x, weight(4, 3, 3, 3), padding=1), "nn.conv2d", ("N", 3, 5, 5)),
        (lambda x: nn.avg_pool2d(x, 3, 2, padding=1, ceil_mode=True), "nn.avg_pool2d", ("N", 3, 5, 6)),
        (lambda x: nn.max_pool2d(x, (3, 3), padding=1), "nn.max_pool2d", ("N", 3, "H", 5)),
        (lambda x: nn.global_avg_pool2d(x), "nn.global_avg_pool2d", ("N", 3, "H", 5)),
        (lambda x: nn.adaptive_avg_pool2d(x, (2, 3)), "nn.adaptive_avg_pool2d", ("N", 3, "H", 5)),
        (lambda x: nn.instance_norm(x, weight(3), weight(3)), "nn.instance_norm", ("N", 3, "H", 5)),
        (lambda x: nn.dense(x, weight(7, 5)), "nn.dense", ("N", 5)),
        (lambda x: nn.softmax(x, 1), "nn.softmax", ("N", "H")),
        (lambda x: image.resize2d(x, (3, 8), method="cubic"), "image.resize2d", ("N", 3, "H", 5)),
    ],
)
def test_tensor_expressions_with_named_sizes_compute_what_kernels_compute(make, name: str, shape: tuple) -> None:
    sizes = {"N": 2, "H": 7}
    call = make(data(*(Any(d) if isinstance(d, str) else d for d in shape)))
    out_type = infer_expr(call)
    assert isinstance(out_type, TensorType) and out_type.is_symbolic
    value = np.random.default_rng(3).normal(size=[sizes.get(d, d) for d in shape]).astype("float32")
    arrays = [value, *(arg.data.numpy() for arg in call.args[1:])]
    inputs = [te.placeholder(te.shape_of(arg.checked_type), "float32") for arg in call.args]
    (result,) = call.op.compute(call.attrs, inputs, out_type)
    got = te.evaluate(result, dict(zip(inputs, arrays, strict=True)), sizes)
    want = get_kernel(name)(*arrays, **(call.attrs.as_dict() if call.attrs else {}))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_a_convolution_of_many_channels_to_few_agrees_with_its_definition() -> None:
    rng = np.random.default_rng(5)
    x, w = rng.normal(size=(2, 16, 6, 7)).astype("float32"), rng.normal(size=(2, 8, 3, 2)).astype("float32")
    got = get_kernel("nn.conv2d")(x, w, groups=2, dilation=(1, 2), data_layout="NCHW", kernel_layout="OIHW")
    want = np.zeros((2, 2, 4, 5))
    for o, i, j in np.ndindex(2, 4, 5):
        seen = x[:, o * 8 : o * 8 + 8, i : i + 3, j : j + 3 : 2]
        want[:, o, i, j] = (seen * w[o]).sum((1, 2, 3))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_small_integers_are_multiplied_exactly() -> None:
    a = np.full((1, 1000), 127, "int8")
    got = get_kernel("nn.dense")(a, np.full((1, 1000), -128, "int8"), out_dtype="int32")
    assert got.dtype == np.int32 and got[0, 0] == -127 * 128 * 1000
