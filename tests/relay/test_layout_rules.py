"""Layout rules operator by operator, as Relay's passes ask them, and functions that users register in their place."""

from __future__ import annotations

import pytest
from pass_checks import TempOpAttr, assert_same_numbers, check, run_passes, typed
from random_graphs import calls_of

from byoc import relay
from byoc.ir.layout import Layout
from byoc.relay import transform
from byoc.relay.structure.structural import assert_structural_equal
from byoc.relay.transform.layout.convert_layout_rules import InferCorrectLayoutOutput

TO_NHWC = {"nn.conv2d": ["NHWC", "default"]}


def var(name, *shape, dtype="float32"):
    return relay.var(name, shape=shape, dtype=dtype)


X, W = var("x", 1, 8, 6, 6), var("w", 8, 8, 3, 3)


def conv(x=X, w=W):
    return relay.nn.conv2d(x, w, padding=(1, 1), channels=8, kernel_size=(3, 3))


def last(x=X, w=W):
    """The convolution of :func:`conv` as ConvertLayout makes it in NHWC."""
    x, w = relay.layout_transform(x, "NCHW", "NHWC"), relay.layout_transform(w, "OIHW", "HWIO")
    return relay.nn.conv2d(
        x, w, padding=(1, 1), channels=8, kernel_size=(3, 3), data_layout="NHWC", kernel_layout="HWIO"
    )


def back(x):
    return relay.layout_transform(x, "NHWC", "NCHW")


FOLLOWED = {
    "argmax over two axes": (lambda y: relay.argmax(y, axis=[2, 3]), lambda y: relay.argmax(y, axis=[1, 2])),
    "argmin over one": (
        lambda y: relay.argmin(y, axis=1, keepdims=True),
        lambda y: back(relay.argmin(y, axis=3, keepdims=True)),
    ),
    "argmax counted in another order": (
        lambda y: relay.argmax(y, axis=[1, 2]),
        lambda y: relay.argmax(back(y), axis=[1, 2]),
    ),
    "a reduction of everything": (lambda y: relay.sum(y), lambda y: relay.sum(back(y))),
    "the same by axes": (lambda y: relay.sum(y, axis=[0, 1, 2, 3]), lambda y: relay.sum(back(y), axis=[0, 1, 2, 3])),
    "all but one": (
        lambda y: relay.max(y, axis=1, exclude=True),
        lambda y: relay.max(y, axis=3, exclude=True),
    ),
    "everything with its axes kept": (
        lambda y: relay.mean(y, keepdims=True),
        lambda y: back(relay.mean(y, axis=[0, 1, 2, 3], keepdims=True)),
    ),
    "a slice by axes": (
        lambda y: relay.strided_slice(y, [1, 0], [4, 6], [1, 2], axes=[1, 3]),
        lambda y: back(relay.strided_slice(y, [1, 0], [4, 6], [1, 2], axes=[3, 2])),
    ),
    "a slice of the first axes": (
        lambda y: relay.strided_slice(y, [0, 1], [1, 5, 4]),
        lambda y: back(relay.strided_slice(y, [0, 0, 0, 1], [1, 4, 6, 5], [1, 1, 1, 1])),
    ),
    "a slice of lengths": (
        lambda y: relay.strided_slice(y, [0, 1], [1, 5], slice_mode="size"),
        lambda y: back(relay.strided_slice(y, [0, 0, 0, 1], [1, 6, 6, 5], [1, 1, 1, 1], slice_mode="size")),
    ),
    "slice_like of one layout": (
        lambda y: relay.slice_like(y, relay.nn.max_pool2d(y, (2, 2), (2, 2)), axes=[2, 3]),
        lambda y: back(relay.slice_like(y, relay.nn.max_pool2d(y, (2, 2), (2, 2), layout="NHWC"), axes=[1, 2])),
    ),
    "slice_like of two layouts": (
        lambda y: relay.slice_like(y, relay.var("like", shape=(1, 8, 3, 3)), axes=[2, 3]),
        lambda y: relay.slice_like(back(y), relay.var("like", shape=(1, 8, 3, 3)), axes=[2, 3]),
    ),
    "topk": (
        lambda y: relay.topk(y, k=3, axis=1, ret_type="values"),
        lambda y: back(relay.topk(y, k=3, axis=3, ret_type="values")),
    ),
    "both results of topk": (
        lambda y: relay.topk(y, k=3, axis=1)[1],
        lambda y: back(relay.topk(y, k=3, axis=3)[1]),
    ),
    "cast_like": (
        lambda y: relay.cast_like(y, relay.const([1.0], "float64")),
        lambda y: back(relay.cast_like(y, relay.const([1.0], "float64"))),
    ),
    "reinterpret": (lambda y: relay.reinterpret(y, "int32"), lambda y: back(relay.reinterpret(y, "int32"))),
    "checkpoint": (
        lambda y: relay.nn.relu(relay.annotation.checkpoint(y)),
        lambda y: back(relay.nn.relu(relay.annotation.checkpoint(y))),
    ),
    "the marks of a region": (
        lambda y: relay.annotation.compiler_end(relay.nn.relu(relay.annotation.compiler_begin(y, "acme")), "acme"),
        lambda y: back(
            relay.annotation.compiler_end(relay.nn.relu(relay.annotation.compiler_begin(y, "acme")), "acme")
        ),
    ),
    "dropout": (lambda y: relay.nn.dropout(y), lambda y: back(relay.nn.dropout(y))),
    "a resize that had the layout": (
        lambda y: relay.image.resize2d(y, (9, 9)),
        lambda y: back(relay.image.resize2d(y, (9, 9), layout="NHWC")),
    ),
    "correlation keeps its own": (
        lambda y: relay.nn.correlation(y, y, 1, 1, 1, 1, 1, True, "NCHW"),
        lambda y: (lambda z: relay.nn.correlation(z, z, 1, 1, 1, 1, 1, True, "NCHW"))(back(y)),
    ),
    "dilation2d keeps its own": (
        lambda y: relay.image.dilation2d(y, relay.const([[[1.0]]] * 8)),
        lambda y: relay.image.dilation2d(back(y), relay.const([[[1.0]]] * 8)),
    ),
}


@pytest.mark.parametrize("case", FOLLOWED)
def test_an_operator_follows_a_permuted_layout(case):
    follow, followed = FOLLOWED[case]

    def whole(body):
        return relay.Function(relay.analysis.free_vars(body), body)

    before = run_passes(whole(follow(conv())), transform.ConvertLayout(TO_NHWC))
    assert_structural_equal(before, typed(whole(followed(last()))), map_free_vars=True)
    if "like" not in case and "region" not in case:
        assert_same_numbers(typed(whole(follow(conv()))), before, rtol=1e-3)


def test_a_reduction_of_everything_keeps_its_attributes():
    after = run_passes(relay.Function([X, W], relay.sum(conv())), transform.ConvertLayout(TO_NHWC))
    assert after.body.attrs.axis is None


def test_positions_follow_into_blocks_along_the_split_axis_alone():
    def hook(attrs, inputs, tinfos, out_type):
        return relay.nn.conv2d(*inputs, **{**attrs, "data_layout": "NCHW4c"})

    for axes, blocked in (([1], [1, 4]), ([2, 3], [2, 3]), ([1, 2], None)):
        before = relay.Function([X, W], relay.argmax(conv(), axis=axes))
        with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", hook):
            after = run_passes(before, transform.AlterOpLayout())
        found = [c.attrs.axis for c in _calls(after, "argmax")]
        assert found == [tuple(blocked or axes)]
        assert_same_numbers(typed(before), after)


def _calls(func, name):
    nodes = []
    relay.analysis.post_order_visit(func, nodes.append)
    return [n for n in nodes if isinstance(n, relay.Call) and getattr(n.op, "name", "") == name]


def test_blocks_follow_through_slice_like_and_a_concatenation_of_one_layout():
    def hook(attrs, inputs, tinfos, out_type):
        return relay.nn.conv2d(*inputs, **{**attrs, "data_layout": "NCHW4c"})

    y = conv()
    like = relay.strided_slice(y, [4], [8], axes=[1])
    for body, transforms in (
        (relay.slice_like(y, like, axes=[1]), 2),
        (relay.concatenate([y, like], axis=1), 2),
        (relay.concatenate([y, X], axis=1), 2),  # which come in two layouts, and join in the one that they had
    ):
        before = relay.Function([X, W], body)
        with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", hook):
            after = run_passes(before, transform.AlterOpLayout())
        assert calls_of(after).count("layout_transform") == transforms
        assert_same_numbers(typed(before), after)


def test_a_block_of_one_where_both_were_in_blocks_is_a_block():
    """An operand that had the old blocks is blocked anew; only a new block of a single element is a block of one."""
    x, w, bias = var("x", 1, 2, 5, 5, 4), var("w", 1, 8, 3, 3), var("bias", 1, 1, 1, 1, 4)
    w = var("w", 4, 8, 3, 3)

    def network(layout, bring):
        y = relay.nn.conv2d(bring(x), w, data_layout=layout, kernel_size=(3, 3), channels=4)
        return relay.add(y, bring(bias))

    def hook(attrs, inputs, tinfos, out_type):
        return relay.nn.conv2d(*inputs, **{**attrs, "data_layout": "NCHW2c"})

    before = relay.Function([x, w, bias], network("NCHW4c", lambda v: v))
    expected = network("NCHW2c", lambda v: relay.layout_transform(v, "NCHW4c", "NCHW2c"))
    expected = relay.Function([x, w, bias], relay.layout_transform(expected, "NCHW2c", "NCHW4c"))
    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", hook):
        check(before, transform.AlterOpLayout(), expected)


def test_operators_with_layouts_of_their_own_are_converted_when_asked():
    x, rois = var("x", 1, 4, 8, 8), var("rois", 5, 5)
    before = relay.Function([x, rois], relay.vision.roi_pool(x, rois, (2, 2), 1.0))
    after = run_passes(before, transform.ConvertLayout({"vision.roi_pool": ["NHWC", "default"]}))
    assert _calls(after, "vision.roi_pool")[0].attrs.layout == "NHWC"
    q = var("q", 1, 4, 8, 8, dtype="uint8")
    numbers = [relay.const(0.5), relay.const(3), relay.const(0.25), relay.const(1)]
    pool = relay.qnn.op.avg_pool2d(q, *numbers, (2, 2), (2, 2), (0, 0), (1, 1), layout="NCHW")
    before = relay.Function([q], pool)
    after = run_passes(before, transform.ConvertLayout({"qnn.avg_pool2d": ["NHWC"]}))
    attrs = _calls(after, "qnn.avg_pool2d")[0].attrs
    assert (attrs.layout, attrs.out_layout) == ("NHWC", "NHWC")
    assert_same_numbers(typed(before), after, low=0, high=200)


@pytest.mark.parametrize("kernel", ["default", "OHWI"])
def test_the_gradient_of_a_kernel_is_converted_with_its_data(kernel):
    grad, data = var("grad", 2, 3, 5, 6), var("data", 2, 4, 5, 6)
    before = relay.Function(
        [grad, data], relay.nn.conv2d_backward_weight(grad, data, padding=(1, 1), kernel_size=(3, 3))
    )
    after = run_passes(before, transform.ConvertLayout({"nn.conv2d_backward_weight": ["NHWC", kernel]}))
    attrs = _calls(after, "nn.conv2d_backward_weight")[0].attrs
    wanted = "HWIO" if kernel == "default" else kernel
    assert (attrs.data_layout, attrs.kernel_layout, attrs.out_layout) == ("NHWC", "NHWC", wanted)
    assert_same_numbers(typed(before), after)


def test_a_convolution_in_blocks_is_another_operator_unless_the_blocks_do_not_fit():
    layouts = {"nn.conv2d": ["NCHW4c", "OIHW4i4o"]}
    after = run_passes(relay.Function([X, W], relay.nn.relu(conv())), transform.ConvertLayout(layouts))
    assert calls_of(after).count("nn.contrib_conv2d_NCHWc") == 1
    assert_same_numbers(typed(relay.Function([X, W], relay.nn.relu(conv()))), after)
    x, w = var("x", 1, 3, 6, 6), var("w", 8, 3, 3, 3)
    func = relay.Function([x, w], relay.nn.conv2d(x, w))
    assert_structural_equal(run_passes(func, transform.ConvertLayout(layouts)), typed(func))


def _relu_in_its_old_layout(attrs, new, old, types):
    assert new is None or all(isinstance(layout, Layout) for layout in new)
    layout = old[0] if old[0] else Layout("NCHW")
    return InferCorrectLayoutOutput([layout], [layout], attrs)


def test_a_users_rule_counts_from_level_ten_on_and_not_below():
    op = relay.op.get("nn.relu")
    declared = op.get_attr("FInferCorrectLayout")
    before = relay.Function([X, W], relay.nn.relu(conv()))
    kept = typed(relay.Function([X, W], back(relay.nn.relu(last()))))
    brought_back = typed(relay.Function([X, W], relay.nn.relu(back(last()))))
    try:
        for level, expected in ((5, kept), (11, brought_back)):
            relay.op.register_infer_correct_layout("nn.relu", _relu_in_its_old_layout, level=level)
            assert_structural_equal(run_passes(before, transform.ConvertLayout(TO_NHWC)), expected)
    finally:
        op.reset_attr("FInferCorrectLayout")
        op.set_attr("FInferCorrectLayout", declared)
    assert_structural_equal(run_passes(before, transform.ConvertLayout(TO_NHWC)), kept)


def test_an_operator_answers_when_its_rule_is_asked():
    rule = relay.op.get("nn.pad").get_attr("FInferCorrectLayout")
    call = relay.nn.pad(X, ((0, 0), (0, 0), (1, 1), (2, 2)))
    found = rule(call.attrs, [Layout("NHWC"), Layout()], [Layout("NCHW"), Layout()], [X.type_annotation])
    assert found.input_layouts[0].name == "NHWC" and found.new_attrs.pad_width[1] == (1, 1)
    assert [x.name for x in found.output_layouts] == ["NHWC"]
    unknown = rule(call.attrs, None, [None, None], [X.type_annotation])
    assert not any(unknown.output_layouts)


def test_the_empty_word_is_an_undefined_layout_and_no_axes_are_an_empty_one():
    assert not Layout("").defined and Layout("") == Layout()
    assert Layout("NCHW").sub_layout(4, 0).defined and len(Layout("NCHW").sub_layout(4, 0)) == 0


def test_a_list_attribute_prints_as_a_list():
    pad = relay.nn.pad(X, ((0, 0), (0, 0), (1, 1), (2, 2)))
    assert str(conv().attrs.padding) == "[1, 1, 1, 1]" and repr(conv().attrs.kernel_size) == "[3, 3]"
    assert str(pad.attrs.pad_width) == "[[0, 0], [0, 0], [1, 1], [2, 2]]"
    reshaped = relay.reshape(X, (-1, 4))
    assert str(relay.sum(X, axis=1).attrs["axis"]) == "[1]" and str(reshaped.attrs.newshape) == "[-1, 4]"
    assert conv().attrs.padding == (1, 1, 1, 1) and hash(conv().attrs.padding) == hash((1, 1, 1, 1))


@pytest.mark.parametrize(
    "name, call, inputs, outputs",
    [
        ("nn.matmul", lambda: relay.nn.matmul(var("a", 2, 3), var("b", 3, 4)), ["NC", "NC"], ["NC"]),
        ("nn.dense", lambda: relay.nn.dense(var("a", 2, 3), var("b", 4, 3)), ["NC", "NC"], ["NC"]),
        (
            "nn.bitserial_conv2d",
            lambda: relay.nn.bitserial_conv2d(
                var("a", 1, 4, 4, 32), var("b", 3, 3, 32, 8), data_layout="NHWC", kernel_layout="HWIO"
            ),
            ["NHWC", "HWIO"],
            ["NHWC"],
        ),
        ("image.dilation2d", lambda: relay.image.dilation2d(X, var("k", 8, 3, 3)), ["NCHW", "IHW"], ["NCHW"]),
        (
            "nn.contrib_conv2d_winograd_without_weight_transform",
            lambda: relay.nn.contrib_conv2d_winograd_without_weight_transform(
                X, var("k", 4, 4, 8, 8), 2, channels=8, kernel_size=(3, 3)
            ),
            ["NCHW", "OIHW"],
            ["NCHW"],
        ),
    ],
)
def test_products_and_windows_say_their_own_layouts(name, call, inputs, outputs):
    call = call()
    rule = relay.op.get(name).get_attr("FInferCorrectLayout")
    found = rule(call.attrs, None, [Layout()] * len(call.args), [a.type_annotation for a in call.args])
    assert [x.name for x in found.input_layouts] == inputs and [x.name for x in found.output_layouts] == outputs
