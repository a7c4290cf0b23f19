"""Layouts: names, factors, maps between them; blocked layouts of layout_transform and of operators with windows."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same_numbers, typed

from byoc import relay
from byoc.errors import TypeInferenceError, UserError
from byoc.ir.layout import BijectiveLayout, Layout, bijective_layout, layout
from byoc.relay.interpreter import evaluate


def test_a_layout_knows_its_axes_and_their_blocks():
    nchwc = layout("NCHW16c")
    assert isinstance(nchwc, Layout) and len(nchwc) == 5
    assert (nchwc.factor_of("c"), nchwc.factor_of("C"), nchwc.factor_of("N")) == (16, 16, -1)
    assert [nchwc.index_of(axis) for axis in "NCHWcO"] == [0, 1, 2, 3, 4, -1]
    assert all(axis in nchwc for axis in "NCHWc") and "O" not in nchwc
    assert [nchwc[k] for k in range(-1, 5)] == ["c", "N", "C", "H", "W", "c"]
    assert layout("NCHW", dtype="int64").axes[0].var.dtype == "int64"


@pytest.mark.parametrize("word", ["NCHW16", "NCHWC", "NHW16c", "NC-HW", "NCHW0c"])
def test_a_word_that_is_no_layout_is_refused(word):
    with pytest.raises(UserError, match="is no layout"):
        layout(word)


@pytest.mark.parametrize(
    "src, dst", [("NCHW", "ABCD"), ("__undef__", "NCHW"), ("NCHW", "__undef__"), ("", "NCHW"), ("", ""), ("NC", "NCH")]
)
def test_layouts_of_other_axes_have_no_map(src, dst):
    assert bijective_layout(src, dst) is None
    with pytest.raises(UserError, match="cannot become"):
        BijectiveLayout(Layout(src), Layout(dst))


def test_a_map_of_layouts_takes_shapes_and_indices_both_ways():
    blocked = bijective_layout("NCHW", "NCHW16c")
    assert blocked.forward_shape((1, 32, 7, 7)) == (1, 2, 7, 7, 16)
    assert blocked.backward_shape((1, 2, 7, 7, 16)) == (1, 32, 7, 7)
    assert blocked.forward_index([0, 18, 6, 6]) == (0, 1, 6, 6, 2)
    assert blocked.backward_index([0, 1, 6, 6, 2]) == (0, 18, 6, 6)
    assert blocked.forward_shape((relay.Any(), 32, 7, 7))[0] == relay.Any()
    nested = bijective_layout("OIHW", "OIHW4i16o4i")
    assert nested.forward_shape((32, 32, 3, 3)) == (2, 2, 3, 3, 4, 16, 4)
    assert nested.forward_index([17, 22, 1, 2]) == (1, 1, 1, 2, 1, 1, 2)
    assert nested.backward_index([1, 1, 1, 2, 1, 1, 2]) == (17, 22, 1, 2)


def test_parts_of_a_layout_may_have_a_block_without_its_axis():
    part = layout("NCHW4c").sub_layout(2, 3)
    assert part.name == "HW4c" and part.primal == ["H", "W"] and bijective_layout(part, "HW") is None
    assert part.expand_primal(layout("NCHW")).name == "NCHW4c"
    assert layout("NCHW").sub_layout(4, 0).name == "" and not layout("NCHW").sub_layout(5, 1).defined


def test_a_layout_transform_with_nested_blocks_moves_each_element_as_the_map_says():
    src, dst = "HWIO4i", "OIHW2i4o4i"
    data = np.arange(2 * 2 * 2 * 8 * 4, dtype="float32").reshape(2, 2, 2, 8, 4)
    expr = relay.layout_transform(relay.const(data), src, dst)
    moved = evaluate(expr)
    between = bijective_layout(src, dst)
    assert moved.shape == between.forward_shape(data.shape)
    for index in np.ndindex(*data.shape):
        assert moved[between.forward_index(index)] == data[index]


def blocked_and_plain(build, plain, shape, c=8):
    x = relay.var("x", shape=shape)
    y = build(relay.layout_transform(x, plain, f"NCHW{c}c"), f"NCHW{c}c")
    return typed(relay.Function([x], relay.layout_transform(y, f"NCHW{c}c", plain))), typed(
        relay.Function([x], build(x, plain))
    )


@pytest.mark.parametrize(
    "build",
    [
        lambda x, layout: relay.nn.max_pool2d(x, (2, 2), strides=(2, 2), layout=layout),
        lambda x, layout: relay.nn.avg_pool2d(x, (3, 3), padding=(1, 1), layout=layout),
        lambda x, layout: relay.nn.global_avg_pool2d(x, layout=layout),
        lambda x, layout: relay.nn.adaptive_max_pool2d(x, (2, 3), layout=layout),
        lambda x, layout: relay.nn.upsampling(x, 2, 2, layout=layout),
        lambda x, layout: relay.image.resize2d(x, (5, 7), layout=layout),
        lambda x, layout: relay.nn.conv2d(
            x, relay.const(np.linspace(-1, 1, 16 * 16 * 9).reshape(16, 16, 3, 3).astype("float32")), data_layout=layout
        ),
    ],
)
@pytest.mark.parametrize("plain, shape", [("NCHW", (1, 16, 6, 6)), ("NHWC", (1, 6, 6, 16))])
def test_operators_with_windows_take_blocked_layouts(build, plain, shape):
    blocked, whole = blocked_and_plain(build, plain, shape)
    assert_same_numbers(whole, blocked)


def test_a_block_that_does_not_divide_is_refused():
    x = relay.var("x", shape=(1, 2, 5, 5, 4))
    with pytest.raises(TypeInferenceError, match="does not have the blocks"):
        typed(relay.nn.max_pool2d(x, (2, 2), layout="NCHW8c"))
    w = relay.var("w", shape=(6, 8, 1, 1))
    with pytest.raises(TypeInferenceError, match="no multiple"):
        typed(relay.nn.conv2d(x, w, data_layout="NCHW4c"))
