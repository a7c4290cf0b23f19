"""AlterOpLayout and Legalize: hooks of operators, and how layouts flow around what they make."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import TempOpAttr, assert_same_numbers, check, run_passes, typed
from random_graphs import calls_of

from byoc import relay
from byoc.errors import UserError
from byoc.ir.target import Target
from byoc.relay import transform
from byoc.relay.interpreter import evaluate
from byoc.relay.structure.structural import assert_structural_equal, structural_equal
from byoc.relay.traverse import post_order

BLOCK = "NCHW16c"


def blocked_conv(attrs, inputs, tinfos, out_type):
    data, weight = inputs
    return relay.nn.conv2d(data, weight, **{**attrs, "data_layout": BLOCK})


def altered(before, expected, hook=blocked_conv, numbers=True, op="nn.conv2d"):
    with TempOpAttr(op, "FTVMAlterOpLayout", hook):
        return check(before, [transform.CanonicalizeOps(), transform.AlterOpLayout()], expected, numbers=numbers)


def block(x):
    return relay.layout_transform(x, "NCHW", BLOCK)


def plain(x):
    return relay.layout_transform(x, BLOCK, "NCHW")


def var(name, *shape):
    return relay.var(name, shape=shape)


def conv(x, w, **attrs):
    return relay.nn.conv2d(x, w, channels=64, kernel_size=(3, 3), padding=(1, 1), **attrs)


X, W = var("x", 1, 64, 8, 8), var("weight", 64, 64, 3, 3)


def test_a_hook_replaces_the_operator_once():
    def hook(attrs, inputs, tinfos, out_type):
        data, weight = inputs
        assert tinfos[0].shape == (1, 64, 8, 8) and out_type.shape == (1, 64, 8, 8)
        return relay.nn.conv2d(data, relay.multiply(weight, relay.const(2.0, "float32")), **attrs)

    expected = relay.nn.relu(conv(X, relay.multiply(W, relay.const(2.0, "float32"))))
    altered(relay.Function([X, W], relay.nn.relu(conv(X, W))), relay.Function([X, W], expected), hook, numbers=False)


def test_a_hook_that_answers_none_changes_nothing():
    calls = []

    def hook(attrs, inputs, tinfos, out_type):
        calls.append(attrs)

    before = relay.Function([X], relay.nn.global_max_pool2d(X))
    altered(before, before, hook, op="nn.global_max_pool2d")
    assert len(calls) == 1


def test_what_follows_takes_the_new_layout_and_the_kernel_is_packed_as_the_hook_says():
    bias = var("bias", 64)

    def hook(attrs, inputs, tinfos, out_type):
        return relay.nn.conv2d(*inputs, **{**attrs, "data_layout": BLOCK, "kernel_layout": "OIHW16i"})

    y = relay.nn.relu(relay.nn.bias_add(conv(X, W), bias))
    y = relay.nn.batch_flatten(relay.cast(relay.nn.max_pool2d(relay.Tuple([y])[0], (2, 2)), "int32"))
    params = [X, bias, W]
    weight = relay.layout_transform(W, "OIHW", "OIHW16i")
    z = conv(block(X), weight, data_layout=BLOCK, kernel_layout="OIHW16i")
    z = relay.nn.relu(relay.add(z, block(relay.expand_dims(relay.expand_dims(bias, 1, 2), 0, 1))))
    z = relay.nn.batch_flatten(plain(relay.cast(relay.nn.max_pool2d(z, (2, 2), layout=BLOCK), "int32")))
    altered(relay.Function(params, y), relay.Function(params, z), hook)


def test_two_paths_join_in_the_new_layout():
    w2 = var("w2", 64, 64, 3, 3)
    y = relay.nn.relu(conv(X, W))
    before = relay.add(conv(y, w2), y)
    z = relay.nn.relu(conv(block(X), W, data_layout=BLOCK))
    expected = plain(relay.add(conv(z, w2, data_layout=BLOCK), z))
    altered(relay.Function([X, W, w2], before), relay.Function([X, W, w2], expected))


def test_a_reader_outside_the_layout_gets_one_transform_back():
    y = relay.nn.relu(conv(X, W))
    before = relay.Tuple((relay.nn.prelu(y, relay.const([0.5] * 64)), relay.nn.batch_flatten(y)))
    after = typed(relay.Function([X, W], before))
    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", blocked_conv):
        after = run_passes(relay.Function([X, W], before), transform.AlterOpLayout())
    assert calls_of(after).count("layout_transform") == 2
    assert_same_numbers(typed(relay.Function([X, W], before)), after)


def test_broadcast_operands_get_axes_and_blocks_on_either_side():
    bias, scale = var("bias", 64), var("scale", 64, 1, 1)
    params = [X, bias, scale, W]
    before = relay.multiply(scale, relay.nn.bias_add(conv(X, W), bias))
    b = block(relay.expand_dims(relay.expand_dims(bias, 1, 2), 0, 1))
    s = block(relay.expand_dims(scale, 0, 1))
    expected = plain(relay.multiply(s, relay.add(conv(block(X), W, data_layout=BLOCK), b)))
    altered(relay.Function(params, before), relay.Function(params, expected))


def test_scalars_of_any_rank_stay_as_they_are():
    x, kernel, bias = var("x", 1, 9, 9, 64), var("kernel", 3, 3, 64, 64), var("bias", 64)
    one, two = var("one", 1), var("two", 1, 1)
    options = {"kernel_layout": "HWIO", "kernel_size": (3, 3)}
    y = relay.nn.conv2d(x, kernel, data_layout="NHWC", **options)
    y = relay.multiply(relay.multiply(one, relay.nn.relu(relay.add(bias, y))), two)
    z = relay.nn.conv2d(relay.layout_transform(x, "NHWC", BLOCK), kernel, data_layout=BLOCK, **options)
    b = relay.layout_transform(relay.expand_dims(bias, axis=0, num_newaxis=3), "NHWC", BLOCK)
    z = relay.multiply(relay.multiply(one, relay.nn.relu(relay.add(b, z))), two)
    params = [x, kernel, bias, one, two]
    expected = relay.layout_transform(z, BLOCK, "NHWC")
    altered(relay.Function(params, y), relay.Function(params, expected))


def test_vectors_that_were_made_in_blocks_join_as_blocks():
    x, w, gamma = var("x", 1, 8, 8, 64), var("w", 3, 3, 64, 64), var("gamma", 64)

    def network(data, mean, factor, **layouts):
        y = conv(data, w, kernel_layout="HWIO", **layouts)
        return relay.multiply(y, factor(relay.add(mean(y), gamma)))

    before = network(x, lambda y: relay.mean(y, axis=3, exclude=True), lambda v: v, data_layout="NHWC")
    blocks = relay.layout_transform(gamma, "C", "C16c")
    y = conv(relay.layout_transform(x, "NHWC", BLOCK), w, data_layout=BLOCK, kernel_layout="HWIO")
    factor = relay.add(relay.mean(y, axis=[1, 4], exclude=True), blocks)
    factor = relay.layout_transform(relay.expand_dims(factor, axis=0, num_newaxis=3), "NHWC16c", BLOCK)
    expected = relay.layout_transform(relay.multiply(y, factor), BLOCK, "NHWC")
    altered(relay.Function([x, w, gamma], before), relay.Function([x, w, gamma], expected))


def test_an_operand_with_one_channel_gets_a_block_of_one():
    mask = var("mask", 1, 1, 8, 8)
    before = relay.multiply(conv(X, W), mask)
    single = relay.layout_transform(mask, "NCHW", "NCHW1c")
    expected = plain(relay.multiply(conv(block(X), W, data_layout=BLOCK), single))
    altered(relay.Function([X, W, mask], before), relay.Function([X, W, mask], expected))


def test_concatenation_and_split_follow_in_blocks():
    w2 = var("w2", 64, 64, 3, 3)
    y = conv(X, W)
    before = relay.split(relay.concatenate([y, conv(y, w2)], axis=1), 2, axis=1)
    z = conv(block(X), W, data_layout=BLOCK)
    parts = relay.split(relay.concatenate([z, conv(z, w2, data_layout=BLOCK)], axis=1), 2, axis=1)
    before = relay.add(relay.nn.relu(before[0]), before[1])
    expected = plain(relay.add(relay.nn.relu(parts[0]), parts[1]))
    altered(relay.Function([X, W, w2], before), relay.Function([X, W, w2], expected))


def test_a_split_inside_a_block_is_made_in_the_old_layout():
    parts = relay.split(conv(X, W), (8, 40), axis=1)
    z = relay.split(plain(conv(block(X), W, data_layout=BLOCK)), (8, 40), axis=1)
    altered(relay.Function([X, W], parts[1]), relay.Function([X, W], z[1]))


def test_a_sum_over_channels_takes_the_axis_and_its_block():
    before = relay.sum(conv(X, W), axis=1, keepdims=True)
    z = relay.sum(conv(block(X), W, data_layout=BLOCK), axis=[1, 4], keepdims=True)
    expected = relay.layout_transform(z, "NCHW1c", "NCHW")
    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", blocked_conv):
        after = run_passes(relay.Function([X, W], before), transform.AlterOpLayout())
    assert_structural_equal(after, typed(relay.Function([X, W], expected)))
    assert_same_numbers(typed(relay.Function([X, W], before)), after, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "cut, blocked",
    [
        ({"begin": [0, 16], "end": [1, 48]}, {"begin": [0, 1], "end": [1, 3]}),
        ({"begin": [16], "end": [48], "axes": [1]}, {"begin": [1], "end": [3], "axes": [1]}),
        (
            {"begin": [2, 32], "end": [6, 64], "strides": [2, 1], "axes": [3, 1]},
            {"begin": [2, 2], "end": [6, 4], "strides": [2, 1], "axes": [3, 1]},
        ),
        ({"begin": [0, 8], "end": [1, 48]}, None),
        ({"begin": [0, 0], "end": [1, 64], "strides": [1, 2]}, None),
    ],
)
def test_a_slice_of_whole_blocks_is_a_slice_of_blocks(cut, blocked):
    before = relay.strided_slice(conv(X, W), **cut)
    z = conv(block(X), W, data_layout=BLOCK)
    expected = relay.strided_slice(plain(z), **cut) if blocked is None else plain(relay.strided_slice(z, **blocked))
    altered(relay.Function([X, W], before), relay.Function([X, W], expected))


def test_padding_follows_where_the_split_axis_is_not_padded():
    widths = ((0, 0), (0, 0), (1, 1), (2, 2))
    before = relay.nn.pad(conv(X, W), pad_width=widths)
    expected = plain(relay.nn.pad(conv(block(X), W, data_layout=BLOCK), pad_width=(*widths, (0, 0))))
    altered(relay.Function([X, W], before), relay.Function([X, W], expected))
    channels = ((0, 0), (16, 0), (0, 0), (0, 0))
    before = relay.nn.pad(conv(X, W), pad_width=channels)
    expected = relay.nn.pad(plain(conv(block(X), W, data_layout=BLOCK)), pad_width=channels)
    altered(relay.Function([X, W], before), relay.Function([X, W], expected))


def test_pools_and_upsampling_take_the_blocks():
    before = relay.nn.avg_pool2d(relay.nn.upsampling(conv(X, W), scale_h=2, scale_w=2), (2, 2), strides=(2, 2))
    z = relay.nn.upsampling(conv(block(X), W, data_layout=BLOCK), scale_h=2, scale_w=2, layout=BLOCK)
    expected = plain(relay.nn.avg_pool2d(z, (2, 2), strides=(2, 2), layout=BLOCK))
    altered(relay.Function([X, W], before), relay.Function([X, W], expected))


def test_a_transform_of_one_value_is_made_once():
    w2 = var("w2", 64, 64, 3, 3)
    before = relay.Function([X, W, w2], relay.Tuple((conv(X, W), conv(X, w2))))
    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", blocked_conv):
        after = run_passes(before, transform.AlterOpLayout())
    assert calls_of(after).count("layout_transform") == 3


def test_operands_whose_axes_mean_something_else_are_brought_back():
    x, w = var("x", 1, 16, 16, 16), var("w", 16, 16, 1, 1)
    y = relay.nn.conv2d(x, w, channels=16, kernel_size=(1, 1))
    turned = relay.transpose(relay.nn.relu(y), (0, 2, 3, 1))
    before = relay.Function([x, w], relay.add(y, turned))
    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", blocked_conv):
        after = run_passes(before, transform.AlterOpLayout())
    assert_same_numbers(typed(before), after)


def test_a_chain_of_many_operators_is_rewritten():
    y = conv(X, W)
    for _ in range(3000):
        y = relay.nn.relu(y)
    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", blocked_conv):
        after = run_passes(relay.Function([X, W], y), transform.AlterOpLayout())
    assert calls_of(after).count("layout_transform") == 2


def test_a_hook_must_return_a_call():
    with TempOpAttr("nn.max_pool2d", "FTVMAlterOpLayout", lambda attrs, inputs, tinfos, out: inputs[0]):
        func = relay.Function([X], relay.nn.max_pool2d(X))
        with pytest.raises(UserError, match="can only be replaced by another call"):
            run_passes(func, transform.AlterOpLayout())


def legalized(before, expected, hook, op="nn.conv2d", key="FTVMLegalize", numbers=False):
    with TempOpAttr(op, key, hook):
        args = () if key == "FTVMLegalize" else (key,)
        check(before, transform.Legalize(*args), expected, numbers=numbers)


def test_legalize_asks_the_operator_and_gives_it_types():
    def hook(attrs, inputs, types):
        data, weight = inputs
        assert [t.shape for t in types] == [(1, 64, 8, 8), (64, 64, 3, 3), (1, 64, 8, 8)]
        return relay.nn.conv2d(data, relay.multiply(weight, relay.const(2.0, "float32")), **attrs)

    before = relay.Function([X, W], relay.nn.relu(conv(X, W)))
    expected = relay.Function([X, W], relay.nn.relu(conv(X, relay.multiply(W, relay.const(2.0, "float32")))))
    legalized(before, expected, hook)
    legalized(before, expected, hook, key="FMyLegalize")


def test_legalize_takes_none_expressions_and_tuples():
    def concat(attrs, inputs, types):
        assert len(inputs) == 1 and isinstance(inputs[0], relay.Tuple)
        assert len(types) == 2 and isinstance(types[0], relay.TupleType) and isinstance(types[1], relay.TensorType)

    y = relay.concatenate([X, X], axis=1)
    legalized(relay.Function([X], y), relay.Function([X], y), concat, op="concatenate")
    legalized(
        relay.Function([X], relay.nn.relu(relay.abs(X))),
        relay.Function([X], relay.nn.relu(X)),
        lambda attrs, inputs, types: inputs[0],
        op="abs",
    )


def test_legalize_reaches_every_call_of_a_chain():
    def leaky(attrs, inputs, types):
        return relay.add(relay.nn.relu(inputs[0]), relay.multiply(inputs[0], relay.const(attrs.alpha, "float32")))

    before = relay.nn.leaky_relu(relay.nn.leaky_relu(X, 0.5), 0.25)
    one = leaky(type("A", (), {"alpha": 0.5}), [X], None)
    legalized(
        relay.Function([X], before),
        relay.Function([X], leaky(type("A", (), {"alpha": 0.25}), [one], None)),
        leaky,
        op="nn.leaky_relu",
    )


@pytest.mark.parametrize(
    "target, channels, padded",
    [
        ("llvm -device=arm_cpu", (3, 5), (8, 8)),
        ("llvm -device=arm_cpu -mattr=+neon,+dotprod", (3, 5), (8, 8)),
        ("llvm -device=arm_cpu -mattr=+dotprod", (3, 5), (3, 8)),
        ("llvm -device=arm_cpu", (16, 8), (16, 8)),
        ("llvm -device=arm_cpu", (4, 8), (8, 8)),
        ("llvm", (3, 5), (3, 5)),
    ],
)
def test_channels_of_bytes_are_padded_to_whole_vectors_on_arm(target, channels, padded):
    taken, made = channels
    x, w = relay.var("x", shape=(1, 6, 6, taken), dtype="int8"), relay.var("w", shape=(3, 3, taken, made), dtype="int8")
    body = relay.nn.conv2d(
        x, w, channels=made, kernel_size=(3, 3), data_layout="NHWC", kernel_layout="HWIO", out_dtype="int32"
    )
    mod = transform.InferType()(relay.IRModule.from_expr(relay.Function([x, w], body)))
    with Target(target):
        after = transform.Legalize()(mod)
    conv = next(n for n in post_order(after["main"]) if isinstance(n, relay.Call) and n.op.name == "nn.conv2d")
    assert conv.args[1].checked_type.shape[2:] == padded and conv.attrs.channels == padded[1]
    assert after["main"].body.checked_type == mod["main"].body.checked_type
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-9, 9, p.checked_type.concrete_shape).astype("int8") for p in (x, w)]
    np.testing.assert_array_equal(evaluate(after, inputs), evaluate(mod, inputs))


def test_on_arm_other_layouts_groups_and_dtypes_stay():
    def stays(dtype, **options):
        layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO", **options}
        first = options.get("data_layout", "NHWC").startswith("NC")
        x = relay.var("x", shape=(1, 4, 6, 6) if first else (1, 6, 6, 4), dtype=dtype)
        w = relay.var("w", shape=(4, 4, 3, 3) if first else (3, 3, 4 // options.get("groups", 1), 4), dtype=dtype)
        out = "int32" if "int" in dtype else ""
        body = relay.nn.conv2d(x, w, channels=4, kernel_size=(3, 3), out_dtype=out, **layouts)
        mod = transform.InferType()(relay.IRModule.from_expr(relay.Function([x, w], body)))
        with Target("llvm -device=arm_cpu"):
            return structural_equal(transform.Legalize()(mod), mod)

    assert stays("float32") and stays("int8", groups=2) and stays("int8", dilation=(2, 2))
    assert stays("int8", data_layout="NCHW", kernel_layout="OIHW") and not stays("uint8")
