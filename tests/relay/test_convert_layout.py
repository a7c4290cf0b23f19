"""ConvertLayout: what each operator makes of a layout that is asked for, and how the others follow."""

from __future__ import annotations

import pytest
from pass_checks import TempOpAttr, assert_same_numbers, check, run_passes, typed
from random_graphs import calls_of

from byoc import relay
from byoc.errors import UserError
from byoc.relay import transform
from byoc.relay.structure.structural import assert_structural_equal

TO_NCHW = {"nn.conv2d": ["NCHW", "default"]}


def var(name, *shape, dtype="float32"):
    return relay.var(name, shape=shape, dtype=dtype)


X, W = var("x", 1, 9, 7, 16), var("weight", 3, 3, 16, 16)


def nhwc(x, w, **attrs):
    options = {"channels": 16, "kernel_size": (3, 3), "padding": (1, 1), **attrs}
    return relay.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO", **options)


def nchw(x, w, **attrs):
    options = {"channels": 16, "kernel_size": (3, 3), "padding": (1, 1), **attrs}
    return relay.nn.conv2d(x, relay.layout_transform(w, "HWIO", "OIHW"), **options)


def to_nchw(x):
    return relay.layout_transform(x, "NHWC", "NCHW")


def to_nhwc(x):
    return relay.layout_transform(x, "NCHW", "NHWC")


def converted(before, expected, params=(X, W), layouts=TO_NCHW, **options):
    before, expected = relay.Function(params, before), relay.Function(params, expected)
    return check(before, transform.ConvertLayout(layouts), expected, **options)


def test_nothing_to_convert_changes_nothing():
    before = relay.nn.relu(relay.nn.max_pool2d(X, (2, 2), layout="NHWC"))
    converted(before, before, params=(X,))
    func = relay.Function([X, W], nhwc(X, W))
    assert_structural_equal(run_passes(func, transform.ConvertLayout({})), typed(func))


def test_a_composite_is_converted_inside_and_keeps_its_interface():
    x, w, p, q = var("x", 1, 9, 7, 16), var("w", 3, 3, 16, 16), var("p", 1, 9, 7, 16), var("q", 3, 3, 16, 16)

    def whole(body, attrs):
        return relay.Function([x, w], relay.Call(relay.Function([p, q], body).with_attr(attrs), [x, w]))

    after = to_nhwc(relay.nn.relu(nchw(to_nchw(p), q)))
    for attrs, body in (({"Composite": "acme.conv"}, after), ({"Primitive": 1}, None)):
        before = whole(relay.nn.relu(nhwc(p, q)), attrs)
        expected = before if body is None else whole(body, attrs)
        converted_func = run_passes(before, transform.ConvertLayout(TO_NCHW))
        assert_structural_equal(converted_func, typed(expected))


def test_a_bias_a_relu_and_a_pool_follow_a_convolution():
    bias = var("bias", 16)
    y = relay.nn.relu(relay.Tuple([relay.nn.bias_add(nhwc(X, W), bias, axis=3)])[0])
    before = relay.nn.batch_flatten(relay.cast(relay.nn.max_pool2d(y, pool_size=(2, 2), layout="NHWC"), "int32"))
    z = relay.add(nchw(to_nchw(X), W), to_nchw(relay.expand_dims(bias, axis=0, num_newaxis=3)))
    z = relay.cast(relay.nn.max_pool2d(relay.nn.relu(z), pool_size=(2, 2)), "int32")
    converted(before, relay.nn.batch_flatten(to_nhwc(z)), params=(X, W, bias))


def test_concatenation_reduction_and_squeeze_follow_by_the_names_of_axes():
    y = nhwc(X, W)
    before = relay.concatenate([y, nhwc(y, W)], axis=3)
    before = relay.squeeze(relay.mean(before, axis=(1, 2), keepdims=True), axis=[-3, -2])
    z = nchw(to_nchw(X), W)
    kernel = z.args[1]
    z2 = relay.nn.conv2d(z, kernel, channels=16, kernel_size=(3, 3), padding=(1, 1))
    expected = relay.mean(relay.concatenate([z, z2], axis=1), axis=(2, 3), keepdims=True)
    converted(before, relay.squeeze(expected, axis=[2, 3]))


@pytest.mark.parametrize(
    "follow, followed",
    [
        (lambda y: relay.sum(y, axis=(1, 2)), lambda y: relay.sum(y, axis=(2, 3))),
        (lambda y: relay.max(y, axis=3, exclude=True), lambda y: relay.max(y, axis=1, exclude=True)),
        (lambda y: relay.transpose(y, (0, 3, 1, 2)), lambda y: relay.transpose(y, (0, 1, 2, 3))),
        (lambda y: relay.nn.softmax(y, axis=-1), lambda y: to_nhwc(relay.nn.softmax(y, axis=1))),
        (lambda y: relay.take(y, relay.const(2), axis=3), lambda y: relay.take(y, relay.const(2), axis=1)),
        (lambda y: relay.reshape(y, (1, -1)), lambda y: relay.reshape(to_nhwc(y), (1, -1))),
        (
            lambda y: relay.nn.pad(y, ((0, 0), (1, 2), (3, 4), (0, 0))),
            lambda y: to_nhwc(relay.nn.pad(y, ((0, 0), (0, 0), (1, 2), (3, 4)))),
        ),
        (
            lambda y: relay.strided_slice(y, begin=[0, 1, 0], end=[1, -1, 6], strides=[1, 2, 1]),
            lambda y: to_nhwc(relay.strided_slice(y, begin=[0, 0, 1, 0], end=[1, 16, -1, 6], strides=[1, 1, 2, 1])),
        ),
        (
            lambda y: relay.split(y, 2, axis=3)[1],
            lambda y: to_nhwc(relay.split(y, 2, axis=1)[1]),
        ),
        (
            lambda y: relay.argmax(y, axis=3, keepdims=True),
            lambda y: to_nhwc(relay.argmax(y, axis=1, keepdims=True)),
        ),
        (
            lambda y: relay.nn.l2_normalize(y, 1e-3, axis=[3]),
            lambda y: to_nhwc(relay.nn.l2_normalize(y, 1e-3, axis=[1])),
        ),
        (lambda y: relay.nn.lrn(y, size=3, axis=3), lambda y: to_nhwc(relay.nn.lrn(y, size=3, axis=1))),
    ],
)
def test_an_operator_follows_by_the_names_of_its_axes(follow, followed):
    converted(follow(nhwc(X, W)), followed(nchw(to_nchw(X), W)))


def test_norms_move_their_axis_and_keep_their_vectors():
    gamma, beta, mean, variance = (var(name, 16) for name in ("gamma", "beta", "mean", "variance"))
    params = (X, W, gamma, beta, mean, variance)
    before = relay.nn.batch_norm(nhwc(X, W), gamma, beta, mean, variance, axis=3)[0]
    expected = relay.nn.batch_norm(nchw(to_nchw(X), W), gamma, beta, mean, variance, axis=1)[0]
    converted(before, to_nhwc(expected), params=params, low=0.1)
    for norm in (relay.nn.instance_norm, relay.nn.layer_norm):
        before = norm(nhwc(X, W), gamma, beta, axis=3)
        expected = to_nhwc(norm(nchw(to_nchw(X), W), gamma, beta, axis=1))
        converted(before, expected, params=(X, W, gamma, beta))


def test_a_scalar_operand_stays_and_a_residual_joins():
    y = nhwc(X, W)
    before = relay.add(relay.multiply(y, relay.const(0.5)), nhwc(y, W))
    z = nchw(to_nchw(X), W)
    z2 = relay.nn.conv2d(z, z.args[1], channels=16, kernel_size=(3, 3), padding=(1, 1))
    converted(before, to_nhwc(relay.add(relay.multiply(z, relay.const(0.5)), z2)))


def test_depthwise_convolutions_get_their_own_kernel_layout():
    x, w = var("x", 1, 16, 9, 9), var("w", 16, 1, 3, 3)
    before = relay.nn.conv2d(x, w, groups=16, channels=16, kernel_size=(3, 3))
    y = relay.nn.conv2d(
        to_nhwc(x),
        relay.layout_transform(w, "OIHW", "HWOI"),
        groups=16,
        channels=16,
        kernel_size=(3, 3),
        data_layout="NHWC",
        kernel_layout="HWOI",
    )
    converted(before, to_nchw(y), params=(x, w), layouts={"nn.conv2d": ["NHWC", "default"]})
    plain = relay.nn.conv2d(
        to_nhwc(x),
        relay.layout_transform(w, "OIHW", "OHWI"),
        groups=16,
        channels=16,
        kernel_size=(3, 3),
        data_layout="NHWC",
        kernel_layout="OHWI",
    )
    converted(before, to_nchw(plain), params=(x, w), layouts={"nn.conv2d": ["NHWC", "OHWI"]})


def test_convolutions_of_one_and_three_axes_and_transposed_ones():
    x, w = var("x", 1, 9, 4), var("w", 3, 4, 6)
    before = relay.nn.conv1d(x, w, data_layout="NWC", kernel_layout="WIO", channels=6, kernel_size=(3,))
    y = relay.nn.conv1d(
        relay.layout_transform(x, "NWC", "NCW"), relay.layout_transform(w, "WIO", "OIW"), channels=6, kernel_size=(3,)
    )
    converted(before, relay.layout_transform(y, "NCW", "NWC"), params=(x, w), layouts={"nn.conv1d": ["NCW", "default"]})
    x, w = var("x", 1, 5, 6, 7, 4), var("w", 3, 3, 3, 4, 6)
    before = relay.nn.conv3d(x, w, data_layout="NDHWC", kernel_layout="DHWIO", channels=6, kernel_size=(3, 3, 3))
    y = relay.nn.conv3d(
        relay.layout_transform(x, "NDHWC", "NCDHW"),
        relay.layout_transform(w, "DHWIO", "OIDHW"),
        channels=6,
        kernel_size=(3, 3, 3),
    )
    converted(
        before,
        relay.layout_transform(y, "NCDHW", "NDHWC"),
        params=(x, w),
        layouts={"nn.conv3d": ["NCDHW", "default"]},
    )
    x, w = var("x", 1, 6, 7, 4), var("w", 3, 3, 4, 6)
    before = relay.nn.conv2d_transpose(x, w, data_layout="NHWC", kernel_layout="HWIO", channels=6, kernel_size=(3, 3))
    y = relay.nn.conv2d_transpose(to_nchw(x), relay.layout_transform(w, "HWIO", "IOHW"), channels=6, kernel_size=(3, 3))
    converted(before, to_nhwc(y), params=(x, w), layouts={"nn.conv2d_transpose": ["NCHW", "default"]})


def test_pools_and_resizes_can_be_asked_themselves():
    x = var("x", 1, 4, 8, 8)
    z = relay.nn.max_pool2d(to_nhwc(x), layout="NHWC", out_layout="NHWC")
    converted(relay.nn.max_pool2d(x), to_nchw(z), params=(x,), layouts={"nn.max_pool2d": ["NHWC"]})
    before = relay.image.resize2d(x, (16, 12))
    expected = to_nchw(relay.image.resize2d(to_nhwc(x), (16, 12), layout="NHWC"))
    converted(before, expected, params=(x,), layouts={"image.resize2d": ["NHWC"]})


def test_resizes_do_not_follow_where_height_and_width_move():
    before = relay.nn.upsampling(nhwc(X, W), 2, 2, layout="NHWC")
    expected = relay.nn.upsampling(to_nhwc(nchw(to_nchw(X), W)), 2, 2, layout="NHWC")
    converted(before, expected)


def test_skipped_layers_keep_their_layout():
    w2 = var("w2", 3, 3, 16, 16)
    func = relay.Function([X, W, w2], nhwc(nhwc(X, W), w2))
    with transform.LayoutConfig(skip_layers=[0]) as config:
        after = run_passes(func, transform.ConvertLayout(TO_NCHW))
    expected = to_nhwc(nchw(to_nchw(nhwc(X, W)), w2))
    assert_structural_equal(after, typed(relay.Function([X, W, w2], expected)))
    assert config.skip_counter == 2 and transform.LayoutConfig.current is None
    config.reset()
    assert not config.check_skip()


def test_blocks_of_channels_where_they_divide():
    x, w, w2 = var("x", 1, 8, 6, 6), var("w", 12, 8, 3, 3), var("w2", 6, 12, 3, 3)
    before = relay.nn.conv2d(relay.nn.relu(relay.nn.conv2d(x, w)), w2)
    z = relay.nn.contrib_conv2d_nchwc(
        relay.layout_transform(x, "NCHW", "NCHW4c"),
        relay.layout_transform(w, "OIHW", "OIHW4o"),
        data_layout="NCHW4c",
        kernel_layout="OIHW4o",
    )
    z = relay.nn.conv2d(relay.layout_transform(relay.nn.relu(z), "NCHW4c", "NCHW"), w2)
    converted(before, z, params=(x, w, w2), layouts={"nn.conv2d": ["NCHW4c", "OIHW4o"]})


def test_a_registered_hook_goes_before_the_rules():
    def hook(attrs, inputs, tinfos, desired_layouts):
        assert desired_layouts == ["NHWC"] and tinfos[0].dtype == "float32"
        layout = desired_layouts[0]
        return relay.nn.avg_pool2d(*inputs, **{**attrs, "layout": layout, "out_layout": layout})

    x = var("x", 1, 4, 8, 8)
    with TempOpAttr("nn.avg_pool2d", "FTVMConvertOpLayout", hook):
        expected = to_nchw(relay.nn.avg_pool2d(to_nhwc(x), layout="NHWC", out_layout="NHWC"))
        converted(relay.nn.avg_pool2d(x), expected, params=(x,), layouts={"nn.avg_pool2d": ["NHWC"]})


@pytest.mark.parametrize(
    "layouts, message",
    [
        ({"nn.conv2d": ["NCHW"]}, "needs 2 layouts"),
        ({"nn.conv2d": ["default", "OIHW"]}, "cannot be 'default'"),
        ({"nn.conv2d": ["HWCN", "default"]}, "no default kernel layout"),
        ({"nn.conv2d": "NCHW"}, "are a list"),
    ],
)
def test_layouts_that_cannot_be_taken_are_refused(layouts, message):
    with pytest.raises(UserError, match=message):
        run_passes(relay.Function([X, W], nhwc(X, W)), transform.ConvertLayout(layouts))


def test_a_quantized_network_is_converted_with_its_scales():
    x, w = var("x", 1, 8, 8, 4, dtype="int8"), var("w", 3, 3, 4, 4, dtype="int8")
    zero, scale = relay.const(0), relay.const(1.0)

    def network(data, kernel, data_layout, kernel_layout, axis, back):
        y = relay.qnn.op.conv2d(
            data,
            kernel,
            zero,
            zero,
            scale,
            scale,
            channels=4,
            kernel_size=(3, 3),
            data_layout=data_layout,
            kernel_layout=kernel_layout,
            out_dtype="int32",
        )
        scales = relay.const([0.5, 0.25, 1.0, 2.0])
        y = relay.qnn.op.requantize(y, scales, zero, relay.const(64.0), zero, axis=axis, out_dtype="int8")
        return back(relay.qnn.op.add(y, y, scale, zero, scale, zero, scale, zero))

    before = relay.Function([x, w], network(x, w, "NHWC", "HWIO", -1, lambda y: y))
    kernel = relay.layout_transform(w, "HWIO", "OIHW")
    expected = relay.Function([x, w], network(to_nchw(x), kernel, "NCHW", "OIHW", 1, to_nhwc))
    after = run_passes(before, transform.ConvertLayout({"qnn.conv2d": ["NCHW", "default"]}))
    assert_structural_equal(after, typed(expected))
    assert calls_of(after).count("layout_transform") == 3
    assert_same_numbers(typed(before), after, low=-5, high=5)
